package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/replicas"
)

const (
	// headPage is how many works are counted at a time, by their metadata.
	headPage = 500
	// waitedFor is how many works that are not gone yet are read for what they wait for.
	waitedFor = 3
)

// Remove deletes the set, of which the hub then deletes the works. It is no error that only works are left of it.
func (r ReplicaSet) Remove(ctx context.Context) error {
	err := r.Works.WorkV1alpha1().ManifestWorkReplicaSets(r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{})
	if err == nil {
		return nil
	}
	if missing(err) {
		left, listErr := r.left(ctx, 1)
		if listErr != nil || len(left) > 0 {
			return listErr
		}
	}
	return r.wrap(err)
}

// AwaitGone waits until the set and all its works are gone, and with them what they have applied: a set does not wait for its
// works unless it says Foreground. A hub that is away is waited for. When the time is over, the error says what is left.
func (r ReplicaSet) AwaitGone(ctx context.Context, timeout time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := r.Clock.NewTicker(rolloutInterval)
	defer ticker.Stop()
	var trouble error // with the hub, and not that the time is over
	for {
		gone, err := r.gone(limited)
		switch {
		case gone:
			return nil
		case limited.Err() == nil:
			trouble = err
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%s is not gone after %s: %s; it goes on, see nave work list -A -o wide", r, timeout, r.remains(ctx, trouble))
		case <-ticker.C():
		}
	}
}

// gone tells whether nothing of the set is left.
func (r ReplicaSet) gone(ctx context.Context) (bool, error) {
	var none MissingError
	if _, err := r.head(ctx); !errors.As(err, &none) {
		return false, err
	}
	left, err := r.left(ctx, 1)
	return err == nil && len(left) == 0, err
}

// left are works of the set that there are, no more than so many; all of them if that is 0.
func (r ReplicaSet) left(ctx context.Context, limit int64) ([]metav1.PartialObjectMetadata, error) {
	resource := schema.GroupVersionResource{Group: workv1.GroupName, Version: "v1", Resource: "manifestworks"}
	options := metav1.ListOptions{Limit: cmp.Or(limit, headPage), LabelSelector: labels.Set{replicas.SetLabel: replicas.SetValue(r.Namespace, r.Name)}.String()}
	var all []metav1.PartialObjectMetadata
	for {
		page, err := r.Metadata.Resource(resource).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("works of %s: %w", r, err)
		}
		all = append(all, page.Items...)
		if options.Continue = page.Continue; options.Continue == "" || limit > 0 {
			return all, nil
		}
	}
}

// remains says what is left of the set, and what that waits for; of a hub that could not be asked, why.
func (r ReplicaSet) remains(ctx context.Context, trouble error) string {
	if trouble != nil {
		return trouble.Error()
	}
	left, err := r.left(ctx, 0)
	switch {
	case err != nil:
		return err.Error()
	case len(left) == 0:
		return "it has no works any more, and is there itself"
	}
	var texts []string
	for _, head := range left {
		text := fmt.Sprintf("work %s of cluster %s", head.Name, head.Namespace)
		if len(texts) < waitedFor {
			if work, err := r.Works.WorkV1().ManifestWorks(head.Namespace).Get(ctx, head.Name, metav1.GetOptions{}); err == nil {
				text += " waits: " + waits(work)
			}
		}
		texts = append(texts, text)
	}
	return list(texts)
}

// waits is what a work waits for that is to be gone.
func waits(work *workv1.ManifestWork) string {
	if work.DeletionTimestamp == nil {
		return "the hub has not deleted it; is its feature gate ManifestWorkReplicaSet on"
	}
	return Deleting(work)
}
