package work

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	workv1 "open-cluster-management.io/api/work/v1"
)

func workOf(manifests ...string) *workv1.ManifestWork {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "w", Namespace: "c1"}}
	for _, m := range manifests {
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(m)}})
	}
	return w
}

func executedBy(w *workv1.ManifestWork, account *workv1.ManifestWorkSubjectServiceAccount) *workv1.ManifestWork {
	w.Spec.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{Type: "ServiceAccount", ServiceAccount: account}}
	return w
}

func configMap(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"d"}}`, name)
}

func TestValidateWork(t *testing.T) {
	deploy := &workv1.ManifestWorkSubjectServiceAccount{Namespace: "d", Name: "deployer"}
	large := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"x":"` + strings.Repeat("x", 600) + `"}}`
	leaving := workOf(configMap("a"), configMap("a"))
	for _, test := range []struct {
		name      string
		work, old *workv1.ManifestWork
		want      string
	}{
		{name: "one manifest", work: workOf(configMap("a"))},
		{name: "none", work: workOf(), want: "manifests should not be empty"},
		{name: "over the limit", work: workOf(large, configMap("b")), want: "bytes which exceeds the 600 limit"},
		{name: "no name", work: workOf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"d"}}`), want: "name must be set in manifest"},
		{name: "generated name", work: workOf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","generateName":"b"}}`), want: "generateName must not be set in manifest"},
		{name: "twice", work: workOf(configMap("a"), configMap("a")), want: "duplicate manifest for resource d/a with resource type v1.ConfigMap"},
		{name: "same name of another kind", work: workOf(configMap("a"), `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"d"}}`)},
		{name: "no kind", work: workOf(`{"metadata":{"name":"a"}}`), want: "manifest 0 cannot be decoded"},
		{name: "no JSON", work: workOf(`kind: ConfigMap`), want: "manifest 0 cannot be decoded"},
		{name: "finalizer of a work that an older rule let pass", work: workOf(configMap("a"), configMap("a")), old: leaving},
		{name: "executor", work: executedBy(workOf(configMap("a")), deploy)},
		{name: "executor without an account", work: executedBy(workOf(configMap("a")), nil), want: "executor service account can not be nil"},
		{name: "executor that one may not use", work: executedBy(workOf(configMap("a")), &workv1.ManifestWorkSubjectServiceAccount{Namespace: "d", Name: "root"}),
			want: "user alice cannot manipulate the Manifestwork with executor d/root in namespace c1"},
		{name: "executor that somebody else set before", work: executedBy(workOf(configMap("b")), &workv1.ManifestWorkSubjectServiceAccount{Namespace: "d", Name: "root"}),
			old: executedBy(workOf(configMap("a")), &workv1.ManifestWorkSubjectServiceAccount{Namespace: "d", Name: "root"})},
	} {
		t.Run(test.name, func(t *testing.T) {
			rules := &Rules{LimitBytes: 600, Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				if a.GetVerb() == "execute-as" && a.GetNamespace() == "c1" && a.GetName() == "system:serviceaccount:d:deployer" {
					return authorizer.DecisionAllow, "", nil
				}
				return authorizer.DecisionNoOpinion, "", nil
			})}
			a := admission.NewAttributesRecord(test.work, nil, schema.GroupVersion(workv1.GroupVersion).WithKind("ManifestWork"), "c1", "w",
				schema.GroupVersion(workv1.GroupVersion).WithResource("manifestworks"), "", admission.Create, nil, false, &user.DefaultInfo{Name: "alice"})
			err := rules.ValidateWork(context.Background(), a, test.work, test.old)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.True(t, apierrors.IsBadRequest(err), "%v", err)
			require.ErrorContains(t, err, test.want)
		})
	}
}

// TestExecuteAs is about what the authorizer is asked: when, about whom, and for whom (case ocm-1425).
func TestExecuteAs(t *testing.T) {
	by := func(name string) *workv1.ManifestWork {
		return executedBy(workOf(configMap("a")), &workv1.ManifestWorkSubjectServiceAccount{Namespace: "d", Name: name})
	}
	none := workOf(configMap("a"))
	alice := &user.DefaultInfo{Name: "alice", UID: "u-1", Groups: []string{"tenants", "system:authenticated"}, Extra: map[string][]string{"dept": {"ops", "dev"}, "example.com/site": {"harbor"}}}
	for _, test := range []struct {
		name      string
		work, old *workv1.ManifestWork
		gate      bool // NilExecutorValidating
		want      string
	}{
		{name: "new", work: by("deployer"), want: "system:serviceaccount:d:deployer"},
		{name: "another executor", work: by("deployer"), old: by("root"), want: "system:serviceaccount:d:deployer"},
		{name: "an executor where there was none", work: by("deployer"), old: none, want: "system:serviceaccount:d:deployer"},
		{name: "the same executor, another manifest", work: executedBy(workOf(configMap("b")), by("deployer").Spec.Executor.Subject.ServiceAccount), old: by("deployer")},
		{name: "no executor", work: none},
		{name: "no executor any more", work: none, old: by("deployer")},
		{name: "no executor, checked", work: none, gate: true, want: "system:serviceaccount::klusterlet-work-sa"},
		{name: "no executor any more, checked", work: none, old: by("deployer"), gate: true, want: "system:serviceaccount::klusterlet-work-sa"},
		{name: "no executor as before, checked", work: workOf(configMap("b")), old: none, gate: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var asked []authorizer.Attributes
			rules := &Rules{NilExecutorChecked: func() bool { return test.gate }, Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				asked = append(asked, a)
				return authorizer.DecisionAllow, "", nil
			})}
			a := admission.NewAttributesRecord(test.work, nil, schema.GroupVersion(workv1.GroupVersion).WithKind("ManifestWork"), "c1", "w",
				schema.GroupVersion(workv1.GroupVersion).WithResource("manifestworks"), "", admission.Update, nil, false, alice)
			require.NoError(t, rules.ValidateWork(context.Background(), a, test.work, test.old))
			if test.want == "" {
				require.Empty(t, asked)
				return
			}
			require.Len(t, asked, 1)
			require.Equal(t, "execute-as", asked[0].GetVerb())
			require.Equal(t, "work.open-cluster-management.io/manifestworks c1 "+test.want,
				fmt.Sprintf("%s/%s %s %s", asked[0].GetAPIGroup(), asked[0].GetResource(), asked[0].GetNamespace(), asked[0].GetName()))
			require.Equal(t, user.Info(alice), asked[0].GetUser(), "name, uid, groups and all extra values")
		})
	}
}
