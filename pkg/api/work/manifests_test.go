package work

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
)

func TestCheckLimit(t *testing.T) {
	for _, test := range []struct {
		bytes int
		ok    bool
	}{{-1, false}, {0, false}, {1, true}, {DefaultLimitBytes, true}, {MostLimitBytes, true}, {MostLimitBytes + 1, false}} {
		t.Run(fmt.Sprint(test.bytes), func(t *testing.T) {
			err := CheckLimit(test.bytes)
			if test.ok {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "between 1 and 2097152")
		})
	}
}

// TestSize pins what a size is: upstream counts the few bytes around a manifest, too.
func TestSize(t *testing.T) {
	manifest := configMap("a")
	require.NoError(t, checkManifests(workOf(manifest).Spec.Workload.Manifests, len(manifest)+2))
	err := checkManifests(workOf(manifest).Spec.Workload.Manifests, len(manifest)+1)
	require.EqualError(t, err, fmt.Sprintf("the size of manifests is %d bytes which exceeds the %d limit", len(manifest)+2, len(manifest)+1))
}

// TestVeryManyManifests fill the largest work that a hub can be told to take, and are still looked at one by one.
func TestVeryManyManifests(t *testing.T) {
	var manifests []string
	for size := 0; size < MostLimitBytes-200; size += len(manifests[len(manifests)-1]) + 4 {
		manifests = append(manifests, configMap(fmt.Sprintf("m-%d", len(manifests))))
	}
	require.Greater(t, len(manifests), 20_000)
	require.NoError(t, checkManifests(workOf(manifests...).Spec.Workload.Manifests, MostLimitBytes))
	manifests[len(manifests)-1] = manifests[0]
	require.ErrorContains(t, checkManifests(workOf(manifests...).Spec.Workload.Manifests, MostLimitBytes), "duplicate manifest for resource d/m-0")
}

type warnings []string

// AddWarning implements warning.Recorder.
func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

func TestValidateReplicaSet(t *testing.T) {
	set := func(manifests ...string) *workv1alpha1.ManifestWorkReplicaSet {
		s := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "teams"}}
		s.Spec.ManifestWorkTemplate = workOf(manifests...).Spec
		return s
	}
	by := func(account, manifest string) *workv1alpha1.ManifestWorkReplicaSet {
		s := set(manifest)
		s.Spec.ManifestWorkTemplate.Executor = executedBy(workOf(), &workv1.ManifestWorkSubjectServiceAccount{Namespace: "d", Name: account}).Spec.Executor
		return s
	}
	large := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"x":"` + strings.Repeat("x", 600) + `"}}`
	for _, test := range []struct {
		name     string
		set, old *workv1alpha1.ManifestWorkReplicaSet
		off      bool
		checked  bool // NilExecutorValidating
		want     string
		warned   bool
	}{
		{name: "one manifest", set: set(configMap("a"))},
		{name: "none", set: set(), want: "manifests should not be empty"},
		{name: "over the limit", set: set(large), want: "bytes which exceeds the 600 limit"},
		{name: "no name", set: set(`{"apiVersion":"v1","kind":"ConfigMap"}`), want: "name must be set in manifest"},
		{name: "twice", set: set(configMap("a"), configMap("a")), want: "duplicate manifest for resource d/a"},
		{name: "no JSON", set: set(`kind: ConfigMap`), want: "manifest 0 cannot be decoded"},
		{name: "a template that got worse", set: set(large), old: set(configMap("a")), want: "bytes which exceeds the 600 limit"},
		{name: "finalizer of one that an older rule let pass", set: set(large), old: set(large)},
		{name: "the feature is off", set: set(configMap("a")), off: true, warned: true},
		{name: "executor", set: by("deployer", configMap("a"))},
		{name: "executor that one may not use", set: by("root", configMap("a")), want: "user alice cannot manipulate the Manifestwork with executor d/root in all namespaces"},
		{name: "executor that one may use in some namespaces", set: by("errand", configMap("a")), want: "executor d/errand in all namespaces"},
		{name: "another executor", set: by("root", configMap("a")), old: by("deployer", configMap("a")), want: "executor d/root in all namespaces"},
		{name: "executor that somebody else set before", set: by("root", configMap("b")), old: by("root", configMap("a"))},
		{name: "no executor, checked", set: set(configMap("a")), checked: true, want: "executor /klusterlet-work-sa in all namespaces"},
		{name: "the feature is off, nothing changes", set: set(configMap("a")), old: set(configMap("a")), off: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			rules := &Rules{LimitBytes: 600, ReplicaSets: func() bool { return !test.off }, NilExecutorChecked: func() bool { return test.checked },
				Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
					everywhere := a.GetNamespace() == metav1.NamespaceAll && a.GetName() == "system:serviceaccount:d:deployer"
					if a.GetVerb() == "execute-as" && (everywhere || a.GetNamespace() != "" && a.GetName() == "system:serviceaccount:d:errand") {
						return authorizer.DecisionAllow, "", nil
					}
					return authorizer.DecisionNoOpinion, "", nil
				})}
			said := &warnings{}
			a := admission.NewAttributesRecord(test.set, nil, schema.GroupVersion(workv1alpha1.GroupVersion).WithKind("ManifestWorkReplicaSet"), "teams", "s",
				schema.GroupVersion(workv1alpha1.GroupVersion).WithResource("manifestworkreplicasets"), "", admission.Create, nil, false, &user.DefaultInfo{Name: "alice"})
			err := rules.ValidateReplicaSet(warning.WithWarningRecorder(context.Background(), said), a, test.set, test.old)
			if test.warned {
				require.Len(t, *said, 1)
				require.Contains(t, (*said)[0], "ManifestWorkReplicaSet feature is disabled")
			} else {
				require.Empty(t, *said)
			}
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.True(t, apierrors.IsBadRequest(err), "%v", err)
			require.ErrorContains(t, err, test.want)
		})
	}
}
