package work

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
)

// ValidateReplicaSet checks the manifests of a new or changed ManifestWorkReplicaSet as those of a work: what would be
// refused for each cluster is refused once, where its author sees it. old is nil on create; a template that is as it was
// passes (spec 3.1, 10.2 C12 and C13).
//
// Upstream has a rule against these objects while the feature is off, but never registers it, so people create them before
// they switch the gate on. Here that is a warning.
func (r *Rules) ValidateReplicaSet(ctx context.Context, attributes admission.Attributes, set, old *workv1alpha1.ManifestWorkReplicaSet) error {
	template := &set.Spec.ManifestWorkTemplate
	if old == nil || !equality.Semantic.DeepEqual(template.Executor, old.Spec.ManifestWorkTemplate.Executor) {
		// The works are made by the hub, whose rights have no limits; so it is the author of the set who needs the right, and
		// since a placement may select any cluster, for all of them.
		if err := r.checkExecutor(ctx, attributes, template.Executor, metav1.NamespaceAll); err != nil {
			return err
		}
	}
	if old != nil && equality.Semantic.DeepEqual(set.Spec.ManifestWorkTemplate.Workload, old.Spec.ManifestWorkTemplate.Workload) {
		return nil
	}
	if r.ReplicaSets == nil || !r.ReplicaSets() {
		warning.AddWarning(ctx, "", "ManifestWorkReplicaSet feature is disabled: nothing is done about this object until the feature gate is on")
	}
	return checkManifests(set.Spec.ManifestWorkTemplate.Workload.Manifests, r.limit())
}
