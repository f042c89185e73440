package hub

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/yaml"
)

const (
	mutatingPolicy = `
metadata: {name: works}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [work.open-cluster-management.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [manifestworks]}]}
  mutations:
  - {patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/spec/deleteOption", value: {"propagationPolicy": "Orphan"}}]'}}
`
	validatingPolicy = `
metadata: {name: works}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [work.open-cluster-management.io], apiVersions: [v1], operations: [DELETE], resources: [manifestworks]}]}
  validations: [{expression: "false", message: works are protected here}]
`
)

// reports makes an agent of the work that has its content.
func (r *replicated) reports(work *workv1.ManifestWork) {
	r.Helper()
	for _, kind := range []string{workv1.WorkApplied, workv1.WorkAvailable} {
		meta.SetStatusCondition(&work.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Test", ObservedGeneration: work.Generation})
	}
	_, err := r.works.WorkV1().ManifestWorks(work.Namespace).UpdateStatus(r.ctx, work, metav1.UpdateOptions{})
	require.NoError(r, err)
}

// TestReplicaSetsAndPolicies: what a policy makes of a work is taken for what was written; a set whose works a policy keeps says
// so.
func TestReplicaSetsAndPolicies(t *testing.T) {
	r := &replicated{newAdministrator(t), "policies"}
	r.selects("policies-a")
	policies, works := r.kube.AdmissionregistrationV1(), r.works.WorkV1().ManifestWorks("policies-a")

	mutating := &admissionv1.MutatingAdmissionPolicy{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(mutatingPolicy), mutating))
	_, err := policies.MutatingAdmissionPolicies().Create(r.ctx, mutating, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = policies.MutatingAdmissionPolicyBindings().Create(r.ctx, &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "works"}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "works"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	try := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "try"}}
	try.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}`)}}}
	eventually(t, "the policy is in force", func() error {
		work, err := works.Create(r.ctx, try, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && work.Spec.DeleteOption == nil {
			err = errors.New("it is not")
		}
		return err
	})

	r.create("web", strings.Replace(oneMap, "Orphan", "Foreground", 1))
	for generation, change := range []string{`{}`, `{"spec":{"manifestWorkTemplate":{"workload":{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"k":"2"}}]}}}}`} {
		r.change("web", change)
		var work workv1.ManifestWork
		eventually(t, "the work has the content", func() error {
			work = r.made("policies-a")[0]
			if work.Generation != int64(generation)+1 {
				return fmt.Errorf("its generation is %d", work.Generation)
			}
			return nil
		})
		require.Equal(t, workv1.DeletePropagationPolicyTypeOrphan, work.Spec.DeleteOption.PropagationPolicy)
		r.reports(&work)
		r.condition("web", "PlacementRolledOut", "Complete")
		require.EqualValues(t, generation+1, r.made("policies-a")[0].Generation, "it was written once")
	}

	validating := &admissionv1.ValidatingAdmissionPolicy{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(validatingPolicy), validating))
	_, err = policies.ValidatingAdmissionPolicies().Create(r.ctx, validating, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(r.ctx, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "works"},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "works", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, "the policy is in force", func() error {
		if err := works.Delete(r.ctx, r.made("policies-a")[0].Name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err == nil || !strings.Contains(err.Error(), "protected") {
			return fmt.Errorf("it is not: %v", err)
		}
		return nil
	})
	sets := r.works.WorkV1alpha1().ManifestWorkReplicaSets(r.namespace)
	require.NoError(t, sets.Delete(r.ctx, "web", metav1.DeleteOptions{}))
	eventually(t, "the set says why it stays", func() error {
		set, err := sets.Get(r.ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c := meta.FindStatusCondition(set.Status.Conditions, "ManifestworkApplied"); c == nil || !strings.Contains(c.Message, "works are protected here") {
			return fmt.Errorf("conditions are %v", set.Status.Conditions)
		}
		return nil
	})
	require.NoError(t, policies.ValidatingAdmissionPolicyBindings().Delete(r.ctx, "works", metav1.DeleteOptions{}))
	eventually(t, "the set goes", func() error {
		if _, err := sets.Get(r.ctx, "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
	r.made()
}
