package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/rollout"
)

const (
	// rolloutInterval is how often a rollout that is followed is looked at, by the metadata of its set as long as nothing
	// changes.
	rolloutInterval = time.Second
	// stillness is how long nothing has to happen to a rollout before it may have stopped: agents try again what they could
	// not apply, and often it succeeds.
	stillness = 15 * time.Second
	// lastLook is how long it may take to find out what has failed when the time for a rollout is over.
	lastLook = 10 * time.Second
)

// ReplicaSet is a set of works for the clusters of placements, on a hub.
type ReplicaSet struct {
	Works           workclient.Interface
	Clusters        clusterclient.Interface
	Metadata        metadata.Interface
	Clock           clock.WithTicker
	Namespace, Name string
}

// Get reads the set.
func (r ReplicaSet) Get(ctx context.Context) (*workv1alpha1.ManifestWorkReplicaSet, error) {
	set, err := r.Works.WorkV1alpha1().ManifestWorkReplicaSets(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	if err != nil {
		return nil, r.wrap(err)
	}
	return set, nil
}

// head is the metadata of the set, which is small.
func (r ReplicaSet) head(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
	resource := schema.GroupVersionResource{Group: workv1alpha1.GroupName, Version: "v1alpha1", Resource: "manifestworkreplicasets"}
	head, err := r.Metadata.Resource(resource).Namespace(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	if err != nil {
		return nil, r.wrap(err)
	}
	return head, nil
}

// Pause holds the rollout, or lets it go on.
func (r ReplicaSet) Pause(ctx context.Context, pause bool) error {
	value := "null"
	if pause {
		value = `"true"`
	}
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, rollout.PausedAnnotation, value)
	_, err := r.Works.WorkV1alpha1().ManifestWorkReplicaSets(r.Namespace).Patch(ctx, r.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return r.wrap(err)
	}
	return nil
}

// String names the set for people.
func (r ReplicaSet) String() string {
	return fmt.Sprintf("replica set %s of namespace %s", r.Name, r.Namespace)
}

// MissingError says that there is no such set.
type MissingError struct{ Set ReplicaSet }

// Error says what is there instead.
func (e MissingError) Error() string {
	return fmt.Sprintf("namespace %s has no replica set %s; nave kubectl get manifestworkreplicasets -A shows those that there are", e.Set.Namespace, e.Set.Name)
}

// wrap says of an error which set it is about.
func (r ReplicaSet) wrap(err error) error {
	if missing(err) {
		return MissingError{r}
	}
	return fmt.Errorf("%s: %w", r, err)
}

// missing tells whether a hub that knows a kind says that it does not have an object. One that has just been started may not
// know its kinds yet.
func missing(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Follow waits until a rollout is complete, and tells each change of what the hub says of it. An error says that it is paused,
// that it goes no further, or that the deadline of ctx is over, with the progress that it has made; without a deadline it is also
// an error that only clusters are left that have failed. A hub that is away, or starts again, is waited for.
func (r ReplicaSet) Follow(ctx context.Context, tell func(string)) ([]Progress, error) {
	_, patient := ctx.Deadline()
	f := &follower{set: r, now: r.Clock.Now, head: r.head, get: r.Get, progress: r.Progress, tell: tell, patient: patient}
	ticker := r.Clock.NewTicker(rolloutInterval)
	defer ticker.Stop()
	for {
		over, err := f.look(ctx)
		if over || err != nil {
			return f.judged, err
		}
		select {
		case <-ctx.Done():
			return f.left(ctx), f.expired(ctx.Err())
		case <-ticker.C():
		}
	}
}

// follower judges, look by look, where a rollout stands.
type follower struct {
	set      ReplicaSet
	now      func() time.Time
	head     func(context.Context) (*metav1.PartialObjectMetadata, error)
	get      func(context.Context) (*workv1alpha1.ManifestWorkReplicaSet, error)
	progress func(context.Context, *workv1alpha1.ManifestWorkReplicaSet) ([]Progress, error)
	tell     func(string)
	patient  bool // clusters that have failed get the time that is left, as long as no other waits for them

	last    *workv1alpha1.ManifestWorkReplicaSet
	told    string
	trouble string     // with the hub, now
	moved   time.Time  // when something has happened, the last time
	judged  []Progress // since then
}

// look reads the set where it has changed, and its works only once nothing has happened for a while: there may be thousands.
func (f *follower) look(ctx context.Context) (over bool, err error) {
	if err := f.refresh(ctx); err != nil {
		return false, f.doubt(ctx, err)
	}
	f.trouble = ""
	said := about(f.last, workv1alpha1.ManifestWorkReplicaSetConditionPlacementRolledOut)
	switch {
	case said == nil:
		return false, nil
	case said.Status == metav1.ConditionTrue:
		return true, nil
	case rollout.Paused(f.last.Annotations):
		return false, fmt.Errorf("rollout of %s is paused; nave work rollout resume %s -n %s lets it go on", f.set, f.set.Name, f.set.Namespace)
	case f.judged != nil || f.now().Before(f.moved.Add(stillness)):
		return false, nil
	}
	if f.judged, err = f.progress(ctx, f.last); err != nil {
		return false, f.doubt(ctx, err)
	}
	if why := stopped(f.judged, f.patient); why != "" {
		return false, fmt.Errorf("rollout of %s has stopped, %s; nave work rollout status %s -n %s shows it", f.set, why, f.set.Name, f.set.Namespace)
	}
	return false, nil
}

// refresh takes notice of the set as it is now.
func (f *follower) refresh(ctx context.Context) error {
	head, err := f.head(ctx)
	if err != nil || f.last != nil && f.last.ResourceVersion == head.ResourceVersion {
		return err
	}
	now, err := f.get(ctx)
	if err != nil {
		return err
	}
	before := f.last
	f.last = now
	if before == nil || before.Generation != now.Generation || rollout.Paused(before.Annotations) != rollout.Paused(now.Annotations) ||
		!equality.Semantic.DeepEqual(before.Status, now.Status) {
		f.moved, f.judged = f.now(), nil
	}
	if text := saidOf(now); text != "" && text != f.told {
		f.told = text
		f.tell(text)
	}
	return nil
}

// doubt takes an error that may pass. While the hub is away nothing can happen, so that does not count as stillness.
func (f *follower) doubt(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil // it is ours, see expired
	}
	var gone MissingError
	if f.last == nil || errors.As(err, &gone) {
		return err
	}
	f.moved, f.judged = f.now(), nil
	if f.trouble == "" {
		f.tell(fmt.Sprintf("the hub cannot be asked, which is tried again: %s", err))
	}
	f.trouble = err.Error()
	return nil
}

// left is how far the rollout is when the deadline of ctx is over, as far as that can be said soon.
func (f *follower) left(ctx context.Context) []Progress {
	if f.last == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	all, err := f.progress(ctx, f.last)
	if err != nil {
		return nil // the time is over, which is said
	}
	return all
}

// expired is the error that says that ctx has ended.
func (f *follower) expired(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	told := f.told
	if told == "" {
		told = "the hub has not said anything about it; is its feature gate ManifestWorkReplicaSet on"
	}
	if f.trouble != "" {
		told += "; then the hub could not be asked: " + f.trouble
	}
	return fmt.Errorf("rollout of %s is not complete in time: %s; it goes on, see nave work rollout status %s -n %s", f.set, told, f.set.Name, f.set.Namespace)
}

// stopped says why a rollout goes no further, of which nothing has happened for a while; empty if it may.
func stopped(all []Progress, patient bool) string {
	failed, waiting, stalled := 0, 0, false
	for _, p := range all {
		switch {
		case p.Missing || p.Whole && p.Complete():
			continue
		case !p.Whole || len(p.Apply)+len(p.Underway)+len(p.Soaking) > 0:
			return ""
		case p.Breached:
		case p.Stalled:
			stalled = true
		case len(p.Waiting) > 0:
			return "" // at its deadline one that has failed gives its place to the next
		case patient && len(p.Failed) > 0:
			return ""
		}
		failed, waiting = failed+len(p.Failed)+len(p.TimedOut), waiting+len(p.Waiting)
	}
	switch {
	case failed == 0:
		return ""
	case stalled:
		return fmt.Sprintf("failed clusters: %d, which keep their places; waiting for one: %d; mend them, or give them a progressDeadline", failed, waiting)
	}
	return fmt.Sprintf("failed clusters: %d, waiting: %d", failed, waiting)
}

// saidOf is what the hub says of a rollout, in one line.
func saidOf(set *workv1alpha1.ManifestWorkReplicaSet) string {
	var texts []string
	if c := about(set, workv1alpha1.ManifestWorkReplicaSetConditionPlacementVerified); c != nil && c.Status == metav1.ConditionFalse {
		texts = append(texts, c.Message)
	}
	if c := about(set, workv1alpha1.ManifestWorkReplicaSetConditionPlacementRolledOut); c != nil && c.Message != "" {
		texts = append(texts, c.Message)
	}
	return strings.Join(strings.Fields(strings.Join(texts, "; ")), " ")
}

// about is what the hub says of a set as it is now; nil if it has not said anything.
func about(set *workv1alpha1.ManifestWorkReplicaSet, kind string) *metav1.Condition {
	c := meta.FindStatusCondition(set.Status.Conditions, kind)
	if c == nil || c.ObservedGeneration < set.Generation {
		return nil
	}
	return c
}
