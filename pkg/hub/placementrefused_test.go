package hub

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// TestDecisionsRefused has a policy that refuses decisions: the placement says so, and goes on once the policy is gone.
func TestDecisionsRefused(t *testing.T) {
	a := newAdministrator(t)
	r := &replicated{a, "refused"}
	policies := a.kube.AdmissionregistrationV1()
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "refused"}}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: []string{r.namespace, metav1.NamespaceDefault}}}},
		ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{clusterv1beta1.GroupName}, APIVersions: []string{"*"}, Resources: []string{"placementdecisions"}},
		}}},
	}
	policy.Spec.Validations = []admissionv1.Validation{{Expression: "false", Message: "nothing is decided here"}}
	_, err := policies.ValidatingAdmissionPolicies().Create(a.ctx, policy, metav1.CreateOptions{})
	require.NoError(t, err)
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "refused"}}
	binding.Spec = admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "refused", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(a.ctx, binding, metav1.CreateOptions{})
	require.NoError(t, err)
	probe := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}
	eventually(t, "the policy acts", func() error {
		_, err := a.clusters.ClusterV1beta1().PlacementDecisions(metav1.NamespaceDefault).Create(a.ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "nothing is decided here") {
			return fmt.Errorf("creating a decision gives %w", err)
		}
		return nil
	})
	r.selects("refused-1")

	says := func(want string) {
		t.Helper()
		eventually(t, "placement p says "+want, func() error {
			p, err := a.clusters.ClusterV1beta1().Placements(r.namespace).Get(a.ctx, "p", metav1.GetOptions{})
			if err != nil {
				return err
			}
			c := meta.FindStatusCondition(p.Status.Conditions, clusterv1beta1.PlacementConditionSatisfied)
			if c == nil || !strings.Contains(c.Reason+" "+c.Message, want) {
				return fmt.Errorf("it says %v", c)
			}
			return nil
		})
	}
	says("NotAllDecisionsScheduled decisions cannot be written")
	says("nothing is decided here")
	require.NoError(t, policies.ValidatingAdmissionPolicyBindings().Delete(a.ctx, "refused", metav1.DeleteOptions{}))
	require.NoError(t, policies.ValidatingAdmissionPolicies().Delete(a.ctx, "refused", metav1.DeleteOptions{}))
	says("AllDecisionsScheduled")
}
