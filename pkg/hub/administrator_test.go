package hub

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	operatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	operatorv1 "open-cluster-management.io/api/operator/v1"
)

// administrator is somebody with every right on a hub that a test has started.
type administrator struct {
	*testing.T
	ctx        context.Context
	kube       *kubernetes.Clientset
	clusters   *clusterclient.Clientset
	works      *workclient.Clientset
	operator   *operatorclient.Clientset
	extensions *apiextensions.Clientset
	dynamic    dynamic.Interface
	profiles   dynamic.NamespaceableResourceInterface
	access     *rest.Config
}

func newAdministrator(t *testing.T) *administrator {
	t.Helper()
	return newAdministratorOn(t, t.TempDir())
}

func newAdministratorOn(t *testing.T, dir string) *administrator {
	t.Helper()
	access, ctx := startHubOn(t, dir)
	access.QPS = -1
	client := dynamic.NewForConfigOrDie(access)
	return &administrator{
		T: t, ctx: ctx, access: access, dynamic: client,
		kube:       kubernetes.NewForConfigOrDie(access),
		clusters:   clusterclient.NewForConfigOrDie(access),
		works:      workclient.NewForConfigOrDie(access),
		operator:   operatorclient.NewForConfigOrDie(access),
		extensions: apiextensions.NewForConfigOrDie(access),
		profiles:   client.Resource(schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}),
	}
}

// gate switches a feature while the hub runs, through the ClusterManager.
func (i *administrator) gate(name featuregate.Feature, mode operatorv1.FeatureGateModeType) {
	i.Helper()
	i.gateOf("registrationConfiguration", name, mode)
}

// workGate is gate for a feature of works.
func (i *administrator) workGate(name featuregate.Feature, mode operatorv1.FeatureGateModeType) {
	i.Helper()
	i.gateOf("workConfiguration", name, mode)
}

func (i *administrator) gateOf(component string, name featuregate.Feature, mode operatorv1.FeatureGateModeType) {
	i.Helper()
	patch := fmt.Appendf(nil, `{"spec":{%q:{"featureGates":[{"feature":%q,"mode":%q}]}}}`, component, name, mode)
	managers := i.operator.OperatorV1().ClusterManagers()
	want, err := managers.Patch(i.ctx, "cluster-manager", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(i, err)
	eventually(i.T, "the gate is in force", func() error {
		cm, err := managers.Get(i.ctx, want.Name, metav1.GetOptions{})
		if err == nil && cm.Status.ObservedGeneration < want.Generation {
			err = fmt.Errorf("generation %d is, not %d", cm.Status.ObservedGeneration, want.Generation)
		}
		return err
	})
}

func (i *administrator) makeCluster(name, set string) {
	i.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1beta2.ClusterSetLabel: set}}}
	_, err := i.clusters.ClusterV1().ManagedClusters().Create(i.ctx, mc, metav1.CreateOptions{})
	require.NoError(i, err)
}

func (i *administrator) makeSet(name string) {
	i.Helper()
	_, err := i.clusters.ClusterV1beta2().ManagedClusterSets().Create(i.ctx, &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(i, err)
}

func (i *administrator) makeNamespace(name string) {
	i.Helper()
	_, err := i.kube.CoreV1().Namespaces().Create(i.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(i, err)
}

func (i *administrator) bind(namespace, set string) {
	i.Helper()
	binding := &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Name: set}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set}}
	_, err := i.clusters.ClusterV1beta2().ManagedClusterSetBindings(namespace).Create(i.ctx, binding, metav1.CreateOptions{})
	require.NoError(i, err)
}

// label changes a label of a managed cluster.
func (i *administrator) label(cluster, key, value string) {
	i.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value)
	_, err := i.clusters.ClusterV1().ManagedClusters().Patch(i.ctx, cluster, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(i, err)
}

// step is a part of a test that goes on where the one before ended.
type step struct {
	name string
	do   func(*administrator)
}

// follow does the steps until one fails.
func (i *administrator) follow(steps ...step) {
	for _, s := range steps {
		if !i.Run(s.name, func(t *testing.T) {
			of := *i
			of.T = t
			s.do(&of)
		}) {
			return
		}
	}
}
