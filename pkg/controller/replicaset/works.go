package replicaset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/replicas"
)

const (
	atATime  = 16 // works of one set that are written side by side
	attempts = 5  // at a name that nobody else has
)

// write makes the changes. One cluster that cannot be written to does not hold up the others.
func (c *Controller) write(ctx context.Context, s *state, e *evaluation) []error {
	c.mu.Lock()
	s.gone = map[types.UID]bool{}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		s.gone = nil
		c.mu.Unlock()
	}()
	var group errgroup.Group
	group.SetLimit(atATime)
	results := make([]error, len(e.writes)+len(e.removes))
	for i, w := range e.writes {
		group.Go(func() error {
			if err := c.put(ctx, s, e, w); err != nil {
				results[i] = fmt.Errorf("cluster %s: %w", w.cluster, err)
			}
			return nil
		})
	}
	for i, r := range e.removes {
		group.Go(func() error {
			if err := c.remove(ctx, s, r); err != nil {
				results[len(e.writes)+i] = fmt.Errorf("cluster %s: %w", r.Namespace, err)
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in results
	return slices.DeleteFunc(results, func(err error) bool { return err == nil })
}

// put writes a work, and takes notice of what became of it.
func (c *Controller) put(ctx context.Context, s *state, e *evaluation, w write) error {
	var work *workv1.ManifestWork
	var err error
	if w.there == nil {
		work, err = c.create(ctx, e, w)
	} else {
		work, err = c.change(ctx, e, w)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, errNotOurs):
		s.unsee(w.there.ManifestWork, true)
	case err == nil:
		s.wrote(work)
	}
	return err
}

var (
	// errPassing is a race with somebody else that the next attempt does not meet.
	errPassing = errors.New("somebody else was faster")
	// errNotOurs is what is said of a work that is gone, or is not of the set any more, though it was known as such.
	errNotOurs = fmt.Errorf("%w: the work is gone", errPassing)
)

// passing tells whether an error is of a kind that nobody has to be told: the next attempt will do.
func passing(err error) bool { return errors.Is(err, errPassing) || apierrors.IsConflict(err) }

// create makes a work, or finds one that was made and not seen.
func (c *Controller) create(ctx context.Context, e *evaluation, w write) (*workv1.ManifestWork, error) {
	works := c.Works.WorkV1().ManifestWorks(w.cluster)
	for attempt := range attempts {
		work := &workv1.ManifestWork{
			ObjectMeta: metav1.ObjectMeta{
				Name: replicas.WorkName(e.set, w.placement, attempt), GenerateName: e.set.Name, Namespace: w.cluster,
			},
		}
		w.marks.put(work)
		c.fill(work, e)
		made, err := works.Create(ctx, work, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return made, err
		}
		other, err := works.Get(ctx, work.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, fmt.Errorf("%w: work %s went just now", errPassing, work.Name)
		case err != nil:
			return nil, err
		case w.marks.of(other):
			return other, nil
		}
	}
	return nil, fmt.Errorf("all names for a work of the set are taken by others, such as %s", replicas.WorkName(e.set, w.placement, 0))
}

// fill gives a work the content, which its next generation has then.
func (c *Controller) fill(work *workv1.ManifestWork, e *evaluation) {
	work.Spec = *e.set.Spec.ManifestWorkTemplate.DeepCopy()
	metav1.SetMetaDataAnnotation(&work.ObjectMeta, replicas.WrittenAnnotation, c.Clock.Now().UTC().Format(time.RFC3339))
	replicas.Intend(work, e.content, work.Generation+1)
}

// change gives a work that there is the content, the labels, or both. What others put on the work stays: it is read first, as
// the copy in the cache lacks its content, and agents write it all the time.
func (c *Controller) change(ctx context.Context, e *evaluation, w write) (*workv1.ManifestWork, error) {
	works := c.Works.WorkV1().ManifestWorks(w.cluster)
	var after *workv1.ManifestWork
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		work, err := works.Get(ctx, w.there.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if work.UID != w.there.UID || !w.marks.of(work) {
			return errNotOurs
		}
		if work.DeletionTimestamp != nil {
			after = work
			return nil
		}
		w.marks.put(work)
		if w.content {
			c.fill(work, e)
		}
		after, err = works.Update(ctx, work, metav1.UpdateOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, errNotOurs
	}
	return after, err
}

// remove deletes a work, and takes notice that it is going or gone.
func (c *Controller) remove(ctx context.Context, s *state, r *record) error {
	err := c.Works.WorkV1().ManifestWorks(r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &r.UID}})
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err): // of two of one name, that one is gone that was known
		s.unsee(r.ManifestWork, true)
	case err != nil:
		return fmt.Errorf("delete work %s: %w", r.Name, err)
	default:
		s.leaves(r, c.Clock.Now())
	}
	return nil
}
