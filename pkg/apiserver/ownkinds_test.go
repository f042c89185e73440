package apiserver_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

func TestOwnGroupsTakeNoDefinitions(t *testing.T) {
	s, _, ctx := start(t)
	person := rest.CopyConfig(s.config)
	person.Impersonate = rest.ImpersonationConfig{UserName: "admin", Groups: []string{user.SystemPrivilegedGroup}}
	client, err := dynamic.NewForConfig(person)
	require.NoError(t, err)
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, test := range []struct {
		name, group, plural, kind string
		refused                   bool
	}{
		{"the hub's own definition, as upstream's installer has it", "operator.open-cluster-management.io", "clustermanagers", "ClusterManager", true},
		{"a kind of the hub", "cluster.open-cluster-management.io", "managedclusters", "ManagedCluster", true},
		{"another kind of such a group, which would hide behind it", "work.open-cluster-management.io", "somethings", "Something", true},
		{"an add-on's", "policy.example.com", "policies", "Policy", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			crd := object(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: `+test.plural+`.`+test.group+`}, spec: {
				group: `+test.group+`, scope: Namespaced, names: {plural: `+test.plural+`, kind: `+test.kind+`},
				versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`)
			_, err = definitions.Create(ctx, crd, metav1.CreateOptions{})
			if test.refused {
				require.True(t, apierrors.IsForbidden(err), "%v", err)
				require.ErrorContains(t, err, "needs no clusteradm init: go on with clusteradm get token")
				return
			}
			require.NoError(t, err)
			require.NoError(t, definitions.Delete(ctx, crd.GetName(), metav1.DeleteOptions{}))
		})
	}
}
