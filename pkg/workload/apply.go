package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"
)

// fieldManager is the name under which works are applied on the hub. What other names have set on a work stays.
const fieldManager = "nave-work"

// What can happen to a work.
const (
	Created   = "created"
	Changed   = "changed"
	Unchanged = "unchanged"
	Deleted   = "deleted"
)

// Change is what was done with one work.
type Change struct {
	Cluster, Work string
	Verb          string               // one of those above
	Manifests     int                  // that the work has now
	Before        *workv1.ManifestWork // the work as it was; nil if it is new
	Result        *workv1.ManifestWork // as the hub has it now, or would; nil if it is deleted
}

// Applier puts objects into the works of a set, one cluster after the other.
type Applier struct {
	Hub      workclient.Interface
	Set      string // name of the first work, see CheckName
	Options  Options
	Force    bool          // take over works that something else made
	DryRun   bool          // the hub says what it would do
	MaxBytes int           // that a work may hold; what the hub allows if 0
	Timeout  time.Duration // how long an agent may take to apply an object in another work before it leaves the one that it was in
	Tell     func(Change)  // what is done, as it is done

	learned int // limit that the hub has named
}

// Apply brings the works of one cluster in line with the objects. ManifestWorks among them are applied as they are; all
// others are put into works of the set, of which those are deleted that nothing is left for.
//
// An object that moves from one work to another is there in both until the agent has applied it in the new one, so it never
// leaves the cluster. If the agent does not do that in time, everything stays so, and the next call goes on.
func (a *Applier) Apply(ctx context.Context, cluster string, objects []Object) error {
	var plain []Object
	for _, o := range objects {
		if !o.IsWork() {
			plain = append(plain, o)
			continue
		}
		if err := a.applyWhole(ctx, cluster, o); err != nil {
			return err
		}
	}
	if len(plain) == 0 {
		return nil
	}
	for {
		err := a.applySet(ctx, cluster, plain)
		if limit := limitIn(err); limit > 0 && a.MaxBytes == 0 && limit != a.learned {
			a.learned = limit // nothing that was written so far is wrong with a smaller limit
			continue
		}
		return err
	}
}

func (a *Applier) applyWhole(ctx context.Context, cluster string, o Object) error {
	work, err := whole(o, cluster)
	if err != nil {
		return err
	}
	before, err := a.Hub.WorkV1().ManifestWorks(cluster).Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		before = nil
	case err != nil:
		return fmt.Errorf("work %s of cluster %s: %w", o.Name, cluster, err)
	case before.Labels[SetLabel] != setValue(o.Name) && !a.Force:
		return foreign(before)
	}
	_, err = a.write(ctx, before, work)
	return err
}

func foreign(work *workv1.ManifestWork) error {
	if of := work.Labels[SetLabel]; of != "" {
		return fmt.Errorf("work %s of cluster %s is a part of %s; choose another name", work.Name, work.Namespace, of)
	}
	return fmt.Errorf("work %s of cluster %s was not made by nave work apply; choose another name, or take it over with --force", work.Name, work.Namespace)
}

// plan is what a set is to be on one cluster, and what it is.
type plan struct {
	set     Set
	split   split
	current map[int]*workv1.ManifestWork
	holds   map[int]map[ID]bool // what the current ones hold
}

// plan looks at the hub and decides what goes where.
func (a *Applier) plan(ctx context.Context, cluster string, objects []Object) (*plan, error) {
	p := &plan{set: Set{a.Hub, cluster, a.Set}, current: map[int]*workv1.ManifestWork{}, holds: map[int]map[ID]bool{}}
	works, err := p.set.parts(ctx)
	if err != nil {
		return nil, err
	}
	for _, work := range works {
		p.add(work)
	}
	switch other, err := a.other(ctx, p, 1); {
	case err != nil:
		return nil, err
	case other != nil && !a.Force:
		return nil, foreign(other)
	case other != nil:
		p.add(other)
	}
	limit, err := a.limit(ctx, cluster, objects)
	if err != nil {
		return nil, err
	}
	taken := map[int]bool{}
	for {
		p.split, err = divide(objects, p.holds, taken, limit)
		if err != nil {
			return nil, err
		}
		again := false
		for _, part := range slices.Sorted(maps.Keys(p.split.parts)) {
			other, err := a.other(ctx, p, part)
			if err != nil {
				return nil, err
			}
			if other != nil { // app-2 may be the work of another application
				taken[part], again = true, true
			}
		}
		if !again {
			return p, p.check()
		}
	}
}

// other is a work that has the name of a part and is none of the set's; nil if there is none.
func (a *Applier) other(ctx context.Context, p *plan, part int) (*workv1.ManifestWork, error) {
	if p.current[part] != nil {
		return nil, nil
	}
	work, err := a.Hub.WorkV1().ManifestWorks(p.set.Cluster).Get(ctx, partName(a.Set, part), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("work %s of cluster %s: %w", partName(a.Set, part), p.set.Cluster, err)
	}
	return work, nil
}

func (p *plan) add(work *workv1.ManifestWork) {
	part := partNumber(p.set.Name, work.Name)
	p.current[part], p.holds[part] = work, map[ID]bool{}
	for _, o := range objectsIn(work) {
		p.holds[part][o.ID] = true
	}
}

// check refuses to write works that are about to go, and their objects with them.
func (p *plan) check() error {
	for _, work := range p.current {
		if work.DeletionTimestamp != nil {
			return fmt.Errorf("work %s of cluster %s is being deleted: %s; apply again when it is gone", work.Name, p.set.Cluster, Deleting(work))
		}
	}
	return nil
}

func (a *Applier) applySet(ctx context.Context, cluster string, objects []Object) error {
	p, err := a.plan(ctx, cluster, objects)
	if err != nil {
		return err
	}
	first := p.split.receiving(p.holds)
	rest := slices.DeleteFunc(slices.Sorted(maps.Keys(p.split.parts)), func(part int) bool { return slices.Contains(first, part) })
	if err := a.writeParts(ctx, p, first); err != nil {
		return err
	}
	if len(p.split.moved) > 0 && !a.DryRun {
		if err := a.awaitMoved(ctx, p); err != nil {
			return err
		}
	}
	if err := a.writeParts(ctx, p, rest); err != nil {
		return err
	}
	for _, part := range slices.Sorted(maps.Keys(p.current)) {
		if len(p.split.parts[part]) == 0 {
			if err := a.deletePart(ctx, p.current[part]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *Applier) writeParts(ctx context.Context, p *plan, parts []int) error {
	for _, part := range parts {
		work, err := declared(newWork(p.set.Cluster, a.Set, part, p.split.parts[part], a.Options))
		if err != nil {
			return err
		}
		if p.current[part], err = a.write(ctx, p.current[part], work); err != nil {
			return err
		}
	}
	return nil
}

// write applies one work, and makes sure that it is the one that was looked at.
func (a *Applier) write(ctx context.Context, before *workv1.ManifestWork, work *unstructured.Unstructured) (*workv1.ManifestWork, error) {
	if before != nil {
		work.SetUID(before.UID)
	}
	body, err := json.Marshal(work)
	if err != nil {
		return nil, fmt.Errorf("work %s: %w", work.GetName(), err)
	}
	force := true // of fields; that the work is ours has been made sure of
	options := metav1.PatchOptions{FieldManager: fieldManager, Force: &force}
	if a.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	after, err := a.Hub.WorkV1().ManifestWorks(work.GetNamespace()).Patch(ctx, work.GetName(), types.ApplyPatchType, body, options)
	if err != nil {
		return before, fmt.Errorf("apply work %s of cluster %s: %w", work.GetName(), work.GetNamespace(), err)
	}
	change := Change{Cluster: after.Namespace, Work: after.Name, Verb: Changed, Manifests: len(after.Spec.Workload.Manifests), Before: before, Result: after}
	switch {
	case before == nil:
		change.Verb = Created
	case before.Generation == after.Generation && maps.Equal(before.Labels, after.Labels) && maps.Equal(before.Annotations, after.Annotations):
		change.Verb = Unchanged
	}
	a.Tell(change)
	return after, nil
}

// Printable is a work of a hub as people want to see it.
func Printable(work *workv1.ManifestWork) (*unstructured.Unstructured, error) {
	shown := work.DeepCopy()
	shown.ManagedFields = nil
	shown.APIVersion, shown.Kind = workv1.GroupVersion.String(), "ManifestWork"
	return declared(shown)
}

// deletePart deletes a work that nothing is left for.
func (a *Applier) deletePart(ctx context.Context, work *workv1.ManifestWork) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &work.UID}}
	if a.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	err := a.Hub.WorkV1().ManifestWorks(work.Namespace).Delete(ctx, work.Name, options)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete work %s of cluster %s: %w", work.Name, work.Namespace, err)
	}
	a.Tell(Change{Cluster: work.Namespace, Work: work.Name, Verb: Deleted, Before: work})
	return nil
}

// awaitMoved waits until the agent has applied what moves in the works that it moves into.
func (a *Applier) awaitMoved(ctx context.Context, p *plan) error {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	var missing []string
	err := p.set.follow(ctx, slices.Collect(maps.Values(p.current)), func(works []*workv1.ManifestWork) (bool, error) {
		missing = p.notYet(works)
		return len(missing) == 0, nil
	})
	if err == nil || !wait.Interrupted(err) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("cluster %s has not applied what moves to another work within %s: %s; it is in both works until then, and nothing is lost; apply again when the cluster can", p.set.Cluster, a.Timeout, list(missing))
}

// notYet are the objects that move and are not applied where they move to, with what is known of why.
func (p *plan) notYet(works []*workv1.ManifestWork) []string {
	applied := map[ID]bool{}
	trouble := map[ID]string{}
	for _, work := range works {
		for _, m := range States(work) {
			o, err := objectAt(work, m.Ordinal)
			if err != nil || p.split.moved[o.ID] != partNumber(p.set.Name, work.Name) {
				continue
			}
			applied[o.ID] = m.State == Applied || m.State == Complete
			trouble[o.ID] = m.trouble()
		}
	}
	var names []string
	for id := range p.split.moved {
		if !applied[id] {
			why := trouble[id]
			if why == "" {
				why = named(id.Kind, id.Namespace, id.Name)
			}
			names = append(names, why)
		}
	}
	slices.Sort(names)
	return names
}

func objectAt(work *workv1.ManifestWork, ordinal int) (Object, error) {
	objects, err := parse(fmt.Sprintf("manifest %d", ordinal), work.Spec.Workload.Manifests[ordinal].Raw)
	if err != nil {
		return Object{}, err
	}
	if len(objects) != 1 {
		return Object{}, fmt.Errorf("manifest %d is %d objects", ordinal, len(objects))
	}
	return objects[0], nil
}

// Render is what Apply would write to a hub that has nothing yet, with a limit of MaxBytes or that of a hub whose limit
// nobody has changed. It asks nobody.
func (a *Applier) Render(cluster string, objects []Object) ([]*unstructured.Unstructured, error) {
	var works []*unstructured.Unstructured
	var plain []Object
	for _, o := range objects {
		if !o.IsWork() {
			plain = append(plain, o)
			continue
		}
		work, err := whole(o, cluster)
		if err != nil {
			return nil, err
		}
		works = append(works, work)
	}
	limit := a.MaxBytes
	if limit == 0 {
		limit = defaultLimit
	}
	s, err := divide(plain, nil, nil, limit)
	if err != nil {
		return nil, err
	}
	for _, part := range slices.Sorted(maps.Keys(s.parts)) {
		work, err := declared(newWork(cluster, a.Set, part, s.parts[part], a.Options))
		if err != nil {
			return nil, err
		}
		works = append(works, work)
	}
	return works, nil
}
