package work

import (
	"cmp"
	"slices"

	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/workspec"
)

// rank orders kinds: what others need to exist comes first (spec 4.2). Kinds that are not listed come last.
func rank(kind string) int {
	for i, kinds := range [][]string{
		{"PriorityClass", "Namespace", "CustomResourceDefinition", "StorageClass", "PersistentVolume", "PodSecurityPolicy"},
		{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"},
		{"NetworkPolicy", "ResourceQuota", "LimitRange", "PodDisruptionBudget", "ServiceAccount"},
		{"Secret", "ConfigMap", "PersistentVolumeClaim"},
		{"Service"},
		{"DaemonSet", "Pod", "ReplicationController", "ReplicaSet", "Deployment", "HorizontalPodAutoscaler", "StatefulSet", "Job", "CronJob"},
		{"APIService", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"},
	} {
		if slices.Contains(kinds, kind) {
			return i
		}
	}
	return lastRank
}

const lastRank = 1000

// inRanks groups manifests in the order in which they are applied. Those of one rank do not need each other; they keep the
// order of the work.
func inRanks(all []*manifest) [][]*manifest {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b *manifest) int { return cmp.Compare(rank(a.object.GetKind()), rank(b.object.GetKind())) })
	var groups [][]*manifest
	for i, m := range sorted {
		if i == 0 || rank(m.object.GetKind()) != rank(sorted[i-1].object.GetKind()) {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], m)
	}
	return groups
}

// removalWave is low for what goes first. Custom resources go while the controllers that finalize them, with their rights and
// configuration, are still there; then all else; then the definitions of kinds, and at last namespaces.
func removalWave(id identity) int {
	switch {
	case id.Group == "" && id.Resource == "namespaces":
		return 3
	case id.Group == "apiextensions.k8s.io" && id.Resource == "customresourcedefinitions":
		return 2
	case workspec.BuiltIn(id.Group):
		return 1
	}
	return 0
}

// inWaves groups objects in the order in which they are removed; a wave begins when the one before is gone.
func inWaves(objects []workv1.AppliedManifestResourceMeta) [][]workv1.AppliedManifestResourceMeta {
	waves := make([][]workv1.AppliedManifestResourceMeta, 4)
	for _, o := range objects {
		wave := removalWave(o.ResourceIdentifier)
		waves[wave] = append(waves[wave], o)
	}
	return slices.DeleteFunc(waves, func(w []workv1.AppliedManifestResourceMeta) bool { return len(w) == 0 })
}
