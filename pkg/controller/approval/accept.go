package approval

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/api/feature"

	"nave/pkg/identity"
	"nave/pkg/log"
	"nave/pkg/reconcile"
	"nave/pkg/settings"
)

// autoAccepted marks a cluster that was accepted without being asked about, so that it happens once: a later denial by a
// person sticks (spec 1.2).
const autoAccepted = "open-cluster-management.io/automatically-accepted-on"

// reconcileCluster accepts a cluster that a listed user made.
func (a *Controller) reconcileCluster(ctx context.Context, name string) (time.Duration, error) {
	mc, err := a.clusters.Get(name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("managed cluster %s: %w", name, err)
	}
	if _, done := mc.Annotations[autoAccepted]; done || mc.DeletionTimestamp != nil || !listed(a.Settings.Get(), mc.Annotations[identity.CreatedByAnnotation]) {
		return 0, nil
	}
	_, err = a.acceptOnce(ctx, mc, "a listed user made it")
	return 0, err
}

// listed tells whether what a user asks for is granted without a person. It depends on who asks, and not, as upstream's,
// on nothing (spec 10.1, S5).
func listed(s settings.Hub, user string) bool {
	return s.Features.Enabled(feature.ManagedClusterAutoApproval, feature.DefaultHubRegistrationFeatureGates) &&
		user != "" && slices.Contains(s.AutoApprovedUsers, user)
}

// acceptOnce accepts a cluster that was never accepted by itself, and tells whether it is accepted then: what a person
// decided later stands.
func (a *Controller) acceptOnce(ctx context.Context, mc *clusterv1.ManagedCluster, why string) (bool, error) {
	if _, done := mc.Annotations[autoAccepted]; done {
		return mc.Spec.HubAcceptsClient, nil
	}
	body, err := reconcile.MergePatch(mc, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{autoAccepted: a.Clock.Now().UTC().Format(time.RFC3339)}},
		"spec":     map[string]any{"hubAcceptsClient": true},
	})
	if err != nil {
		return false, err
	}
	if _, err := a.Clusters.ClusterV1().ManagedClusters().Patch(ctx, mc.Name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		return false, fmt.Errorf("accept managed cluster %s: %w", mc.Name, err)
	}
	a.Log.WithField(log.FieldCluster, mc.Name).WithField(log.FieldReason, why).Info("cluster is accepted without a person")
	return true, nil
}
