// Package cluster holds the admission rules of the cluster group: what upstream's webhooks check (spec 1.8), inside the
// API server's process.
package cluster

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/clock"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"

	"nave/pkg/identity"
)

const (
	// DefaultSet is the set of every cluster that names no other.
	DefaultSet = "default"

	registerGroup = "register.open-cluster-management.io"
)

// Rules are the admission rules with what they need to know.
type Rules struct {
	Authorizer authorizer.Authorizer
	// Namespace reads a namespace; an error that is not "not found" refuses the request.
	Namespace func(ctx context.Context, name string) (*corev1.Namespace, error)
	Clock     clock.PassiveClock
}

// MutateCluster fills what a client may not choose itself: the time of a taint, and the default cluster set. old is nil
// on create.
func (r *Rules) MutateCluster(mc, old *clusterv1.ManagedCluster) error {
	if err := r.stampTaints(mc, old); err != nil {
		return err
	}
	if mc.Labels[clusterv1beta2.ClusterSetLabel] == "" {
		if mc.Labels == nil {
			mc.Labels = map[string]string{}
		}
		mc.Labels[clusterv1beta2.ClusterSetLabel] = DefaultSet
	}
	return nil
}

// stampTaints sets timeAdded of new and changed taints to now, and keeps that of the others, also where a client that
// knows nothing of it (kubectl apply) leaves it out. A taint is known by key, value and effect together: a key may stand
// twice with different effects, and each of the two has its own age.
func (r *Rules) stampTaints(mc, old *clusterv1.ManagedCluster) error {
	now := metav1.NewTime(r.Clock.Now())
	var forbidden []string
	for i := range mc.Spec.Taints {
		taint := &mc.Spec.Taints[i]
		if old == nil {
			taint.TimeAdded = now
			continue
		}
		before := slices.IndexFunc(old.Spec.Taints, func(t clusterv1.Taint) bool {
			return t.Key == taint.Key && t.Effect == taint.Effect && t.Value == taint.Value
		})
		switch {
		case before < 0 && taint.TimeAdded.IsZero():
			taint.TimeAdded = now
		case before >= 0 && taint.TimeAdded.IsZero():
			taint.TimeAdded = old.Spec.Taints[before].TimeAdded
		case before < 0 || !taint.TimeAdded.Equal(&old.Spec.Taints[before].TimeAdded):
			forbidden = append(forbidden, taint.Key)
		}
	}
	if len(forbidden) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("It is not allowed to set TimeAdded of Taint %q.", strings.Join(forbidden, ",")))
	}
	return nil
}

// ValidateCluster checks a new or changed cluster. old is nil on create.
func (r *Rules) ValidateCluster(ctx context.Context, attributes admission.Attributes, mc, old *clusterv1.ManagedCluster) error {
	if old == nil {
		if reasons := identity.CheckClusterName(mc.Name); len(reasons) > 0 {
			return apierrors.NewBadRequest(fmt.Sprintf("metadata.name format is not correct: %s", strings.Join(reasons, ",")))
		}
	}
	for _, config := range mc.Spec.ManagedClusterClientConfigs {
		if u, err := url.Parse(config.URL); err != nil || u.Scheme != "https" || u.Host == "" {
			return apierrors.NewBadRequest(fmt.Sprintf("url %q is invalid in client configs", config.URL))
		}
	}
	if err := r.checkAcceptance(ctx, attributes, mc, old); err != nil {
		return err
	}
	return r.checkSets(ctx, attributes, mc, old)
}

// checkAcceptance lets nobody accept or deny a cluster without the right to. Upstream asks for it on accepting only; a
// denial cuts a cluster off and is no smaller thing (spec 10.1, S9).
func (r *Rules) checkAcceptance(ctx context.Context, attributes admission.Attributes, mc, old *clusterv1.ManagedCluster) error {
	before := old != nil && old.Spec.HubAcceptsClient
	if mc.Spec.HubAcceptsClient == before {
		return nil
	}
	if mc.Spec.HubAcceptsClient {
		namespace, err := r.Namespace(ctx, mc.Name)
		switch {
		case err == nil && namespace.Status.Phase == corev1.NamespaceTerminating:
			return forbidden(attributes, fmt.Sprintf("cluster namespace %q is terminating", mc.Name))
		case err != nil && !apierrors.IsNotFound(err):
			return apierrors.NewInternalError(fmt.Errorf("read namespace %s: %w", mc.Name, err))
		}
	}
	return r.require(ctx, attributes, authorizer.AttributesRecord{
		Verb: "update", APIGroup: registerGroup, APIVersion: "*", Resource: "managedclusters", Subresource: "accept", Name: mc.Name,
	}, fmt.Sprintf("user %q cannot update the HubAcceptsClient field", attributes.GetUserInfo().GetName()))
}

func (r *Rules) checkSets(ctx context.Context, attributes admission.Attributes, mc, old *clusterv1.ManagedCluster) error {
	var before string
	if old != nil {
		before = old.Labels[clusterv1beta2.ClusterSetLabel]
	}
	after := mc.Labels[clusterv1beta2.ClusterSetLabel]
	if before == after {
		return nil
	}
	for _, set := range []string{before, after} {
		if set == "" {
			continue
		}
		if err := r.require(ctx, attributes, setAttributes("join", set), fmt.Sprintf(
			"user %q cannot add/remove a ManagedCluster to/from ManagedClusterSet %q", attributes.GetUserInfo().GetName(), set)); err != nil {
			return err
		}
	}
	return nil
}

// ValidateBinding checks a ManagedClusterSetBinding.
func (r *Rules) ValidateBinding(ctx context.Context, attributes admission.Attributes, binding *clusterv1beta2.ManagedClusterSetBinding) error {
	if binding.Name != binding.Spec.ClusterSet {
		return apierrors.NewBadRequest("The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet")
	}
	if attributes.GetOperation() != admission.Create {
		return nil
	}
	return r.require(ctx, attributes, setAttributes("bind", binding.Spec.ClusterSet), fmt.Sprintf(
		"user %q is not allowed to bind cluster set %q", attributes.GetUserInfo().GetName(), binding.Spec.ClusterSet))
}

func setAttributes(subresource, set string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		Verb: "create", APIGroup: clusterv1.GroupName, APIVersion: "*", Resource: "managedclustersets", Subresource: subresource, Name: set,
	}
}

// require refuses the request with text unless its user may do what wanted says.
func (r *Rules) require(ctx context.Context, attributes admission.Attributes, wanted authorizer.AttributesRecord, text string) error {
	wanted.User = attributes.GetUserInfo()
	wanted.ResourceRequest = true
	allowed, err := Allowed(ctx, r.Authorizer, wanted)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if !allowed {
		return forbidden(attributes, text)
	}
	return nil
}

// Allowed asks whether a user has a right. Members of system:masters have every one.
func Allowed(ctx context.Context, a authorizer.Authorizer, wanted authorizer.AttributesRecord) (bool, error) {
	if slices.Contains(wanted.User.GetGroups(), user.SystemPrivilegedGroup) {
		return true, nil
	}
	decision, _, err := a.Authorize(ctx, wanted)
	if decision == authorizer.DecisionAllow {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("authorize %s %s/%s %s: %w", wanted.Verb, wanted.Resource, wanted.Subresource, wanted.Name, err)
	}
	return false, nil
}

func forbidden(attributes admission.Attributes, text string) error {
	return apierrors.NewForbidden(attributes.GetResource().GroupResource(), attributes.GetName(), fmt.Errorf("%s", text))
}
