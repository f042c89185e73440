package bootstrap

import (
	"context"
	"errors"
	"fmt"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"nave/pkg/identity"
)

// level is a priority level and what is handled at it. Requests of one user, which is one cluster's agent, share a few of
// the level's queues, so that a cluster that asks too much makes itself wait and no other.
type level struct {
	name       string
	precedence int32 // of its schemas; Kubernetes' own for everybody else begin at 500
	shares     int32
	queues     int32
	hand       int32
	length     int32 // of a queue; who comes to a full one is told to come again
	subjects   []flowcontrolv1.Subject
	rules      []flowcontrolv1.ResourcePolicyRule
}

// levels put what keeps clusters connected above what they do, and who is not in yet, or is nobody, below both.
func levels() []level {
	agents := []flowcontrolv1.Subject{group(identity.ManagedClustersGroup)}
	return []level{
		{
			name: "nave-heartbeats", precedence: 300, shares: 40, queues: 64, hand: 4, length: 50, subjects: agents,
			rules: []flowcontrolv1.ResourcePolicyRule{
				everywhere("coordination.k8s.io", "leases"),
				everywhere("certificates.k8s.io", "certificatesigningrequests"),
				everywhere("cluster.open-cluster-management.io", "managedclusters", "managedclusters/status"),
			},
		},
		{
			name: "nave-agents", precedence: 310, shares: 60, queues: 128, hand: 4, length: 50, subjects: agents,
			rules: []flowcontrolv1.ResourcePolicyRule{everywhere("*", "*")},
		},
		{
			name: "nave-joins", precedence: 320, shares: 10, queues: 16, hand: 2, length: 50,
			subjects: []flowcontrolv1.Subject{
				group(identity.BootstrapGroup),
				group(user.AllUnauthenticated),
				{Kind: flowcontrolv1.SubjectKindServiceAccount, ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: accountNamespace, Name: accountName}},
			},
			rules: []flowcontrolv1.ResourcePolicyRule{everywhere("*", "*")},
		},
	}
}

func group(name string) flowcontrolv1.Subject {
	return flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: name}}
}

func everywhere(apiGroup string, resources ...string) flowcontrolv1.ResourcePolicyRule {
	return flowcontrolv1.ResourcePolicyRule{
		APIGroups: []string{apiGroup}, Resources: resources, Verbs: []string{rbacv1.VerbAll},
		Namespaces: []string{flowcontrolv1.NamespaceEvery}, ClusterScope: true,
	}
}

func (l level) configuration() *flowcontrolv1.PriorityLevelConfiguration {
	return &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: l.name},
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: ptr.To(l.shares),
				LendablePercent:          ptr.To(int32(50)),
				LimitResponse: flowcontrolv1.LimitResponse{
					Type:    flowcontrolv1.LimitResponseTypeQueue,
					Queuing: &flowcontrolv1.QueuingConfiguration{Queues: l.queues, HandSize: l.hand, QueueLengthLimit: l.length},
				},
			},
		},
	}
}

func (l level) schema() *flowcontrolv1.FlowSchema {
	return &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: l.name},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: l.name},
			MatchingPrecedence:         l.precedence,
			DistinguisherMethod:        &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: l.subjects, ResourceRules: l.rules,
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{rbacv1.VerbAll}, NonResourceURLs: []string{rbacv1.NonResourceAll}}},
			}},
		},
	}
}

// keepAnnotation, set to "false" on one of the objects, leaves it to its user, as with Kubernetes' own.
const keepAnnotation = flowcontrolv1.AutoUpdateAnnotationKey

// ensureFlowControl makes the levels, and corrects those that nobody took over.
func ensureFlowControl(ctx context.Context, kube kubernetes.Interface) error {
	configurations, schemas := kube.FlowcontrolV1().PriorityLevelConfigurations(), kube.FlowcontrolV1().FlowSchemas()
	var errs []error
	for _, l := range levels() {
		configuration, schema := l.configuration(), l.schema()
		errs = append(errs,
			ensureUnlessTaken(ctx, "priority level", configurations, configuration, func(current *flowcontrolv1.PriorityLevelConfiguration) bool {
				same := equality.Semantic.DeepDerivative(configuration.Spec, current.Spec)
				current.Spec = configuration.Spec
				return !same
			}),
			ensureUnlessTaken(ctx, "flow schema", schemas, schema, func(current *flowcontrolv1.FlowSchema) bool {
				same := equality.Semantic.DeepDerivative(schema.Spec, current.Spec)
				current.Spec = schema.Spec
				return !same
			}),
		)
	}
	return errors.Join(errs...)
}

// client is the part of a typed client that keeping an object takes.
type client[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Create(ctx context.Context, obj T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, obj T, options metav1.UpdateOptions) (T, error)
}

// ensureUnlessTaken makes wanted, or corrects what is there unless somebody took it over. correct brings the object in line
// and tells whether that changed it.
func ensureUnlessTaken[T metav1.Object](ctx context.Context, kind string, c client[T], wanted T, correct func(current T) bool) error {
	current, err := c.Get(ctx, wanted.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = c.Create(ctx, wanted, metav1.CreateOptions{})
	case err == nil && current.GetAnnotations()[keepAnnotation] != "false" && correct(current):
		_, err = c.Update(ctx, current, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", kind, wanted.GetName(), err)
	}
	return nil
}
