package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	workv1 "open-cluster-management.io/api/work/v1"
)

// Remove deletes all works of the set and returns how many those were. If orphan is set, their objects stay on the cluster:
// the agent is told so, and nothing is deleted unless it has heard that within the time.
func (s Set) Remove(ctx context.Context, orphan bool, timeout time.Duration) (int, error) {
	works, err := s.Works(ctx)
	if err != nil {
		return 0, err
	}
	if len(works) == 0 {
		return 0, s.Missing()
	}
	for _, work := range works {
		if of := ReplicaSetOf(work); of != "" {
			namespace, name, _ := strings.Cut(of, "/")
			return 0, fmt.Errorf("work %s of cluster %s is one of a replica set, and the hub would make it again; nave work delete %s --replica-set -n %s deletes the set", work.Name, s.Cluster, name, namespace)
		}
	}
	if orphan {
		if err := s.orphan(ctx, works, timeout); err != nil {
			return 0, err
		}
	}
	for _, work := range works {
		err := s.Hub.WorkV1().ManifestWorks(s.Cluster).Delete(ctx, work.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &work.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("delete work %s of cluster %s: %w", work.Name, s.Cluster, err)
		}
	}
	return len(works), nil
}

// Missing is the error that says that there is no such work.
func (s Set) Missing() error {
	return fmt.Errorf("cluster %s has no work %s; nave work list --cluster %s shows those that it has", s.Cluster, s.Name, s.Cluster)
}

// orphan makes the agent give the objects up while the works are still there: a work that is being deleted is too late to
// say how.
func (s Set) orphan(ctx context.Context, works []*workv1.ManifestWork, timeout time.Duration) error {
	generations := map[types.UID]int64{}
	for i, work := range works {
		if work.DeletionTimestamp != nil {
			return fmt.Errorf("work %s of cluster %s is being deleted already, with its objects: %s", work.Name, s.Cluster, Deleting(work))
		}
		body := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"deleteOption":{"propagationPolicy":%q,"selectivelyOrphans":null}}}`, work.UID, workv1.DeletePropagationPolicyTypeOrphan)
		after, err := s.Hub.WorkV1().ManifestWorks(s.Cluster).Patch(ctx, work.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
		if err != nil {
			return fmt.Errorf("let the objects of work %s of cluster %s stay: %w", work.Name, s.Cluster, err)
		}
		works[i] = after
		generations[after.UID] = after.Generation
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var held []string
	err := s.follow(ctx, works, func(now []*workv1.ManifestWork) (bool, error) {
		held = notApplied(now, generations)
		return len(held) == 0, nil
	})
	if expired(err) {
		return fmt.Errorf("cluster %s has not said within %s that the objects of %s stay: %s; nothing was deleted", s.Cluster, timeout, s.Name, list(held))
	}
	return err
}

// notApplied are the manifests of which the agent has not said that they are applied at a generation.
func notApplied(works []*workv1.ManifestWork, generations map[types.UID]int64) []string {
	var names []string
	heard := 0
	for _, work := range works {
		if generations[work.UID] != 0 {
			heard++
		}
		for _, m := range States(work) {
			if m.State != Applied && m.State != Complete {
				names = append(names, m.trouble())
			}
		}
	}
	if heard < len(generations) {
		names = append(names, fmt.Sprintf("%d works are not there", len(generations)-heard))
	}
	return names
}

// AwaitGone waits until no work of the set is left. When the time is over, the error says what they wait for.
func (s Set) AwaitGone(ctx context.Context, timeout time.Duration) error {
	works, err := s.Works(ctx)
	if err != nil || len(works) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var left []string
	err = s.follow(ctx, works, func(now []*workv1.ManifestWork) (bool, error) {
		left = nil
		for _, work := range now {
			if slices.ContainsFunc(works, func(w *workv1.ManifestWork) bool { return w.UID == work.UID }) {
				left = append(left, fmt.Sprintf("work %s waits: %s", work.Name, Deleting(work)))
			}
		}
		return len(left) == 0, nil
	})
	if expired(err) {
		return fmt.Errorf("%s of cluster %s is not gone after %s: %s; it goes on, see nave work status %s --cluster %s", s.Name, s.Cluster, timeout, list(left), s.Name, s.Cluster)
	}
	return err
}

// expired tells whether an error says that a time is over.
func expired(err error) bool {
	return err != nil && (wait.Interrupted(err) || errors.Is(err, context.DeadlineExceeded))
}

// Await waits until all works of the set are applied and available as they are now, and tells of every manifest whenever its
// state changes. When the time is over, the error says which are not and why.
func (s Set) Await(ctx context.Context, timeout time.Duration, tell func(ManifestStatus)) ([]*workv1.ManifestWork, error) {
	works, err := s.Works(ctx)
	if err != nil {
		return nil, err
	}
	if len(works) == 0 {
		return nil, s.Missing()
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	told := map[string]string{}
	seen := false
	err = s.follow(ctx, works, func(now []*workv1.ManifestWork) (bool, error) {
		if len(now) == 0 && !seen {
			return false, nil // a list may be older than what was just made
		}
		works, seen = now, true
		if len(now) == 0 {
			return false, fmt.Errorf("%s of cluster %s was deleted meanwhile", s.Name, s.Cluster)
		}
		for _, m := range statesOf(now) {
			if key, text := m.Work+"/"+m.String(), string(m.State)+m.Available+m.Message; told[key] != text {
				told[key] = text
				tell(m)
			}
		}
		for _, work := range now {
			if work.DeletionTimestamp != nil {
				return false, fmt.Errorf("work %s of cluster %s is being deleted: %s", work.Name, s.Cluster, Deleting(work))
			}
		}
		return !slices.ContainsFunc(now, func(w *workv1.ManifestWork) bool { return !settled(w) }), nil
	})
	if expired(err) {
		err = fmt.Errorf("%s of cluster %s is not applied and available after %s: %s", s.Name, s.Cluster, timeout, list(troubles(works)))
	}
	return works, err
}

func statesOf(works []*workv1.ManifestWork) []ManifestStatus {
	var all []ManifestStatus
	for _, work := range works {
		all = append(all, States(work)...)
	}
	return all
}

// troubles are what keeps works from being settled.
func troubles(works []*workv1.ManifestWork) []string {
	var all []string
	for _, m := range statesOf(works) {
		if !m.well() {
			all = append(all, m.trouble())
		}
	}
	for _, work := range works {
		if len(all) == 0 && !settled(work) {
			all = append(all, fmt.Sprintf("the agent has not said so of work %s as a whole", work.Name))
		}
	}
	return all
}
