package clusterstatus

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/api/feature"

	"nave/pkg/log"
	"nave/pkg/reconcile"
)

func (r *Reporter) reconcile(ctx context.Context, name string) (time.Duration, error) {
	mc, err := r.clusters.Get(name)
	if apierrors.IsNotFound(err) {
		return 0, nil // its return is an event
	}
	if err != nil {
		return 0, err
	}
	if !meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted) {
		return 0, nil // its acceptance is an event
	}
	if r.noteClock(mc); r.clockApart {
		return 0, nil // the hub's finding that it is right again is an event
	}
	seen, again, err := r.observe(ctx)
	if err != nil || again > 0 {
		return again, err
	}
	again = max(r.Settings.Get().HealthCheckPeriod, minPeriod)
	if seen.health != http.StatusOK {
		again = failingPeriod
	}
	return reconcile.Jitter(again), r.write(ctx, mc, next(mc, seen))
}

// noteClock tells once that the clock is wrong, and once that it is right again.
func (r *Reporter) noteClock(mc *clusterv1.ManagedCluster) {
	apart := clockApart(mc)
	if apart == r.clockApart {
		return
	}
	r.clockApart = apart
	entry := r.Log.WithField(log.FieldCluster, mc.Name)
	if apart {
		entry.Warn("the hub finds that this cluster's clock is wrong; nothing is reported until it is right")
	} else {
		entry.Info("the clock is right again; the cluster is reported")
	}
}

// observe looks at the cluster. While its API server has been ill for a moment only, it asks to be called again instead.
func (r *Reporter) observe(ctx context.Context) (observed, time.Duration, error) {
	var o observed
	o.health, o.detail = r.health(ctx)
	if o.health != http.StatusOK {
		if r.failingSince.IsZero() {
			r.failingSince = r.Clock.Now()
		}
		if r.Clock.Since(r.failingSince) < failingGrace {
			return o, failingPeriod, nil
		}
		return o, 0, nil
	}
	r.failingSince = time.Time{}
	version, err := r.kube.Discovery().ServerVersion()
	if err != nil {
		return o, 0, fmt.Errorf("version of the managed cluster: %w", err)
	}
	o.version = version.GitVersion
	if o.nodes, err = r.nodes.List(labels.Everything()); err != nil {
		return o, 0, fmt.Errorf("nodes of the managed cluster: %w", err)
	}
	o.claims, o.claimed, err = r.observeClaims()
	return o, 0, err
}

// observeClaims are the claims to report, if claims are reported, and known.
func (r *Reporter) observeClaims() ([]clusterv1.ManagedClusterClaim, bool, error) {
	set := r.Settings.Get()
	if !set.Features.Enabled(feature.ClusterClaim, feature.DefaultSpokeRegistrationFeatureGates) {
		return nil, false, nil
	}
	properties, known := r.about.list()
	if !known {
		return nil, false, nil // once they are known, that is an event
	}
	all, err := r.claims.List(labels.Everything())
	if err != nil {
		return nil, false, fmt.Errorf("claims of the managed cluster: %w", err)
	}
	claims := make([]claim, len(all))
	for i, c := range all {
		claims[i] = claim{name: c.Name, value: c.Spec.Value, labels: c.Labels}
	}
	chosen := report(claims, properties, set)
	r.warn(chosen.warnings)
	return chosen.claims, true, nil
}

// warn tells about claims that the hub does not get, once for each change.
func (r *Reporter) warn(warnings []warning) {
	for _, w := range warnings {
		if !slices.Contains(r.warned, w) {
			r.Events.Cluster(corev1.EventTypeWarning, w.reason, w.message)
			r.Log.WithField(log.FieldReason, w.reason).Warn(w.message)
		}
	}
	r.warned = warnings
}

// health asks the API server how it is, in the two ways that API servers have.
func (r *Reporter) health(ctx context.Context) (code int, detail string) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	for _, path := range []string{"/livez", "/healthz"} {
		result := r.kube.RESTClient().Get().AbsPath(path).Do(ctx)
		result.StatusCode(&code)
		body, err := result.Raw()
		detail = string(body)
		if err != nil {
			detail = err.Error()
		}
		if code != http.StatusNotFound && code != http.StatusForbidden {
			break
		}
	}
	return code, detail
}

// write writes the status where it differs, in one patch.
func (r *Reporter) write(ctx context.Context, mc *clusterv1.ManagedCluster, status clusterv1.ManagedClusterStatus) error {
	if equality.Semantic.DeepEqual(status, mc.Status) {
		return nil
	}
	body, err := reconcile.MergePatch(mc, map[string]any{"status": map[string]any{
		"conditions":    status.Conditions,
		"version":       status.Version,
		"capacity":      status.Capacity,
		"allocatable":   withRemovals(mc.Status.Allocatable, status.Allocatable),
		"clusterClaims": status.ClusterClaims,
	}})
	if err != nil {
		return err
	}
	if _, err := r.Hub.ClusterV1().ManagedClusters().Patch(ctx, mc.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("status of managed cluster %s: %w", mc.Name, err)
	}
	r.tellChange(mc, status)
	return nil
}

// withRemovals is the list as a merge patch needs it: what is no longer there has to be null, or it stays.
func withRemovals(before, after clusterv1.ResourceList) map[string]any {
	patch := map[string]any{}
	for name := range before {
		patch[string(name)] = nil
	}
	for name, quantity := range after {
		patch[string(name)] = quantity
	}
	return patch
}

// tellChange tells people when the cluster becomes available or is so no longer.
func (r *Reporter) tellChange(mc *clusterv1.ManagedCluster, status clusterv1.ManagedClusterStatus) {
	before := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	after := meta.FindStatusCondition(status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	if after == nil || before != nil && before.Status == after.Status {
		return
	}
	r.Log.WithFields(logrus.Fields{log.FieldCluster: mc.Name, log.FieldReason: after.Reason}).Infof("cluster is available: %s", after.Status)
	if after.Status == metav1.ConditionTrue {
		r.Events.Cluster(corev1.EventTypeNormal, "Available", fmt.Sprintf("The managed cluster %s is available: its agent is connected to the hub and its API server is well.", mc.Name))
	} else {
		r.Events.Cluster(corev1.EventTypeWarning, "Unavailable", fmt.Sprintf("The managed cluster %s is not available: %s", mc.Name, after.Message))
	}
}
