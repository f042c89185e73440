package hub

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// apply applies documents as kubectl apply --server-side does.
func (i *administrator) apply(documents string) {
	i.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(documents), len(documents))
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(obj)
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(i, err)
		require.NoError(i, i.applyOne(obj), "%s %s", obj.GetKind(), obj.GetName())
	}
}

func (i *administrator) applyOne(obj *unstructured.Unstructured) error {
	_, err := i.resource(obj).Apply(i.ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "test", Force: true})
	return err
}

// resource is where objects of a kind are; the plurals of all kinds that are applied here are regular.
func (i *administrator) resource(obj *unstructured.Unstructured) dynamic.ResourceInterface {
	resource, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
	if obj.GetNamespace() == "" {
		return i.dynamic.Resource(resource)
	}
	return i.dynamic.Resource(resource).Namespace(obj.GetNamespace())
}

// refused applies one document, which is refused with a text.
func (i *administrator) refused(document, text string) {
	i.Helper()
	obj := &unstructured.Unstructured{}
	require.NoError(i, utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(document), len(document)).Decode(obj))
	require.ErrorContains(i, i.applyOne(obj), text)
}

// team makes a namespace with a cluster set of its name, bound to it, and that many clusters in the set: name-1 and so on.
func (i *administrator) team(name string, clusters int) {
	i.Helper()
	i.apply(fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSet
metadata: {name: %[1]s}
spec: {clusterSelector: {selectorType: ExclusiveClusterSetLabel}}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: %[1]s, namespace: %[1]s}
spec: {clusterSet: %[1]s}
`, name))
	for n := range clusters {
		i.cluster(fmt.Sprintf("%s-%d", name, n+1), name, "")
	}
}

// cluster applies an accepted cluster of a set with taints, in YAML.
func (i *administrator) cluster(name, set, taints string) {
	i.Helper()
	i.apply(clusterDocument(name, set, taints))
}

func clusterDocument(name, set, taints string) string {
	return fmt.Sprintf(`
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: %s, labels: {cluster.open-cluster-management.io/clusterset: %s}}
spec: {hubAcceptsClient: true, taints: [%s]}
`, name, set, taints)
}

// place applies a placement.
func (i *administrator) place(namespace, name, spec string) {
	i.Helper()
	i.apply(fmt.Sprintf(`
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: %s, namespace: %s}
spec: {%s}
`, name, namespace, spec))
}

// silent tolerates that nothing is heard of the clusters of these tests, which have no agents.
const silent = `tolerations: [{key: cluster.open-cluster-management.io/unreachable, operator: Exists}, {key: cluster.open-cluster-management.io/unavailable, operator: Exists}]`

func (i *administrator) placement(namespace, name string) *clusterv1beta1.Placement {
	i.Helper()
	p, err := i.clusters.ClusterV1beta1().Placements(namespace).Get(i.ctx, name, metav1.GetOptions{})
	require.NoError(i, err)
	return p
}

// decisions are the PlacementDecisions of a placement.
func (i *administrator) decisions(namespace, name string) []clusterv1beta1.PlacementDecision {
	i.Helper()
	list, err := i.clusters.ClusterV1beta1().PlacementDecisions(namespace).List(i.ctx, metav1.ListOptions{LabelSelector: clusterv1beta1.PlacementLabel + "=" + name})
	require.NoError(i, err)
	return list.Items
}

// chosen are the clusters that a placement has chosen, in the order of names.
func (i *administrator) chosen(namespace, name string) []string {
	i.Helper()
	names := []string{}
	for _, d := range i.decisions(namespace, name) {
		for _, in := range d.Status.Decisions {
			names = append(names, in.ClusterName)
		}
	}
	slices.Sort(names)
	return names
}

// chooses waits until a placement has chosen these clusters.
func (i *administrator) chooses(namespace, name string, clusters ...string) {
	i.Helper()
	eventually(i.T, fmt.Sprintf("placement %s/%s chooses %v", namespace, name, clusters), func() error {
		if chosen := i.chosen(namespace, name); !slices.Equal(chosen, clusters) {
			return fmt.Errorf("it has %v", chosen)
		}
		return nil
	})
}

// says waits until a condition of a placement has a reason, and texts in its message.
func (i *administrator) says(namespace, name, kind, reason string, texts ...string) {
	i.Helper()
	eventually(i.T, fmt.Sprintf("placement %s/%s says %s", namespace, name, reason), func() error {
		c := meta.FindStatusCondition(i.placement(namespace, name).Status.Conditions, kind)
		isTrue := reason == "AllDecisionsScheduled" || reason == "Misconfigured"
		if c == nil || c.Reason != reason || (c.Status == metav1.ConditionTrue) != isTrue {
			return fmt.Errorf("it says %+v", c)
		}
		for _, text := range texts {
			if !strings.Contains(c.Message, text) {
				return fmt.Errorf("it says %q, without %q", c.Message, text)
			}
		}
		return nil
	})
}
