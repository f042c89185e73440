package addontoken

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"

	"nave/pkg/identity"
)

const (
	conditionReady = "TokenInfrastructureReady"
	reasonFailed   = "TokenInfrastructureApplyFailed"

	// nameLabel and ownLabel mark what is made for the tokens of an add-on.
	nameLabel = "addon.open-cluster-management.io/name"
	ownLabel  = "addon.open-cluster-management.io/token-infrastructure"

	// awsGroupPrefix is the group of agents that come with an AWS identity (spec 0.3).
	awsGroupPrefix = "open-cluster-management:"

	driverToken = "token"
)

// pieces are what is made for the tokens of one add-on on one cluster.
type pieces struct{ cluster, addon string }

func (p pieces) accountName() string { return p.addon + "-agent" }
func (p pieces) roleName() string    { return p.addon + "-token-role" }

// ready is the message from which agents, upstream's too, read the UID of the account (spec 10.4).
func (p pieces) ready(uid types.UID) string {
	return fmt.Sprintf("ServiceAccount %s/%s (UID: %s) is ready", p.cluster, p.accountName(), uid)
}

func (p pieces) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: p.cluster, Labels: map[string]string{nameLabel: p.addon, ownLabel: "true"}}
}

func (p pieces) account() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: p.meta(p.accountName())}
}

// role lets ask for tokens of this one account.
func (p pieces) role() *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: p.meta(p.roleName()), Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{p.accountName()},
		Verbs: []string{"create", "subscribe"}, // upstream's gRPC agents subscribe
	}}}
}

func (p pieces) binding() *rbacv1.RoleBinding {
	group := func(name string) rbacv1.Subject {
		return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
	}
	return &rbacv1.RoleBinding{
		ObjectMeta: p.meta(p.roleName()),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: p.roleName()},
		Subjects:   []rbacv1.Subject{group(identity.ClusterGroup(p.cluster)), group(awsGroupPrefix + p.cluster)},
	}
}

// addonOf is the add-on that an object was made for, empty if it is none of this controller's.
func addonOf(o metav1.Object) string {
	if o.GetLabels()[ownLabel] != "true" {
		return ""
	}
	return o.GetLabels()[nameLabel]
}

// checkOwner refuses to take an object over that somebody else made: with a service account that exists for another
// purpose, the cluster's agent would get rights that are not the add-on's.
func (p pieces) checkOwner(kind string, o metav1.Object) error {
	if addonOf(o) == p.addon {
		return nil
	}
	return fmt.Errorf("%s %s/%s exists and was not made for tokens of add-on %s; delete it, or label it %s=%s and %s=true",
		kind, p.cluster, o.GetName(), p.addon, nameLabel, p.addon, ownLabel)
}

// usesToken tells whether the agent of a cluster declared that the add-on comes with a token.
func usesToken(mca *addonv1alpha1.ManagedClusterAddOn) bool {
	if mca.Status.KubeClientDriver != driverToken {
		return false
	}
	for _, r := range mca.Status.Registrations {
		//lint:ignore SA1019 deprecated for users, and what is stored
		if r.SignerName == identity.KubeSigner {
			return true
		}
	}
	return false
}

func sameRules(a, b *rbacv1.Role) bool { return equality.Semantic.DeepEqual(a.Rules, b.Rules) }

func sameSubjects(a, b *rbacv1.RoleBinding) bool {
	return equality.Semantic.DeepEqual(a.Subjects, b.Subjects) && a.RoleRef == b.RoleRef
}
