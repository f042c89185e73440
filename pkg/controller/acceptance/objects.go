package acceptance

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nave/pkg/identity"
)

const (
	namePrefix       = "open-cluster-management:managedcluster:"
	registrationRole = namePrefix + "registration"
	workRole         = namePrefix + "work"

	// awsGroupPrefix is the group of agents that come with an AWS identity (spec 0.3).
	awsGroupPrefix = "open-cluster-management:"

	clusterGroup  = "cluster.open-cluster-management.io"
	registerGroup = "register.open-cluster-management.io"
	workGroup     = "work.open-cluster-management.io"
	addonGroup    = "addon.open-cluster-management.io"
)

func clusterRoleName(cluster string) string { return namePrefix + cluster }
func registrationBinding(cluster string) string {
	return namePrefix + cluster + ":registration"
}
func workBinding(cluster string) string { return namePrefix + cluster + ":work" }

// metaFor is the metadata of an object that belongs to a cluster; the shared roles belong to none in particular.
func metaFor(namespace, name, cluster string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{identity.ClusterNameLabel: cluster}}
}

func namespaceOf(cluster string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metaFor("", cluster, cluster)}
}

func rule(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

func named(r rbacv1.PolicyRule, name string) rbacv1.PolicyRule {
	r.ResourceNames = []string{name}
	return r
}

// clusterRole is what an agent may do outside of its namespace. A denied one may still see that it is denied: agents with
// several hubs switch to another one by it (spec 1.1, 10.4).
func clusterRole(cluster string, accepted bool) *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{ObjectMeta: metaFor("", clusterRoleName(cluster), cluster)}
	if !accepted {
		role.Rules = []rbacv1.PolicyRule{named(rule(clusterGroup, []string{"managedclusters"}, "get", "list", "watch"), cluster)}
		return role
	}
	role.Rules = []rbacv1.PolicyRule{
		rule("certificates.k8s.io", []string{"certificatesigningrequests"}, "create", "get", "list", "watch"),
		rule(registerGroup, []string{"managedclusters/clientcertificates"}, "renew"),
		named(rule(clusterGroup, []string{"managedclusters"}, "get", "list", "update", "watch"), cluster),
		named(rule(clusterGroup, []string{"managedclusters/status"}, "patch", "update"), cluster),
	}
	return role
}

// sharedRoles are what every accepted agent may do in its own namespace.
func sharedRoles() []*rbacv1.ClusterRole {
	return []*rbacv1.ClusterRole{
		{ObjectMeta: metaFor("", registrationRole, ""), Rules: []rbacv1.PolicyRule{
			rule("coordination.k8s.io", []string{"leases"}, "get", "list", "watch", "update"),
			rule(addonGroup, []string{"managedclusteraddons"}, "get", "list", "watch"),
			rule(addonGroup, []string{"managedclusteraddons/status"}, "patch", "update"),
			rule("events.k8s.io", []string{"events"}, "create"),
		}},
		{ObjectMeta: metaFor("", workRole, ""), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
			rule(workGroup, []string{"manifestworks"}, "get", "list", "watch", "update", "patch"),
			rule(workGroup, []string{"manifestworks/status"}, "patch", "update"),
		}},
	}
}

func subjects(cluster string) []rbacv1.Subject {
	return []rbacv1.Subject{
		{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: identity.ClusterGroup(cluster)},
		{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: awsGroupPrefix + cluster},
	}
}

func roleRef(name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
}

func clusterRoleBinding(cluster string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metaFor("", clusterRoleName(cluster), cluster),
		RoleRef:    roleRef(clusterRoleName(cluster)),
		Subjects:   subjects(cluster),
	}
}

// roleBindings give access to the namespace. The one for works outlives a denial until no works are left, so that the
// agent can still clean up.
func roleBindings(cluster string) []*rbacv1.RoleBinding {
	registration := &rbacv1.RoleBinding{
		ObjectMeta: metaFor(cluster, registrationBinding(cluster), cluster),
		RoleRef:    roleRef(registrationRole),
		Subjects:   subjects(cluster),
	}
	work := &rbacv1.RoleBinding{
		ObjectMeta: metaFor(cluster, workBinding(cluster), cluster),
		RoleRef:    roleRef(workRole),
		Subjects:   subjects(cluster),
	}
	work.Finalizers = []string{workFinalizer}
	return []*rbacv1.RoleBinding{registration, work}
}
