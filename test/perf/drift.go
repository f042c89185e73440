package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	drifts = 20
	// driftPatience is how long an object may stay wrong. Who repairs by a periodic check only is told from who watches.
	driftPatience = 30 * time.Second
)

// measureDrift changes objects of works on the managed cluster, one after the other, until each is right again.
func measureDrift(ctx context.Context, o options, dir string) ([]row, error) {
	spoke, _, err := clientFor(filepath.Join(dir, labCluster+".kubeconfig"))
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("drift of one object repaired, %d works applied, %d times", o.burst, drifts)
	var took []time.Duration
	for i := range drifts {
		d, err := drift(ctx, spoke, fmt.Sprintf("perf-%d", i*o.burst/drifts))
		if err != nil {
			return nil, err
		}
		if d >= driftPatience {
			return []row{{what, fmt.Sprintf("not within %s", driftPatience), "<= 1 s"}}, nil
		}
		took = append(took, d)
	}
	return []row{{what, quantiles(took), "<= 1 s"}}, nil
}

// drift is how long a ConfigMap stays as somebody else changed it, driftPatience at most.
func drift(ctx context.Context, spoke kubernetes.Interface, name string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, driftPatience)
	defer cancel()
	maps := spoke.CoreV1().ConfigMaps("default")
	before, err := maps.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	events, err := maps.Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), ResourceVersion: before.ResourceVersion,
	})
	if err != nil {
		return 0, fmt.Errorf("watch %s: %w", name, err)
	}
	defer events.Stop()
	begun := time.Now()
	changed, err := maps.Patch(ctx, name, types.MergePatchType, []byte(`{"data":{"value":"drifted"}}`), metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		return 0, fmt.Errorf("change %s: %w", name, err)
	}
	for {
		select {
		case <-ctx.Done():
			return driftPatience, nil
		case event, ok := <-events.ResultChan():
			if !ok {
				return driftPatience, nil
			}
			object, ok := event.Object.(*corev1.ConfigMap)
			if ok && object.ResourceVersion != changed.ResourceVersion && object.Data["value"] == before.Data["value"] {
				return time.Since(begun), nil
			}
		}
	}
}
