package executor

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"
)

func TestDenied(t *testing.T) {
	roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	for _, test := range []struct {
		name   string
		denied Denied
		want   string
	}{
		{"verbs", Denied{GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespace: "d", Name: "x", Executor: "system:serviceaccount:d:e", Missing: []string{"create", "patch"}},
			"not allowed to apply the resource  configmaps, d x, will try again in 1m0s; on the managed cluster system:serviceaccount:d:e may not create, patch it"},
		{"a verb and a fault", Denied{GVR: roles, Namespace: "d", Name: "x", Executor: "e", Missing: []string{"get"}, Reason: "webhook is away"},
			"not allowed to apply the resource rbac.authorization.k8s.io roles, d x, will try again in 1m0s; on the managed cluster e may not get it: webhook is away"},
		{"escalation", Denied{GVR: roles, Namespace: "d", Name: "x", Executor: "e", Escalation: true, Reason: "roles is forbidden"},
			"not allowed to apply the resource rbac.authorization.k8s.io roles, d x, error: permission escalation, will try again in 1m0s: roles is forbidden"},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.EqualError(t, &test.denied, test.want)
		})
	}
}

// TestSubjects are such as a newer hub, or one without our admission rules, may send. None gets as far as a request.
func TestSubjects(t *testing.T) {
	c := &Checker{asked: make(chan struct{})}
	for _, test := range []struct {
		name    string
		subject workv1.ManifestWorkExecutorSubject
		want    string
	}{
		{"another type", workv1.ManifestWorkExecutorSubject{Type: "User"}, `of type "User"; only ServiceAccount is supported`},
		{"no type", workv1.ManifestWorkExecutorSubject{ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "n", Name: "a"}}, `of type ""`},
		{"no account", workv1.ManifestWorkExecutorSubject{Type: "ServiceAccount"}, "names no service account"},
		{"no namespace", workv1.ManifestWorkExecutorSubject{Type: "ServiceAccount", ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Name: "a"}}, "needs a namespace and a name"},
		{"no name", workv1.ManifestWorkExecutorSubject{Type: "ServiceAccount", ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "n"}}, "needs a namespace and a name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := c.Check(context.Background(), &workv1.ManifestWorkExecutor{Subject: test.subject}, Request{Verbs: []string{"get"}})
			var denied *Denied
			require.ErrorAs(t, err, &denied)
			require.ErrorContains(t, err, test.want)
		})
	}
}
