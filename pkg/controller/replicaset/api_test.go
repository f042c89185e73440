package replicaset

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	worksv1 "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	worksv1alpha1 "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1alpha1"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/replicas"
)

// api keeps works and one set as a hub does: each write counts the version up, and a change of an older version is a conflict.
// What happens is an event only once deliver is called.
type api struct {
	workclient.Interface

	mu      sync.Mutex
	version int
	set     *workv1alpha1.ManifestWorkReplicaSet
	works   map[string]*workv1.ManifestWork
	events  []func(*Controller)
	log     []string // of writes: verb and cluster

	refuse   func(verb, cluster string) error                // a policy of the hub's users
	mutate   func(cluster string, work *workv1.ManifestWork) // another one
	answered func(cluster string)                            // what happens between an update and its answer, once
	race     func(cluster string)                            // what happens between a read and the write after it, once
}

func (a *api) WorkV1() worksv1.WorkV1Interface                   { return worksGroup{api: a} }
func (a *api) WorkV1alpha1() worksv1alpha1.WorkV1alpha1Interface { return setsGroup{api: a} }

type worksGroup struct {
	worksv1.WorkV1Interface
	api *api
}

func (g worksGroup) ManifestWorks(namespace string) worksv1.ManifestWorkInterface {
	return &works{api: g.api, cluster: namespace}
}

type setsGroup struct {
	worksv1alpha1.WorkV1alpha1Interface
	api *api
}

func (g setsGroup) ManifestWorkReplicaSets(string) worksv1alpha1.ManifestWorkReplicaSetInterface {
	return &sets{api: g.api}
}

// deliver tells a controller what has happened, as informers do.
func (a *api) deliver(c *Controller) {
	a.mu.Lock()
	events := a.events
	a.events = nil
	a.mu.Unlock()
	for _, event := range events {
		event(c)
	}
}

// store takes over a work, nil if it is gone. The caller holds the lock.
func (a *api) store(before, after *workv1.ManifestWork) {
	a.version++
	if after == nil {
		delete(a.works, keyOf(before))
	} else {
		after.ResourceVersion = strconv.Itoa(a.version)
		a.works[keyOf(after)] = after
	}
	cached := func(work *workv1.ManifestWork) *workv1.ManifestWork {
		if work != nil {
			work = work.DeepCopy()
			delete(work.Annotations, corev1.LastAppliedConfigAnnotation)
			trim(work)
		}
		return work
	}
	old, latest := cached(before), cached(after)
	a.events = append(a.events, func(c *Controller) { c.workChanged(old, latest) })
}

// elsewhere has somebody else change the work of a cluster; f gives false to take it away.
func (a *api) elsewhere(cluster string, f func(*workv1.ManifestWork) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.in(cluster)
	after := before.DeepCopy()
	if !f(after) {
		after = nil
	} else if replicas.Content(&after.Spec) != replicas.Content(&before.Spec) {
		after.Generation++
	}
	a.store(before, after)
}

func (a *api) in(cluster string) *workv1.ManifestWork {
	for _, work := range a.works {
		if work.Namespace == cluster {
			return work
		}
	}
	return nil
}

// write runs the policies, and notes the write.
func (a *api) write(verb, cluster string, work *workv1.ManifestWork) error {
	if a.refuse != nil {
		if err := a.refuse(verb, cluster); err != nil {
			return err
		}
	}
	if a.mutate != nil && work != nil {
		a.mutate(cluster, work)
	}
	a.log = append(a.log, verb+" "+cluster)
	return nil
}

type works struct {
	worksv1.ManifestWorkInterface
	*api
	cluster string
}

func (w *works) Create(_ context.Context, work *workv1.ManifestWork, _ metav1.CreateOptions) (*workv1.ManifestWork, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.works[keyOf(work)] != nil {
		return nil, apierrors.NewAlreadyExists(resource("manifestworks"), work.Name)
	}
	made := work.DeepCopy()
	if err := w.write("create", w.cluster, made); err != nil {
		return nil, err
	}
	made.UID, made.Generation = types.UID(strconv.Itoa(w.version+1)), 1
	w.store(nil, made)
	return made.DeepCopy(), nil
}

func (w *works) Get(_ context.Context, name string, _ metav1.GetOptions) (*workv1.ManifestWork, error) {
	w.mu.Lock()
	work := w.works[w.cluster+"/"+name].DeepCopy()
	race := w.race
	w.race = nil
	w.mu.Unlock()
	if race != nil {
		defer race(w.cluster)
	}
	if work == nil {
		return nil, apierrors.NewNotFound(resource("manifestworks"), name)
	}
	return work, nil
}

func (w *works) Update(_ context.Context, work *workv1.ManifestWork, _ metav1.UpdateOptions) (*workv1.ManifestWork, error) {
	after, err := w.update(work)
	if answered := w.answered; answered != nil && err == nil {
		w.answered = nil
		answered(w.cluster)
	}
	return after, err
}

func (w *works) update(work *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.works[keyOf(work)]
	switch {
	case before == nil:
		return nil, apierrors.NewNotFound(resource("manifestworks"), work.Name)
	case before.ResourceVersion != work.ResourceVersion:
		return nil, apierrors.NewConflict(resource("manifestworks"), work.Name, nil)
	}
	after := work.DeepCopy()
	if err := w.write("update", w.cluster, after); err != nil {
		return nil, err
	}
	after.Generation = before.Generation
	if replicas.Content(&after.Spec) != replicas.Content(&before.Spec) {
		after.Generation++
		w.log[len(w.log)-1] = "content " + w.cluster
	}
	w.store(before, after)
	return after.DeepCopy(), nil
}

func (w *works) Delete(_ context.Context, name string, options metav1.DeleteOptions) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.works[w.cluster+"/"+name]
	switch {
	case before == nil:
		return apierrors.NewNotFound(resource("manifestworks"), name)
	case *options.Preconditions.UID != before.UID:
		return apierrors.NewConflict(resource("manifestworks"), name, nil)
	}
	if err := w.write("delete", w.cluster, nil); err != nil {
		return err
	}
	if len(before.Finalizers) == 0 {
		w.store(before, nil)
		return nil
	}
	after := before.DeepCopy()
	after.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
	w.store(before, after)
	return nil
}

type sets struct {
	worksv1alpha1.ManifestWorkReplicaSetInterface
	*api
}

// Patch is a merge patch of the status, or of the finalizers.
func (s *sets) Patch(_ context.Context, name string, _ types.PatchType, body []byte, _ metav1.PatchOptions, _ ...string) (*workv1alpha1.ManifestWorkReplicaSet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var patch struct {
		Metadata metav1.ObjectMeta
		Status   *workv1alpha1.ManifestWorkReplicaSetStatus
	}
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, err
	}
	if patch.Metadata.ResourceVersion != s.set.ResourceVersion {
		return nil, apierrors.NewConflict(resource("manifestworkreplicasets"), name, nil)
	}
	after := s.set.DeepCopy()
	if patch.Status != nil {
		after.Status = *patch.Status
	} else {
		after.Finalizers = patch.Metadata.Finalizers
	}
	s.log = append(s.log, "status")
	s.tell(after)
	return after.DeepCopy(), nil
}

// tell takes over a set. The caller holds the lock.
func (a *api) tell(after *workv1alpha1.ManifestWorkReplicaSet) {
	a.version++
	after.ResourceVersion = strconv.Itoa(a.version)
	before := a.set
	a.set = after
	a.events = append(a.events, func(c *Controller) { c.setChanged(before, after.DeepCopy()) })
}

func resource(name string) schema.GroupResource {
	return schema.GroupResource{Group: workv1.GroupName, Resource: name}
}
