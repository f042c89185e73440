package attack

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/identity"
)

// TestAgentThatDecidesAboutItself changes, with the rights that it needs for its own, what is the hub's to decide.
func TestAgentThatDecidesAboutItself(t *testing.T) {
	admin, ctx := start(t)
	self, _ := admin.join(ctx, t, "selfish")
	clusters := self.clusters.ClusterV1().ManagedClusters()
	for _, test := range []struct {
		attack string
		change func(*clusterv1.ManagedCluster)
		field  string
	}{
		{"another set", func(mc *clusterv1.ManagedCluster) { mc.Labels[clusterv1beta2.ClusterSetLabel] = "other" }, "metadata.labels"},
		{"another label", func(mc *clusterv1.ManagedCluster) { mc.Labels["environment"] = "production" }, "metadata.labels"},
		{"a taint", func(mc *clusterv1.ManagedCluster) {
			mc.Spec.Taints = append(mc.Spec.Taints, clusterv1.Taint{Key: "k", Effect: clusterv1.TaintEffectNoSelect})
		}, "spec.taints"},
		{"no taints", func(mc *clusterv1.ManagedCluster) { mc.Spec.Taints = nil }, "spec.taints"},
		{"not accepted", func(mc *clusterv1.ManagedCluster) { mc.Spec.HubAcceptsClient = false }, "spec.hubAcceptsClient"},
		{"a lease without end", func(mc *clusterv1.ManagedCluster) { mc.Spec.LeaseDurationSeconds = 1 << 30 }, "spec.leaseDurationSeconds"},
		{"an annotation of the hub's", func(mc *clusterv1.ManagedCluster) { mc.Annotations["example.com/a"] = "b" }, "metadata.annotations"},
		{"a finalizer", func(mc *clusterv1.ManagedCluster) { mc.Finalizers = append(mc.Finalizers, "example.com/for-ever") }, "metadata.finalizers"},
		{"no finalizers", func(mc *clusterv1.ManagedCluster) { mc.Finalizers = nil }, "metadata.finalizers"},
		{"an owner", func(mc *clusterv1.ManagedCluster) {
			mc.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "b"}}
		}, "metadata.ownerReferences"},
	} {
		t.Run(test.attack, func(t *testing.T) {
			require.EventuallyWithT(t, func(c *assert) { // the hub writes to a new cluster as well
				mc, err := clusters.Get(ctx, "selfish", metav1.GetOptions{})
				require.NoError(c, err)
				if test.attack == "no taints" {
					require.NotEmpty(c, mc.Spec.Taints, "a cluster that never reported is unreachable")
				}
				test.change(mc)
				_, err = clusters.Update(ctx, mc, metav1.UpdateOptions{})
				require.True(c, apierrors.IsForbidden(err), "%v", err)
				require.ErrorContains(c, err, test.field)
			}, patience, tick)
		})
	}
	t.Run("metadata through the status", func(t *testing.T) {
		_, err := clusters.Patch(ctx, "selfish", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"environment":"production"},"finalizers":["a/b"]},"spec":{"hubAcceptsClient":false},"status":{"version":{"kubernetes":"v1"}}}`), metav1.PatchOptions{}, "status")
		require.NoError(t, err)
		mc, err := clusters.Get(ctx, "selfish", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, "v1", mc.Status.Version.Kubernetes)
		require.NotContains(t, mc.Labels, "environment")
		require.NotContains(t, mc.Finalizers, "a/b")
		require.True(t, mc.Spec.HubAcceptsClient)
	})
	t.Run("what upstream's agent replaces", func(t *testing.T) {
		require.EventuallyWithT(t, func(c *assert) {
			mc, err := clusters.Get(ctx, "selfish", metav1.GetOptions{})
			require.NoError(c, err)
			mc.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{URL: "https://selfish.example"}}
			mc.Annotations["agent.open-cluster-management.io/a"] = "b"
			_, err = clusters.Update(ctx, mc, metav1.UpdateOptions{})
			require.NoError(c, err)
		}, patience, tick)
	})
}

// TestAgentOfALeavingCluster still cleans up, and a work's content is not its to change.
func TestAgentOfALeavingCluster(t *testing.T) {
	admin, ctx := start(t)
	self, agent := admin.join(ctx, t, "leaving")
	works, err := workclient.NewForConfig(admin.config)
	require.NoError(t, err)
	own, err := workclient.NewForConfig(self.config)
	require.NoError(t, err)
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "w", Namespace: "leaving", Finalizers: []string{"cluster.open-cluster-management.io/manifest-work-cleanup"}}}
	work.Spec.Workload.Manifests = []workv1.Manifest{{}}
	work.Spec.Workload.Manifests[0].Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"d"}}`)
	_, err = works.WorkV1().ManifestWorks("leaving").Create(ctx, work, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = own.WorkV1().ManifestWorks("leaving").Patch(ctx, "w", types.MergePatchType, []byte(`{"spec":{"deleteOption":{"propagationPolicy":"Orphan"}}}`), metav1.PatchOptions{})
	require.ErrorContains(t, err, "the agent of cluster leaving may not change spec")

	require.NoError(t, admin.clusters.ClusterV1().ManagedClusters().Delete(ctx, "leaving", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		work, err = own.WorkV1().ManifestWorks("leaving").Get(ctx, "w", metav1.GetOptions{})
		return err == nil && work.DeletionTimestamp != nil
	}, patience, tick, "the works go first")
	renewal, err := self.ask(ctx, t, request{agent: agent})
	require.NoError(t, err)
	_, err = own.WorkV1().ManifestWorks("leaving").Patch(ctx, "w", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := self.clusters.ClusterV1().ManagedClusters().Get(ctx, "leaving", metav1.GetOptions{})
		return apierrors.IsUnauthorized(err)
	}, patience, tick, "the cluster goes, and its certificate with it")
	require.Eventually(t, func() bool {
		_, err := admin.kube.CertificatesV1().CertificateSigningRequests().Get(ctx, renewal.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, patience, tick, "a cluster that leaves renews nothing: an undecided request goes with it, and one that was approved would stay")
}

// TestAgentOfAClusterThatWasNeverAccepted has a certificate that somebody approved by mistake.
func TestAgentOfAClusterThatWasNeverAccepted(t *testing.T) {
	admin, ctx := start(t)
	bootstrap := admin.bootstrap(t)
	_, err := bootstrap.register(ctx, "waiting", nil)
	require.NoError(t, err)
	r := request{agent: identity.Agent{Cluster: "waiting", Name: "agent1"}, key: newKey(t)}
	csr, err := bootstrap.ask(ctx, t, r)
	require.NoError(t, err)
	admin.approve(ctx, t, csr)
	self := admin.with(t, admin.certificate(ctx, t, csr.Name), r.key)
	_, err = self.kube.CoreV1().Events("waiting").List(ctx, metav1.ListOptions{})
	require.ErrorContains(t, err, "cluster waiting is not accepted by this hub")
	_, err = self.ask(ctx, t, r)
	require.ErrorContains(t, err, "cluster waiting is not accepted by this hub")
	_, err = self.kube.Discovery().ServerVersion()
	require.NoError(t, err)
}

// TestSubjectOfAnAddOn has an agent write as whom its cluster's add-on is on the hub: itself with a certificate or a token,
// and nobody else.
func TestSubjectOfAnAddOn(t *testing.T) {
	admin, ctx := start(t)
	self, _ := admin.join(ctx, t, "subject")
	own := identity.AddOnAgent{Cluster: "subject", AddOn: "a", Name: "a-agent"}
	admin.addOn(t, "subject", "a", addonv1beta1.RegistrationConfig{Type: addonv1beta1.KubeClient, KubeClient: &addonv1beta1.KubeClientConfig{
		Subject: addonv1beta1.KubeClientSubject{BaseSubject: addonv1beta1.BaseSubject{User: own.User(), Groups: own.Groups()}},
	}})
	write := func(driver, user string, groups ...string) error {
		_, err := self.addons.AddonV1beta1().ManagedClusterAddOns("subject").Patch(ctx, "a", types.MergePatchType, fmt.Appendf(nil,
			`{"status":{"registrations":[{"type":"kubeClient","kubeClient":{"driver":%q,"subject":{"user":%q,"groups":%s}}}]}}`, driver, user, quoted(groups)), metav1.PatchOptions{}, "status")
		return err
	}
	for _, test := range []struct {
		attack, driver, user string
		groups               []string
	}{
		{"another cluster's token", "token", "system:serviceaccount:other:a-agent", nil},
		{"another add-on's token", "token", "system:serviceaccount:subject:b-agent", nil},
		{"token with groups", "token", own.ServiceAccount(), []string{"system:masters"}},
		{"administrator", "csr", "nave-admin", nil},
		{"another group", "csr", own.User(), append(own.Groups(), "system:masters")},
		{"another cluster", "csr", identity.AddOnAgent{Cluster: "other", AddOn: "a", Name: "a"}.User(), own.Groups()},
	} {
		t.Run(test.attack, func(t *testing.T) {
			require.ErrorContains(t, write(test.driver, test.user, test.groups...), "may not change status.registrations")
		})
	}
	require.NoError(t, write("token", own.ServiceAccount()), "a token instead of a certificate")
	require.NoError(t, write("csr", own.User(), own.Groups()...), "and back")
}

func quoted(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = strconv.Quote(text)
	}
	return "[" + strings.Join(quoted, ",") + "]"
}

// TestAddOnOfARejectedCluster keeps an add-on's certificate and its watch after its cluster lost its rights.
func TestAddOnOfARejectedCluster(t *testing.T) {
	admin, ctx := start(t)
	self, _ := admin.join(ctx, t, "addon-cut")
	admin.addOn(t, "addon-cut", "cut", addonv1beta1.RegistrationConfig{Type: addonv1beta1.KubeClient, KubeClient: &addonv1beta1.KubeClientConfig{}})
	agent := identity.AddOnAgent{Cluster: "addon-cut", AddOn: "cut", Name: "cut-agent"}
	bind(ctx, t, admin, "addon-cut", "view", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: agent.Groups()[0]})
	r := request{key: newKey(t), labels: addOnLabels("addon-cut", "cut"), template: named(addOnSubject(agent))}
	csr, err := self.ask(ctx, t, r)
	require.NoError(t, err)
	addon := admin.with(t, admin.certificate(ctx, t, csr.Name), r.key)
	require.Eventually(t, func() bool {
		_, err := addon.kube.CoreV1().ConfigMaps("addon-cut").List(ctx, metav1.ListOptions{})
		return err == nil
	}, patience, tick)
	watched, err := addon.kube.CoreV1().ConfigMaps("addon-cut").Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	admin.setAccepted(ctx, t, "addon-cut", false)
	ended(ctx, t, watched)
	_, err = addon.kube.CoreV1().ConfigMaps("addon-cut").List(ctx, metav1.ListOptions{})
	require.ErrorContains(t, err, "cluster addon-cut is not accepted by this hub")
	admin.remove(ctx, t, "addon-cut")
	require.Eventually(t, func() bool {
		_, err := addon.kube.CoreV1().ConfigMaps("addon-cut").List(ctx, metav1.ListOptions{})
		return apierrors.IsUnauthorized(err)
	}, patience, tick)
}

// TestTokenOfARejectedCluster is the same for an add-on that comes with a token.
func TestTokenOfARejectedCluster(t *testing.T) {
	admin, ctx := start(t)
	self, _ := admin.join(ctx, t, "token-cut")
	agent := identity.AddOnAgent{Cluster: "token-cut", AddOn: "cut"}
	for _, name := range []string{"cut-agent", "other"} {
		_, err := admin.kube.CoreV1().ServiceAccounts("token-cut").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	_, err := self.kube.CoreV1().ServiceAccounts("token-cut").CreateToken(ctx, "cut-agent", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.True(t, apierrors.IsForbidden(err), "without a role: %v", err)
	bind(ctx, t, admin, "token-cut", "view", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "token-cut", Name: "cut-agent"})
	bind(ctx, t, admin, "token-cut", "edit", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: identity.ClusterGroup("token-cut")})
	var issued *authenticationv1.TokenRequest
	require.Eventually(t, func() bool {
		issued, err = self.kube.CoreV1().ServiceAccounts("token-cut").CreateToken(ctx, "cut-agent", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		return err == nil
	}, patience, tick)
	_, err = self.kube.CoreV1().ServiceAccounts("token-cut").CreateToken(ctx, "other", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.ErrorContains(t, err, "whose names end in -agent", "whatever role it was given")
	_, err = self.kube.CoreV1().Secrets("token-cut").List(ctx, metav1.ListOptions{})
	require.ErrorContains(t, err, "agents of managed clusters may not list secrets")

	config := rest.AnonymousClientConfig(admin.config)
	config.BearerToken = issued.Status.Token
	addon, err := newParty(config)
	require.NoError(t, err)
	watched, err := addon.kube.CoreV1().ConfigMaps("token-cut").Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	admin.setAccepted(ctx, t, "token-cut", false)
	ended(ctx, t, watched)
	_, err = addon.kube.CoreV1().ConfigMaps("token-cut").List(ctx, metav1.ListOptions{})
	require.ErrorContains(t, err, "cluster token-cut is not accepted by this hub")
	require.Equal(t, agent.ServiceAccount(), "system:serviceaccount:token-cut:cut-agent")
}

// bind gives somebody one of Kubernetes' own roles in a namespace.
func bind(ctx context.Context, t *testing.T, admin party, namespace, role string, subject rbacv1.Subject) {
	t.Helper()
	_, err := admin.kube.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "attack-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// TestRenewalRightForAnotherCluster is S6: the right to renew is asked for with the cluster's name.
func TestRenewalRightForAnotherCluster(t *testing.T) {
	admin, ctx := start(t)
	_, agent := admin.join(ctx, t, "renewer")
	admin.accepted(ctx, t, "renewer0")
	for cluster, want := range map[string]bool{"renewer": true, "renewer0": false} {
		review, err := admin.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: agent.User(), Groups: agent.Groups(), ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: "register.open-cluster-management.io", Resource: "managedclusters", Subresource: "clientcertificates", Verb: "renew", Name: cluster,
			}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.Equal(t, want, review.Status.Allowed, "%s: %s", cluster, review.Status.Reason)
	}
}

// TestAcceptanceWithoutTheRight accepts, rejects and names clusters as somebody who may write them and no more (S9, S10).
func TestAcceptanceWithoutTheRight(t *testing.T) {
	admin, ctx := start(t)
	_, err := admin.kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "attack-writer"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"*"}},
		{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclustersets/join"}, Verbs: []string{"create"}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "attack-writer"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "attack-writer"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "writer"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	admin.accepted(ctx, t, "accepted-already")
	writer := admin.as(t, "writer", "system:authenticated")
	require.Eventually(t, func() bool {
		_, err := writer.register(ctx, "accepted-not", nil)
		return err == nil
	}, patience, tick, "the role is known")
	patch := func(name string, accepted bool) error {
		_, err := writer.clusters.ClusterV1().ManagedClusters().Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"hubAcceptsClient":%t}}`, accepted), metav1.PatchOptions{})
		return err
	}
	require.ErrorContains(t, patch("accepted-already", false), "cannot update the HubAcceptsClient field")
	require.ErrorContains(t, patch("accepted-not", true), "cannot update the HubAcceptsClient field")
	for _, name := range []string{"kube-system", "managed-clusters", "a.b"} {
		_, err = writer.register(ctx, name, nil)
		require.ErrorContains(t, err, "metadata.name format is not correct")
	}
}

// TestSelfReviews are what upstream's operator asks before it lets its agents work (spec 9.4). All must be true.
func TestSelfReviews(t *testing.T) {
	admin, ctx := start(t)
	self, _ := admin.join(ctx, t, "reviewed")
	const cluster, register, work = clusterv1.GroupName, "register.open-cluster-management.io", workv1.GroupName
	ask := func(who party, group, resource, subresource, namespace, name string, verbs ...string) {
		for _, verb := range verbs {
			review, err := who.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Group: group, Resource: resource, Subresource: subresource, Namespace: namespace, Name: name, Verb: verb,
				}},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			require.True(t, review.Status.Allowed, "%s %s/%s %s/%s: %s", verb, resource, subresource, namespace, name, review.Status.Reason)
		}
	}
	bootstrap := admin.bootstrap(t)
	ask(bootstrap, cluster, "managedclusters", "", "", "", "create", "get")
	ask(bootstrap, certificatesv1.GroupName, "certificatesigningrequests", "", "", "", "create", "get", "list", "watch")
	ask(self, certificatesv1.GroupName, "certificatesigningrequests", "", "", "", "get", "list", "watch")
	ask(self, cluster, "managedclusters", "", "", "reviewed", "get", "list", "update", "watch")
	ask(self, cluster, "managedclusters", "status", "", "reviewed", "patch", "update")
	ask(self, register, "managedclusters", "clientcertificates", "", "", "renew")
	ask(self, "coordination.k8s.io", "leases", "", "reviewed", "managed-cluster-lease", "get", "update")
	ask(self, "", "events", "", "reviewed", "", "create", "patch", "update")
	ask(self, "events.k8s.io", "events", "", "reviewed", "", "create", "patch", "update")
	ask(self, work, "manifestworks", "", "reviewed", "", "get", "list", "watch", "update")
	ask(self, work, "manifestworks", "status", "reviewed", "", "patch", "update")
}
