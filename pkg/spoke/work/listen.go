package work

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/tools/cache"
	workv1 "open-cluster-management.io/api/work/v1"
)

// listen registers for works of the hub, and for what stands for them on the cluster. Both come to the loop under the name
// of the work, so that all that concerns one work is done by one worker at a time.
func (a *Agent) listen(works, applied cache.SharedIndexInformer) error {
	registration, err := works.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { a.workAdded(obj.(*workv1.ManifestWork)) },
		UpdateFunc: func(before, after any) { a.workChanged(before.(*workv1.ManifestWork), after.(*workv1.ManifestWork)) },
		DeleteFunc: func(obj any) { a.workGone(obj) },
	})
	if err != nil {
		return fmt.Errorf("watch works of cluster %s: %w", a.Cluster, err)
	}
	a.synced = append(a.synced, registration.HasSynced)
	if err := applied.AddIndexers(cache.Indexers{byWork: indexByWork}); err != nil {
		return fmt.Errorf("index applied manifest works: %w", err)
	}
	a.applied = applied.GetIndexer()
	registration, err = applied.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { a.appliedAdded(obj.(*workv1.AppliedManifestWork)) },
		UpdateFunc: func(before, after any) {
			a.appliedChanged(before.(*workv1.AppliedManifestWork), after.(*workv1.AppliedManifestWork))
		},
		DeleteFunc: func(obj any) {
			if amw, ok := formerly(obj).(*workv1.AppliedManifestWork); ok {
				a.inventories.Delete(amw.UID)
				a.loop.Add(amw.Spec.ManifestWorkName) // its work may go now, or has to be applied anew
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch applied manifest works: %w", err)
	}
	a.synced = append(a.synced, registration.HasSynced)
	return nil
}

func (a *Agent) workAdded(work *workv1.ManifestWork) {
	a.ended.Delete(work.Name)
	a.outdate(work)
	a.loop.Add(work.Name)
}

func (a *Agent) workChanged(before, after *workv1.ManifestWork) {
	a.outdate(after)
	// Our own writes of the status come back, too; there is nothing to do about them.
	if before.Generation != after.Generation || !slices.Equal(before.Finalizers, after.Finalizers) || before.UID != after.UID ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || len(labelChanges(before.Labels, after.Labels)) > 0 {
		a.loop.Add(after.Name)
	}
}

func (a *Agent) workGone(obj any) {
	// Seen to be deleted, rather than found missing after the connection was lost.
	if work, ok := obj.(*workv1.ManifestWork); ok {
		a.ended.Store(work.Name, struct{}{})
	}
	if work, ok := formerly(obj).(*workv1.ManifestWork); ok {
		a.newest.Delete(work.Name)
		a.loop.Add(work.Name)
	}
}

// outdate drops what the hub answered about a work once the watch has brought it or something newer.
func (a *Agent) outdate(work *workv1.ManifestWork) {
	if known, ok := a.newest.Load(work.Name); ok && !newer(known.(*workv1.ManifestWork), work) {
		a.newest.CompareAndDelete(work.Name, known)
	}
}

func newer(a, b *workv1.ManifestWork) bool {
	return a.UID == b.UID && number(a.ResourceVersion) > number(b.ResourceVersion)
}

// appliedAdded is called for what is found at the start, and for what was made since; what this agent made for a work of the
// hub needs nothing.
func (a *Agent) appliedAdded(amw *workv1.AppliedManifestWork) {
	if _, err := a.works.Get(amw.Spec.ManifestWorkName); err == nil && amw.DeletionTimestamp == nil && amw.Name == a.appliedName(amw.Spec.ManifestWorkName) {
		return
	}
	a.loop.Add(amw.Spec.ManifestWorkName)
}

func (a *Agent) appliedChanged(before, after *workv1.AppliedManifestWork) {
	if (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || before.Spec.AgentID != after.Spec.AgentID ||
		before.Annotations[registrationAnnotation] != after.Annotations[registrationAnnotation] ||
		(before.Status.EvictionStartTime == nil) != (after.Status.EvictionStartTime == nil) {
		a.loop.Add(after.Spec.ManifestWorkName)
	}
}

// changed is called when an object of a work was changed or deleted by somebody else, has gone as it should, or says
// something else about itself.
func (a *Agent) changed(work string, delay time.Duration, what change) {
	metricChanges.WithLabelValues(what.String()).Inc()
	if what == drift {
		delay = max(delay, a.pace.drift(work))
	}
	a.loop.AddAfter(work, delay)
}
