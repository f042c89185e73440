// Package work holds the admission rules of the work group (spec 3.1), inside the API server's process.
package work

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/api/cluster"
)

// Rules are the admission rules with what they need to know.
type Rules struct {
	Authorizer authorizer.Authorizer
	LimitBytes int // of the manifests of one work, see CheckLimit; DefaultLimitBytes if 0
	// ReplicaSets tells whether anything acts on ManifestWorkReplicaSets (gate ManifestWorkReplicaSet). Nil is no.
	ReplicaSets func() bool
	// NilExecutorChecked tells whether works without an executor need a permission, too (gate NilExecutorValidating). Nil is no.
	NilExecutorChecked func() bool
}

// ValidateWork checks a new or changed work. old is nil on create. A change that leaves the manifests as they are, such as
// that of a finalizer, is never refused because of them: a rule that got stricter must not strand works in deletion
// (spec 10.2, C12).
func (r *Rules) ValidateWork(ctx context.Context, attributes admission.Attributes, work, old *workv1.ManifestWork) error {
	if old == nil || !equality.Semantic.DeepEqual(work.Spec.Workload, old.Spec.Workload) {
		if err := checkManifests(work.Spec.Workload.Manifests, r.limit()); err != nil {
			return err
		}
	}
	if old == nil || !equality.Semantic.DeepEqual(work.Spec.Executor, old.Spec.Executor) {
		return r.checkExecutor(ctx, attributes, work.Spec.Executor, work.Namespace)
	}
	return nil
}

// agentAccount stands for the agent's own rights, with which a work without an executor is applied. It is upstream's name.
const agentAccount = "klusterlet-work-sa"

// checkExecutor asks whether the user may have works of a cluster's namespace, or of all, executed as the work wants. All that is known of the user goes into the
// question, since authorizers decide by any of it.
func (r *Rules) checkExecutor(ctx context.Context, attributes admission.Attributes, executor *workv1.ManifestWorkExecutor, namespace string) error {
	account := &workv1.ManifestWorkSubjectServiceAccount{Name: agentAccount}
	switch {
	case executor != nil:
		account = executor.Subject.ServiceAccount
	case r.NilExecutorChecked == nil || !r.NilExecutorChecked():
		return nil
	}
	if account == nil {
		return apierrors.NewBadRequest("executor service account can not be nil")
	}
	allowed, err := cluster.Allowed(ctx, r.Authorizer, authorizer.AttributesRecord{
		User:            attributes.GetUserInfo(),
		Verb:            "execute-as",
		APIGroup:        workv1.GroupName,
		APIVersion:      "*",
		Resource:        "manifestworks",
		Namespace:       namespace,
		Name:            fmt.Sprintf("system:serviceaccount:%s:%s", account.Namespace, account.Name),
		ResourceRequest: true,
	})
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if !allowed {
		where := "in namespace " + namespace
		if namespace == "" {
			where = "in all namespaces"
		}
		return apierrors.NewBadRequest(fmt.Sprintf("user %s cannot manipulate the Manifestwork with executor %s/%s %s",
			attributes.GetUserInfo().GetName(), account.Namespace, account.Name, where))
	}
	return nil
}
