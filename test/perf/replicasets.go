package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
)

// rolledOut is the name of the replica set and of its placement, which selects all clusters.
const rolledOut = "everywhere"

// replicatedBytes is about what a small chart has.
const replicatedBytes = 4000

// measureReplicaSets makes a work in every cluster from one object, changes all of them, and takes them away.
func measureReplicaSets(ctx context.Context, _ options, f *fleet) ([]figure, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	if err := f.selectAll(ctx); err != nil {
		return nil, err
	}
	sets := f.works.WorkV1alpha1().ManifestWorkReplicaSets(placementNamespace)
	begun := time.Now()
	if _, err := sets.Create(ctx, replicated(1), metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("create set %s: %w", rolledOut, err)
	}
	if err := f.untilWorks(ctx, 1, f.size); err != nil {
		return nil, err
	}
	created := time.Since(begun)

	begun = time.Now()
	if err := f.change(ctx, replicated(2)); err != nil {
		return nil, err
	}
	if err := f.untilWorks(ctx, 2, f.size); err != nil {
		return nil, err
	}
	changed := time.Since(begun)

	if err := pause(ctx, settle); err != nil {
		return nil, err
	}
	atRest, err := cpuShare(ctx, f.hub.cmd.Process.Pid, settle)
	if err != nil {
		return nil, err
	}
	m, err := memoryOf(f.hub.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	begun = time.Now()
	if err := sets.Delete(ctx, rolledOut, metav1.DeleteOptions{}); err != nil {
		return nil, fmt.Errorf("delete set %s: %w", rolledOut, err)
	}
	if err := f.untilWorks(ctx, 2, 0); err != nil {
		return nil, err
	}
	return []figure{
		duration("replica set created to all works there", created, "1,000: <= 10s"),
		duration("replica set changed to all works changed", changed, ""),
		ofACore(fmt.Sprintf("hub at rest with these works, of a core over %s", settle), atRest, "<= 2 %"),
		megabytes("hub at rest with these works, resident", m.resident, ""),
		duration("replica set deleted to all works gone", time.Since(begun), ""),
	}, nil
}

// selectAll makes the placement, and waits until it has selected every cluster.
func (f *fleet) selectAll(ctx context.Context) error {
	if err := f.bind(ctx); err != nil {
		return err
	}
	placements := f.clusters.ClusterV1beta1().Placements(placementNamespace)
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Name: rolledOut}}
	p.Spec.Tolerations = []clusterv1beta1.Toleration{{Operator: clusterv1beta1.TolerationOpExists}}
	if _, err := placements.Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create placement %s: %w", rolledOut, err)
	}
	for {
		p, err := placements.Get(ctx, rolledOut, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("get placement %s: %w", rolledOut, err)
		}
		if int(p.Status.NumberOfSelectedClusters) == f.size {
			return nil
		}
		if err := pause(ctx, pollReady); err != nil {
			return fmt.Errorf("placement %s has selected %d of %d clusters: %w", rolledOut, p.Status.NumberOfSelectedClusters, f.size, err)
		}
	}
}

// replicated is the set whose works have this content.
func replicated(content int) *workv1alpha1.ManifestWorkReplicaSet {
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: rolledOut}}
	set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: rolledOut}}
	set.Spec.ManifestWorkTemplate = workOfBytes(content, replicatedBytes).Spec
	return set
}

func (f *fleet) change(ctx context.Context, to *workv1alpha1.ManifestWorkReplicaSet) error {
	patch, err := json.Marshal(map[string]any{"spec": to.Spec})
	if err == nil {
		_, err = f.works.WorkV1alpha1().ManifestWorkReplicaSets(placementNamespace).Patch(ctx, to.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("change set %s: %w", to.Name, err)
	}
	return nil
}

// untilWorks waits until there are n works, all of this generation. It watches their metadata only: the client shares the
// machine with the hub that is measured.
func (f *fleet) untilWorks(ctx context.Context, generation int64, n int) error {
	works := f.metadata.Resource(schema.GroupVersion(workv1.GroupVersion).WithResource("manifestworks"))
	options := metav1.ListOptions{LabelSelector: "work.open-cluster-management.io/placementname=" + rolledOut}
	list, err := works.List(ctx, options)
	if err != nil {
		return fmt.Errorf("list works: %w", err)
	}
	fit, others := map[string]bool{}, map[string]bool{}
	see := func(w *metav1.PartialObjectMetadata, gone bool) {
		delete(fit, w.Namespace)
		delete(others, w.Namespace)
		switch {
		case gone:
		case w.Generation == generation:
			fit[w.Namespace] = true
		default:
			others[w.Namespace] = true
		}
	}
	for i := range list.Items {
		see(&list.Items[i], false)
	}
	options.ResourceVersion = list.ResourceVersion
	events, err := works.Watch(ctx, options)
	if err != nil {
		return fmt.Errorf("watch works: %w", err)
	}
	defer events.Stop()
	for len(fit) != n || len(others) > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d works of set %s are of generation %d and %d are not, and %d are wanted: %w", len(fit), rolledOut, generation, len(others), n, ctx.Err())
		case event, ok := <-events.ResultChan():
			w, is := event.Object.(*metav1.PartialObjectMetadata)
			if !ok || !is {
				return fmt.Errorf("watch of works ends: %s %v", event.Type, event.Object)
			}
			see(w, event.Type == watch.Deleted)
		}
	}
	return nil
}
