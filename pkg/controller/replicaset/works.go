package replicaset

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/replicas"
)

const (
	atATime  = 16 // works of one set that are written side by side
	attempts = 5  // at a name that nobody else has
)

// labelsOf are the labels of a work of a set: those of the set, and upstream's two.
func labelsOf(set *workv1alpha1.ManifestWorkReplicaSet, placement string) map[string]string {
	all := maps.Clone(set.Labels)
	if all == nil {
		all = map[string]string{}
	}
	all[replicas.SetLabel] = replicas.SetValue(set.Namespace, set.Name)
	all[replicas.PlacementLabel] = replicas.PlacementValue(placement)
	return all
}

func namesOf(labels map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(labels)), ",")
}

// labelled tells whether a work has the labels of its set, and none that were.
func labelled(set *workv1alpha1.ManifestWorkReplicaSet, placement string, work *workv1.ManifestWork) bool {
	wanted := labelsOf(set, placement)
	for key, value := range wanted {
		if have, ok := work.Labels[key]; !ok || have != value {
			return false
		}
	}
	return work.Annotations[replicas.LabelsAnnotation] == namesOf(wanted)
}

// write makes the changes. One cluster that cannot be written to does not hold up the others.
func (c *Controller) write(ctx context.Context, s *state, p *plan) []error {
	var group errgroup.Group
	group.SetLimit(atATime)
	results := make([]error, len(p.writes)+len(p.removes))
	for i, w := range p.writes {
		group.Go(func() error {
			if err := c.put(ctx, s, p, w); err != nil {
				results[i] = fmt.Errorf("cluster %s: %w", w.cluster, err)
			}
			return nil
		})
	}
	for i, r := range p.removes {
		group.Go(func() error {
			if err := c.remove(ctx, s, r); err != nil {
				results[len(p.writes)+i] = fmt.Errorf("cluster %s: %w", r.Namespace, err)
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in results
	return slices.DeleteFunc(results, func(err error) bool { return err == nil })
}

func (c *Controller) put(ctx context.Context, s *state, p *plan, w write) error {
	var work *workv1.ManifestWork
	var err error
	if w.there == nil {
		work, err = c.create(ctx, p, w)
	} else {
		work, err = c.change(ctx, p, w)
	}
	if work == nil || err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.wrote(work, p.content)
	return nil
}

// create makes a work. Under its name there may be one that is on its way out; its end is an event.
func (c *Controller) create(ctx context.Context, p *plan, w write) (*workv1.ManifestWork, error) {
	works := c.Works.WorkV1().ManifestWorks(w.cluster)
	labels := labelsOf(p.set, w.placement)
	for attempt := range attempts {
		work := &workv1.ManifestWork{
			ObjectMeta: metav1.ObjectMeta{
				Name: replicas.WorkName(p.set, w.placement, attempt), GenerateName: p.set.Name, Namespace: w.cluster, Labels: labels,
				Annotations: map[string]string{replicas.WrittenAnnotation: c.stamp(), replicas.LabelsAnnotation: namesOf(labels)},
			},
			Spec: *p.set.Spec.ManifestWorkTemplate.DeepCopy(),
		}
		made, err := works.Create(ctx, work, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return made, err
		}
		other, err := works.Get(ctx, work.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, fmt.Errorf("work %s went just now", work.Name)
		case err != nil:
			return nil, err
		case other.Labels[replicas.SetLabel] == labels[replicas.SetLabel]:
			return nil, nil // it is about to be seen
		}
	}
	return nil, fmt.Errorf("all names for a work of the set are taken by others, such as %s", replicas.WorkName(p.set, w.placement, 0))
}

func (c *Controller) stamp() string { return c.Clock.Now().UTC().Format(time.RFC3339) }

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// change gives a work that there is the content, the labels, or both. A merge patch would leave fields that the template does
// not have any more. What others put on the work stays.
func (c *Controller) change(ctx context.Context, p *plan, w write) (*workv1.ManifestWork, error) {
	was, labels := w.there.ManifestWork, labelsOf(p.set, w.placement)
	change := []operation{
		{"test", "/metadata/uid", was.UID},
		{"test", "/metadata/resourceVersion", was.ResourceVersion},
		{"add", "/metadata/labels", relabelled(was, labels)},
		{"add", "/metadata/annotations/" + escaped(replicas.LabelsAnnotation), namesOf(labels)},
	}
	if w.content {
		change = append(change, operation{"add", "/metadata/annotations/" + escaped(replicas.WrittenAnnotation), c.stamp()},
			operation{"replace", "/spec", p.set.Spec.ManifestWorkTemplate})
	}
	if _, annotated := was.Annotations[replicas.LabelsAnnotation]; !annotated {
		change = slices.Insert(change, 2, operation{"add", "/metadata/annotations", annotationsOf(was)})
	}
	body, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	work, err := c.Works.WorkV1().ManifestWorks(w.cluster).Patch(ctx, was.Name, types.JSONPatchType, body, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // its disappearance is an event
	}
	return work, err
}

func escaped(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

// annotationsOf are those of a work, without what only its copy in the cache has.
func annotationsOf(work *workv1.ManifestWork) map[string]string {
	all := map[string]string{}
	for key, value := range work.Annotations {
		if key != contentAnnotation {
			all[key] = value
		}
	}
	return all
}

// relabelled are a work's labels with those of the set, and without those that the set had before.
func relabelled(work *workv1.ManifestWork, wanted map[string]string) map[string]string {
	all := maps.Clone(work.Labels)
	for key := range strings.SplitSeq(work.Annotations[replicas.LabelsAnnotation], ",") {
		delete(all, key)
	}
	maps.Copy(all, wanted)
	return all
}

func (c *Controller) remove(ctx context.Context, s *state, r *record) error {
	err := c.Works.WorkV1().ManifestWorks(r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &r.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete work %s: %w", r.Name, err)
	}
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		s.unsee(r.ManifestWork)
	}
	return nil // its disappearance is an event
}
