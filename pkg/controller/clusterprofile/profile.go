package clusterprofile

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

const (
	// manager is how the inventory calls a hub of Open Cluster Management.
	manager = "open-cluster-management"

	managerLabel = "x-k8s.io/cluster-manager"
	setLabel     = "multicluster.x-k8s.io/clusterset"
)

// version1 is the version of the inventory that is served.
func version1() schema.GroupVersion {
	return schema.GroupVersion{Group: "multicluster.x-k8s.io", Version: "v1alpha1"}
}

// profile is what the controller reads of a ClusterProfile. Whatever else its status has is somebody else's, such as the
// ways to reach the cluster, and stays.
type profile struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec   spec   `json:"spec"`
	Status status `json:"status"`
}

type spec struct {
	ClusterManager clusterManager `json:"clusterManager"`
}

type clusterManager struct {
	Name string `json:"name"`
}

type status struct {
	Version    version            `json:"version"`
	Properties []property         `json:"properties"`
	Conditions []metav1.Condition `json:"conditions"`
}

type version struct {
	Kubernetes string `json:"kubernetes"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func read(obj any) (*profile, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("cluster profile: %T is no object", obj)
	}
	p := &profile{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, p); err != nil {
		return nil, fmt.Errorf("cluster profile %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	return p, nil
}

// newProfile is the profile of a cluster, which says nothing of it yet.
func newProfile(namespace string, mc *clusterv1.ManagedCluster) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"displayName": mc.Name, "clusterManager": map[string]any{"name": manager}},
	}}
	u.SetGroupVersionKind(version1().WithKind("ClusterProfile"))
	u.SetNamespace(namespace)
	u.SetName(mc.Name)
	u.SetLabels(labelsOf(mc))
	return u
}

// kept tells whether the profile is one that this controller keeps. The manager's name cannot be changed, the label can.
func (p *profile) kept() bool { return p.Spec.ClusterManager.Name == manager }
