// Package bootstrap makes, at each start of the hub, the objects that clusters need in order to ask for registration:
// namespaces, the role of the bootstrap identity, and kube-public/cluster-info (spec 1.6, 9.1).
package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nave/pkg/identity"
	"nave/pkg/live"
	"nave/pkg/reconcile"
)

const (
	roleName         = "open-cluster-management:bootstrap"
	tokenBinding     = "open-cluster-management:bootstrap:managedcluster"
	accountBinding   = "open-cluster-management:bootstrap:agent-registration"
	accountNamespace = "open-cluster-management"
	accountName      = "agent-registration-bootstrap"
	clusterInfo      = "cluster-info"
	clusterInfoKey   = "kubeconfig"

	// clusterInfoRole is what kubeadm calls it.
	clusterInfoRole = "kubeadm:bootstrap-signer-clusterinfo"

	// executorRole is upstream's, for whoever may let agents apply works with all of their own rights.
	executorRole = "open-cluster-management:cluster-manager-work-executor-admin:webhook"

	// publicRole is for what everybody may read of the hub besides Kubernetes' own public paths.
	publicRole = "nave:public"
)

// Config is what the objects say.
type Config struct {
	Log      logrus.FieldLogger
	Kube     kubernetes.Interface
	Server   string              // URL that the hub is advertised under
	CABundle *live.Value[[]byte] // PEM of the CAs that sign its certificate
}

// retry is how soon objects that could not be written are written again.
const retry = 5 * time.Second

// Run follows changes of the CAs until ctx ends.
func (c Config) Run(ctx context.Context) error {
	for {
		bundle, changed := c.CABundle.Watch()
		var again <-chan time.Time
		if err := c.ensureClusterInfo(ctx, bundle); err != nil && ctx.Err() == nil {
			c.Log.WithError(err).Warn("certificate authorities are not published yet")
			again = time.After(reconcile.Jitter(retry))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-again:
		}
	}
}

// Ensure makes what is missing and corrects what differs. It is harmless to repeat.
func (c Config) Ensure(ctx context.Context) error {
	return errors.Join(
		c.ensureNamespaces(ctx),
		c.ensureAccount(ctx),
		c.ensureRole(ctx, roleName, rules()),
		c.ensureRole(ctx, executorRole, executorRules()),
		c.ensureBinding(ctx, tokenBinding, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: identity.BootstrapGroup}),
		c.ensureBinding(ctx, accountBinding, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: accountNamespace, Name: accountName}),
		c.ensureClusterInfo(ctx, c.CABundle.Get()),
		c.ensureClusterInfoRole(ctx),
		c.ensurePublicRole(ctx),
		ensureFlowControl(ctx, c.Kube),
	)
}

func (c Config) ensureNamespaces(ctx context.Context) error {
	var errs []error
	for _, name := range []string{"kube-system", "kube-public", "kube-node-lease", accountNamespace, "open-cluster-management-hub"} {
		_, err := c.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, fmt.Errorf("namespace %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (c Config) ensureAccount(ctx context.Context) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: accountName, Namespace: accountNamespace}}
	_, err := c.Kube.CoreV1().ServiceAccounts(accountNamespace).Create(ctx, account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("service account %s/%s: %w", accountNamespace, accountName, err)
	}
	return nil
}

// rules of the bootstrap identity (spec 1.6): it asks for a ManagedCluster and a certificate, and sees what becomes of it.
func rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}},
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get", "list", "watch"}},
		{APIGroups: []string{"cluster.open-cluster-management.io"}, Resources: []string{"managedclusters"}, Verbs: []string{"get", "create", "list", "watch"}},
		{APIGroups: []string{"cluster.open-cluster-management.io"}, Resources: []string{"managedclustersets/join"}, Verbs: []string{"create"}},
	}
}

// executorRules let a user have works without an executor applied while the gate NilExecutorValidating is on (spec 3.1).
func executorRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{"work.open-cluster-management.io"}, Resources: []string{"manifestworks"}, Verbs: []string{"execute-as"},
		ResourceNames: []string{"system:serviceaccount::klusterlet-work-sa"},
	}}
}

func (c Config) ensureRole(ctx context.Context, name string, rules []rbacv1.PolicyRule) error {
	roles := c.Kube.RbacV1().ClusterRoles()
	wanted := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	current, err := roles.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = roles.Create(ctx, wanted, metav1.CreateOptions{})
	case err == nil && !equality.Semantic.DeepEqual(current.Rules, wanted.Rules):
		current.Rules = wanted.Rules
		_, err = roles.Update(ctx, current, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("cluster role %s: %w", name, err)
	}
	return nil
}

func (c Config) ensureBinding(ctx context.Context, name string, subject rbacv1.Subject) error {
	_, err := c.Kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: roleName},
		Subjects:   []rbacv1.Subject{subject},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("cluster role binding %s: %w", name, err)
	}
	return nil
}

// ensureClusterInfo publishes address and CA, which are no secrets, the way kubeadm and clusteradm look for them. Other
// keys, such as the signatures of bootstrap tokens, stay.
func (c Config) ensureClusterInfo(ctx context.Context, bundle []byte) error {
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"": {Server: c.Server, CertificateAuthorityData: bundle}},
	})
	if err != nil {
		return fmt.Errorf("config map %s/%s: %w", metav1.NamespacePublic, clusterInfo, err)
	}
	maps := c.Kube.CoreV1().ConfigMaps(metav1.NamespacePublic)
	current, err := maps.Get(ctx, clusterInfo, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = maps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: clusterInfo, Namespace: metav1.NamespacePublic},
			Data:       map[string]string{clusterInfoKey: string(text)},
		}, metav1.CreateOptions{})
	case err == nil && current.Data[clusterInfoKey] != string(text):
		if current.Data == nil {
			current.Data = map[string]string{}
		}
		current.Data[clusterInfoKey] = string(text)
		_, err = maps.Update(ctx, current, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("config map %s/%s: %w", metav1.NamespacePublic, clusterInfo, err)
	}
	return nil
}

// ensureClusterInfoRole lets everybody read the published address and CA, since whoever wants to join has no identity yet.
func (c Config) ensureClusterInfoRole(ctx context.Context) error {
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: clusterInfoRole, Namespace: metav1.NamespacePublic},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{clusterInfo}, Verbs: []string{"get"}}},
	}
	_, err := c.Kube.RbacV1().Roles(role.Namespace).Create(ctx, role, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("role %s/%s: %w", role.Namespace, role.Name, err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: role.ObjectMeta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   everybody(),
	}
	_, err = c.Kube.RbacV1().RoleBindings(role.Namespace).Create(ctx, binding, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("role binding %s/%s: %w", binding.Namespace, binding.Name, err)
	}
	return nil
}

// ensurePublicRole lets everybody read the hub's CA.
func (c Config) ensurePublicRole(ctx context.Context) error {
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: publicRole},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/cacerts"}, Verbs: []string{"get"}}},
	}
	_, err := c.Kube.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("cluster role %s: %w", role.Name, err)
	}
	_, err = c.Kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   everybody(),
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("cluster role binding %s: %w", role.Name, err)
	}
	return nil
}

// everybody is who comes with an identity and who comes without.
func everybody() []rbacv1.Subject {
	return []rbacv1.Subject{
		{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: user.AllUnauthenticated},
		{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: user.AllAuthenticated},
	}
}
