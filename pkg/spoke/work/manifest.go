package work

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"
)

// manifest is one object that a work wants on the cluster.
type manifest struct {
	ordinal int // place in the work's spec
	object  *unstructured.Unstructured
	hash    [sha256.Size]byte // of what the work says about it

	gvr        schema.GroupVersionResource // known once resolved
	namespaced bool
	err        error // why it cannot be applied: it is no object, or the cluster does not know its kind
}

// key names an object on the cluster.
type key struct {
	gvr             schema.GroupVersionResource
	namespace, name string
}

func (m *manifest) key() key {
	return key{m.gvr, m.object.GetNamespace(), m.object.GetName()}
}

// decode reads the manifests of a work. What the API server alone decides about an object is dropped from them, as are
// nulls, which in charts stand for "not set".
func decode(work *workv1.ManifestWork) []*manifest {
	all := make([]*manifest, len(work.Spec.Workload.Manifests))
	for i := range all {
		m := &manifest{ordinal: i, object: &unstructured.Unstructured{}}
		all[i] = m
		if err := m.object.UnmarshalJSON(work.Spec.Workload.Manifests[i].Raw); err != nil {
			m.err = fmt.Errorf("manifest %d cannot be decoded: %w", i, err)
			continue
		}
		m.hash = sha256.Sum256(work.Spec.Workload.Manifests[i].Raw)
		for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields", "selfLink", "ownerReferences"} {
			unstructured.RemoveNestedField(m.object.Object, "metadata", field)
		}
		unstructured.RemoveNestedField(m.object.Object, "status")
		dropNulls(m.object.Object)
	}
	return all
}

func dropNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for field, below := range v {
			if below == nil {
				delete(v, field)
				continue
			}
			dropNulls(below)
		}
	case []any:
		for _, below := range v {
			dropNulls(below)
		}
	}
}

// resolve finds out under which resource the cluster serves the manifest's kind, and puts it into a namespace or out of one
// accordingly: charts write metadata.namespace on everything.
func (m *manifest) resolve(mapper meta.RESTMapper) {
	if m.err != nil {
		return
	}
	gvk := m.object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		m.err = fmt.Errorf("the cluster does not serve %s: %w", gvk, err)
		return
	}
	m.gvr = mapping.Resource
	m.namespaced = mapping.Scope.Name() == meta.RESTScopeNameNamespace
	switch {
	case !m.namespaced:
		m.object.SetNamespace("")
	case m.object.GetNamespace() == "":
		m.object.SetNamespace("default") // as kubectl does
	}
}

// ranks orders kinds: what others need to exist comes first (spec 4.2). Kinds that are not listed come last.
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

// inOrder is the order in which manifests are applied; the same rank keeps the order of the work.
func inOrder(all []*manifest) []*manifest {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b *manifest) int { return rank(a.object.GetKind()) - rank(b.object.GetKind()) })
	return sorted
}

// configFor is what the work says about how to treat a manifest: of each field, the first entry that matches and sets it.
func configFor(work *workv1.ManifestWork, m *manifest) workv1.ManifestConfigOption {
	var out workv1.ManifestConfigOption
	for _, c := range work.Spec.ManifestConfigs {
		id := c.ResourceIdentifier
		if !matches(id.Group, m.gvr.Group) || !matches(id.Resource, m.gvr.Resource) ||
			!matches(id.Namespace, m.object.GetNamespace()) || !matches(id.Name, m.object.GetName()) {
			continue
		}
		if out.UpdateStrategy == nil {
			out.UpdateStrategy = c.UpdateStrategy
		}
		if out.FeedbackRules == nil {
			out.FeedbackRules = c.FeedbackRules
		}
		if out.ConditionRules == nil {
			out.ConditionRules = c.ConditionRules
		}
	}
	return out
}

// matches compares with a pattern in which * stands for any run of characters.
func matches(pattern, value string) bool {
	for {
		if pattern == "" {
			return value == ""
		}
		if pattern[0] != '*' {
			if value == "" || pattern[0] != value[0] {
				return false
			}
			pattern, value = pattern[1:], value[1:]
			continue
		}
		for i := 0; i <= len(value); i++ {
			if matches(pattern[1:], value[i:]) {
				return true
			}
		}
		return false
	}
}

// treatment is a hash of all that decides what applying a manifest does: what it says, and by which strategy it is applied.
func treatment(work *workv1.ManifestWork, m *manifest) [sha256.Size]byte {
	strategy, err := json.Marshal(configFor(work, m).UpdateStrategy)
	if err != nil {
		strategy = []byte(err.Error()) // never: it came as JSON
	}
	return sha256.Sum256(append(m.hash[:], strategy...))
}

// owned tells whether the object goes when the work goes (spec 4.2): not if the work orphans everything, or this one.
func owned(work *workv1.ManifestWork, m *manifest) bool {
	option := work.Spec.DeleteOption
	if option == nil {
		return true
	}
	switch option.PropagationPolicy {
	case workv1.DeletePropagationPolicyTypeOrphan:
		return false
	case workv1.DeletePropagationPolicyTypeSelectivelyOrphan:
		if option.SelectivelyOrphan == nil {
			return true
		}
		return !slices.ContainsFunc(option.SelectivelyOrphan.OrphaningRules, func(r workv1.OrphaningRule) bool {
			return r.Group == m.gvr.Group && r.Resource == m.gvr.Resource && r.Namespace == m.object.GetNamespace() && r.Name == m.object.GetName()
		})
	}
	return true
}
