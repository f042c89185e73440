// Package api serves Open Cluster Management's kinds natively: one table of kinds, one strategy for all of them that
// defaults, validates and prints by upstream's own definitions, and their storage. Adding a kind is a row in the table.
package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/api/cluster"
)

// kind is a row of the table: one resource of one group in all its versions.
type kind struct {
	// versions hold the object and its list in each served version. The first one is stored, and is its own internal
	// version: it is registered under its version and as the group's internal one, so that storing it converts nothing.
	versions []version

	// opaque, where set, leaves out of a copy of the object what a schema need not see because it says nothing about it:
	// the manifests of works, which are nearly all of their bytes.
	opaque func(runtime.Object) runtime.Object

	// wholeFromHub lets the hub's own parts write the status together with the object: a PlacementDecision that is new, or
	// changes its group, is never seen without the clusters that it is about.
	wholeFromHub bool

	// canonical, where set, brings an object into one form before it is compared and stored.
	canonical func(runtime.Object)
}

type version struct {
	gv     schema.GroupVersion
	object runtime.Object
	list   runtime.Object
}

func served(gv metav1.GroupVersion, object, list runtime.Object) version {
	return version{gv: schema.GroupVersion(gv), object: object, list: list}
}

// kinds lists what is served (spec 0.1). It is a function, so that no caller can change another one's table.
func kinds() []kind {
	return []kind{
		{versions: []version{served(clusterv1.GroupVersion, &clusterv1.ManagedCluster{}, &clusterv1.ManagedClusterList{})}},
		{versions: []version{served(clusterv1beta2.GroupVersion, &clusterv1beta2.ManagedClusterSet{}, &clusterv1beta2.ManagedClusterSetList{})}},
		{versions: []version{served(clusterv1beta2.GroupVersion, &clusterv1beta2.ManagedClusterSetBinding{}, &clusterv1beta2.ManagedClusterSetBindingList{})}},
		{versions: []version{served(clusterv1beta1.GroupVersion, &cluster.Placement{}, &cluster.PlacementList{})}},
		{
			versions:     []version{served(clusterv1beta1.GroupVersion, &clusterv1beta1.PlacementDecision{}, &clusterv1beta1.PlacementDecisionList{})},
			wholeFromHub: true,
		},
		{versions: []version{served(clusterv1alpha1.GroupVersion, &clusterv1alpha1.AddOnPlacementScore{}, &clusterv1alpha1.AddOnPlacementScoreList{})}},
		{
			versions:  []version{served(workv1.GroupVersion, &workv1.ManifestWork{}, &workv1.ManifestWorkList{})},
			opaque:    withoutManifests,
			canonical: canonicalWork,
		},
		{
			versions:  []version{served(workv1alpha1.GroupVersion, &workv1alpha1.ManifestWorkReplicaSet{}, &workv1alpha1.ManifestWorkReplicaSetList{})},
			canonical: canonicalReplicaSet,
		},
		{versions: []version{
			served(addonv1alpha1.GroupVersion, &addonv1alpha1.ClusterManagementAddOn{}, &addonv1alpha1.ClusterManagementAddOnList{}),
			served(addonv1beta1.GroupVersion, &addonv1beta1.ClusterManagementAddOn{}, &addonv1beta1.ClusterManagementAddOnList{}),
		}},
		{versions: []version{
			served(addonv1alpha1.GroupVersion, &addonv1alpha1.ManagedClusterAddOn{}, &addonv1alpha1.ManagedClusterAddOnList{}),
			served(addonv1beta1.GroupVersion, &addonv1beta1.ManagedClusterAddOn{}, &addonv1beta1.ManagedClusterAddOnList{}),
		}},
		{versions: []version{
			served(addonv1alpha1.GroupVersion, &addonv1alpha1.AddOnDeploymentConfig{}, &addonv1alpha1.AddOnDeploymentConfigList{}),
			served(addonv1beta1.GroupVersion, &addonv1beta1.AddOnDeploymentConfig{}, &addonv1beta1.AddOnDeploymentConfigList{}),
		}},
		{
			versions:  []version{served(addonv1alpha1.GroupVersion, &addonv1alpha1.AddOnTemplate{}, &addonv1alpha1.AddOnTemplateList{})},
			canonical: canonicalAddOnTemplate,
		},
	}
}
