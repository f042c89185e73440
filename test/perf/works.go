package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"
)

// measureWorks sends works through a lab, one after the other.
func measureWorks(ctx context.Context, o options, dir string) ([]row, error) {
	works, err := hubWorks(dir)
	if err != nil {
		return nil, err
	}
	create, update, err := propagate(ctx, works, o.works)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, settle); err != nil {
		return nil, err
	}
	pid, err := processWith("nave", "agent", dir)
	if err != nil {
		return nil, err
	}
	agent, err := memoryOf(pid)
	if err != nil {
		return nil, err
	}
	return []row{
		{fmt.Sprintf("create to Applied, %d works one after the other", o.works), quantiles(create), "p50 <= 15 ms, p99 <= 60 ms"},
		{"update to Applied at the new generation", quantiles(update), "p50 <= 15 ms"},
		{fmt.Sprintf("agent idle with %d works, resident (anonymous)", o.works), agent.String(), "<= 110 MB (<= 30 MB)"},
	}, nil
}

func quantiles(d []time.Duration) string {
	return fmt.Sprintf("p50 %s, p99 %s", quantile(d, 0.5).Round(100*time.Microsecond), quantile(d, 0.99).Round(100*time.Microsecond))
}

// propagate creates n works one after the other, then changes each, and measures until the agent reports Applied at the
// generation that was written.
func propagate(ctx context.Context, client workclient.Interface, n int) (create, update []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	works := client.WorkV1().ManifestWorks(labCluster)
	events, err := works.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("watch works: %w", err)
	}
	defer events.Stop()
	for i := range n {
		work := workNumber(i)
		begun := time.Now()
		if _, err := works.Create(ctx, work, metav1.CreateOptions{}); err != nil {
			return nil, nil, fmt.Errorf("create work %s: %w", work.Name, err)
		}
		if err := untilApplied(ctx, events, work.Name, 1); err != nil {
			return nil, nil, err
		}
		create = append(create, time.Since(begun))
	}
	for i := range n {
		name := workNumber(i).Name
		patch := []byte(`[{"op":"replace","path":"/spec/workload/manifests/0/data/value","value":"changed"}]`)
		begun := time.Now()
		if _, err := works.Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
			return nil, nil, fmt.Errorf("change work %s: %w", name, err)
		}
		if err := untilApplied(ctx, events, name, 2); err != nil {
			return nil, nil, err
		}
		update = append(update, time.Since(begun))
	}
	return create, update, nil
}

func untilApplied(ctx context.Context, events watch.Interface, name string, generation int64) error {
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("work %s is not applied at generation %d: %w", name, generation, ctx.Err())
		case event, ok := <-events.ResultChan():
			if !ok {
				return fmt.Errorf("watch of works ended before work %s was applied", name)
			}
			work, ok := event.Object.(*workv1.ManifestWork)
			if !ok || work.Name != name {
				continue
			}
			if appliedAt(work, generation) {
				return nil
			}
		}
	}
}

func appliedAt(work *workv1.ManifestWork, generation int64) bool {
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1.WorkApplied)
	return applied != nil && applied.Status == metav1.ConditionTrue && applied.ObservedGeneration == generation
}

// workNumber is a work of one ConfigMap.
func workNumber(i int) *workv1.ManifestWork {
	raw := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"perf-%d","namespace":"default"},"data":{"value":"first"}}`, i)
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("perf-%d", i)},
		Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{
			Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(raw)}}},
		}},
	}
}
