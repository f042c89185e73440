package rights

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestExplain(t *testing.T) {
	hooks := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	forbidden := func(gvr schema.GroupVersionResource, why string) error {
		return apierrors.NewForbidden(gvr.GroupResource(), "x", errors.New(why))
	}
	verbs := []string{"get", "create", "patch"}
	for _, test := range []struct {
		name string
		err  error
		gvr  schema.GroupVersionResource
		want string // after the error itself
	}{
		{"a kind of a group", forbidden(hooks, `User "u" cannot patch resource "validatingwebhookconfigurations" in API group "admissionregistration.k8s.io" at the cluster scope`), hooks,
			"; to let the agent do it, run on the managed cluster: kubectl create clusterrole nave-agent-validatingwebhookconfigurations.admissionregistration.k8s.io --verb=get,create,patch" +
				" --resource=validatingwebhookconfigurations.admissionregistration.k8s.io && kubectl label clusterrole nave-agent-validatingwebhookconfigurations.admissionregistration.k8s.io open-cluster-management.io/aggregate-to-work=true"},
		{"a core kind, and a verb that nobody thought of", forbidden(maps, `User "system:serviceaccount:a:b" cannot delete resource "configmaps" in API group "" in the namespace "d"`), maps,
			"; to let the agent do it, run on the managed cluster: kubectl create clusterrole nave-agent-configmaps --verb=get,create,patch,delete --resource=configmaps && kubectl label clusterrole nave-agent-configmaps open-cluster-management.io/aggregate-to-work=true"},
		{"another kind than the work's", forbidden(maps, `User "u" cannot create resource "subjectaccessreviews" in API group "authorization.k8s.io" at the cluster scope`), maps,
			"; to let the agent do it, run on the managed cluster: kubectl create clusterrole nave-agent-subjectaccessreviews.authorization.k8s.io --verb=create --resource=subjectaccessreviews.authorization.k8s.io" +
				" && kubectl label clusterrole nave-agent-subjectaccessreviews.authorization.k8s.io open-cluster-management.io/aggregate-to-work=true"},
		{"a subresource", forbidden(maps, `User "u" cannot update resource "deployments/scale" in API group "apps" in the namespace "d"`), maps,
			"; to let the agent do it, run on the managed cluster: kubectl create clusterrole nave-agent-deployments.apps-scale --verb=update --resource=deployments.apps/scale && kubectl label clusterrole nave-agent-deployments.apps-scale open-cluster-management.io/aggregate-to-work=true"},
		{"to speak for an executor", forbidden(roles, `User "u" cannot impersonate-on:serviceaccount:create resource "roles" in API group "rbac.authorization.k8s.io" in the namespace "d"`), roles,
			"; to let the agent do it, run on the managed cluster: kubectl create clusterrole nave-agent-serviceaccounts --verb=impersonate --resource=serviceaccounts && kubectl label clusterrole nave-agent-serviceaccounts open-cluster-management.io/aggregate-to-work=true"},
		{"wrapped", fmt.Errorf("apply: %w", forbidden(maps, `User "u" cannot get resource "configmaps" in API group "" in the namespace "d"`)), maps,
			"; to let the agent do it, run on the managed cluster: kubectl create clusterrole nave-agent-configmaps --verb=get,create,patch --resource=configmaps && kubectl label clusterrole nave-agent-configmaps open-cluster-management.io/aggregate-to-work=true"},
		{"a role that grants more than the agent has", forbidden(roles, "user \"u\" (groups=[\"g\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"), roles,
			"; the agent may give only what it has itself; to let it give anything, run on the managed cluster: kubectl create clusterrole nave-agent-grants --verb=escalate,bind" +
				" --resource=roles.rbac.authorization.k8s.io,clusterroles.rbac.authorization.k8s.io && kubectl label clusterrole nave-agent-grants open-cluster-management.io/aggregate-to-work=true"},
		{"a quota", forbidden(maps, "exceeded quota: compute, requested: configmaps=1, used: configmaps=3, limited: configmaps=3"), maps, ""},
		{"a policy", forbidden(maps, "violates PodSecurity \"restricted:latest\""), maps, ""},
		{"no refusal", apierrors.NewConflict(maps.GroupResource(), "x", errors.New(`User "u" cannot get resource "configmaps" in API group ""`)), maps, ""},
		{"nothing", nil, maps, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Explain(test.err, verbs, test.gvr)
			if test.want == "" {
				require.Equal(t, test.err, got)
				return
			}
			require.ErrorIs(t, got, test.err)
			require.True(t, apierrors.IsForbidden(got), "it can still be told from other errors")
			require.EqualError(t, got, test.err.Error()+test.want)
		})
	}
}
