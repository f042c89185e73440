package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"

	"nave/pkg/pki"
)

// addonBench is an add-on on the hub, and the namespace on its cluster in which its agent lives.
type addonBench struct {
	*bench
	cluster, name, namespace string
	spoke                    *kubernetes.Clientset
	addons                   *addonclient.Clientset
}

// newAddOn makes an add-on of a cluster whose agent serves spoke, one of the lab, with these registrations, as a controller of the add-on's own would. Its
// namespace on the cluster does not exist yet.
func newAddOn(t *testing.T, ctx context.Context, b *bench, spoke, cluster, name string, registrations ...addonv1beta1.RegistrationConfig) *addonBench {
	t.Helper()
	config, err := b.Hub()
	require.NoError(t, err)
	config.QPS = -1
	client, err := addonclient.NewForConfig(config)
	require.NoError(t, err)
	a := &addonBench{bench: b, cluster: cluster, name: name, spoke: b.spokes[spoke], namespace: name + "-system", addons: client}
	addons := client.AddonV1beta1().ManagedClusterAddOns(cluster)
	_, err = addons.Create(ctx, &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{addonv1beta1.InstallNamespaceAnnotation: a.namespace},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = addons.Delete(ctx, name, metav1.DeleteOptions{})
		_ = a.spoke.CoreV1().Namespaces().Delete(ctx, a.namespace, metav1.DeleteOptions{})
	})
	a.register(t, ctx, registrations...)
	return a
}

func (a *addonBench) register(t *testing.T, ctx context.Context, registrations ...addonv1beta1.RegistrationConfig) {
	t.Helper()
	a.changeStatus(t, ctx, func(s *addonv1beta1.ManagedClusterAddOnStatus) { s.Registrations = registrations })
}

func (a *addonBench) changeStatus(t *testing.T, ctx context.Context, change func(*addonv1beta1.ManagedClusterAddOnStatus)) {
	t.Helper()
	eventually(t, ctx, "status of "+a.name+" is written", func() error {
		mca, err := a.get(ctx)
		if err != nil {
			return err
		}
		change(&mca.Status)
		_, err = a.addons.AddonV1beta1().ManagedClusterAddOns(a.cluster).UpdateStatus(ctx, mca, metav1.UpdateOptions{})
		return err
	})
}

func (a *addonBench) get(ctx context.Context) (*addonv1beta1.ManagedClusterAddOn, error) {
	return a.addons.AddonV1beta1().ManagedClusterAddOns(a.cluster).Get(ctx, a.name, metav1.GetOptions{})
}

func (a *addonBench) install(t *testing.T, ctx context.Context) {
	t.Helper()
	_, err := a.spoke.CoreV1().Namespaces().Create(ctx, namespaceObject(a.namespace), metav1.CreateOptions{})
	require.NoError(t, err)
}

// condition waits until the add-on has a condition with this reason.
func (a *addonBench) condition(t *testing.T, ctx context.Context, kind, reason string) {
	t.Helper()
	eventually(t, ctx, kind+" is "+reason, func() error {
		mca, err := a.get(ctx)
		if err != nil {
			return err
		}
		if c := meta.FindStatusCondition(mca.Status.Conditions, kind); c == nil || c.Reason != reason {
			return fmt.Errorf("conditions are %v", mca.Status.Conditions)
		}
		return nil
	})
}

// secret waits until a secret of the add-on holds something under key.
func (a *addonBench) secret(t *testing.T, ctx context.Context, name, key string) *corev1.Secret {
	t.Helper()
	var secret *corev1.Secret
	eventually(t, ctx, "secret "+name+" has "+key, func() (err error) {
		if secret, err = a.spoke.CoreV1().Secrets(a.namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			mca, _ := a.get(ctx)
			return fmt.Errorf("%w; status is %+v", err, mca)
		}
		if len(secret.Data[key]) == 0 {
			return fmt.Errorf("it has %d other keys", len(secret.Data))
		}
		return nil
	})
	return secret
}

// whoami asks the hub who the add-on's agent is with what the secret holds.
func (a *addonBench) whoami(t *testing.T, ctx context.Context, secret *corev1.Secret) string {
	t.Helper()
	hub, err := a.Hub()
	require.NoError(t, err)
	config := rest.AnonymousClientConfig(hub)
	config.CertData, config.KeyData, config.BearerToken = secret.Data["tls.crt"], secret.Data["tls.key"], string(secret.Data["token"])
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return review.Status.UserInfo.Username
}

func kubeRegistration() addonv1beta1.RegistrationConfig {
	return addonv1beta1.RegistrationConfig{Type: addonv1beta1.KubeClient, KubeClient: &addonv1beta1.KubeClientConfig{}}
}

// TestAddOnWithCertificate: the secret waits for the namespace, comes back when it is deleted, and goes with the add-on.
func TestAddOnWithCertificate(t *testing.T) {
	b, ctx := start(t)
	a := newAddOn(t, ctx, b, first, first, "certified", kubeRegistration())
	eventually(t, ctx, "the driver is declared", func() error {
		mca, err := a.get(ctx)
		if err == nil && mca.Status.Registrations[0].KubeClient.Driver != "csr" {
			err = fmt.Errorf("status is %+v", mca.Status)
		}
		return err
	})
	a.install(t, ctx)
	secret := a.secret(t, ctx, "certified-hub-kubeconfig", "tls.crt")
	for _, key := range []string{"kubeconfig", "tls.key", "cluster-name"} {
		require.NotEmpty(t, secret.Data[key], key)
	}
	require.Equal(t, "system:open-cluster-management:cluster:cluster1:addon:certified:agent:certified", a.whoami(t, ctx, secret))
	a.condition(t, ctx, "ClusterCertificateRotated", "ClientCertificateUpdated")

	secrets := a.spoke.CoreV1().Secrets(a.namespace)
	require.NoError(t, secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{}))
	again := a.secret(t, ctx, secret.Name, "tls.crt")
	require.NotEqual(t, secret.UID, again.UID)
	require.NoError(t, a.addons.AddonV1beta1().ManagedClusterAddOns(a.cluster).Delete(ctx, a.name, metav1.DeleteOptions{}))
	eventually(t, ctx, "the secret is gone", func() error {
		_, err := secrets.Get(ctx, secret.Name, metav1.GetOptions{})
		return gone(err)
	})
}

// TestAddOnSwitchesDriver from token to certificate and back, as its cluster's agent is told, with nothing done by hand.
func TestAddOnSwitchesDriver(t *testing.T) {
	b, ctx := start(t)
	const cluster, account = "drivers", "system:serviceaccount:drivers:switched-agent"
	token, stderr, code := b.run(t, "token", "create", "--data-dir", b.hubData(t), "--auto-accept")
	require.Zero(t, code, stderr)
	dir := t.TempDir()
	t.Setenv("NAVE_ADDON_KUBECLIENT_REGISTRATION_AUTH", "token")
	agent := startAgent(t, b, second, strings.TrimSpace(token), cluster, dir)
	t.Cleanup(func() { _, _, _ = b.run(t, "cluster", "remove", "--data-dir", b.hubData(t), cluster) })
	eventually(t, ctx, "the cluster joins", func() error {
		_, err := b.hub.CoreV1().Namespaces().Get(ctx, cluster, metav1.GetOptions{})
		return err
	})
	a := newAddOn(t, ctx, b, second, cluster, "switched", kubeRegistration())
	a.install(t, ctx)

	secret := a.secret(t, ctx, "switched-hub-kubeconfig", "token")
	require.NotContains(t, secret.Data, "tls.key")
	require.Contains(t, string(secret.Data["kubeconfig"]), "tokenFile: token")
	require.Equal(t, account, a.whoami(t, ctx, secret))
	a.condition(t, ctx, "TokenRefreshed", "AddonTokenRefreshed")
	mca, err := a.get(ctx)
	require.NoError(t, err)
	require.Equal(t, account, mca.Status.Registrations[0].KubeClient.Subject.User)

	// An account that is made anew has another token.
	require.NoError(t, b.hub.CoreV1().ServiceAccounts(cluster).Delete(ctx, "switched-agent", metav1.DeleteOptions{}))
	eventually(t, ctx, "the token is replaced", func() error {
		next := a.secret(t, ctx, secret.Name, "token")
		if bytes.Equal(next.Data["token"], secret.Data["token"]) {
			return errors.New("it is the old one")
		}
		return nil
	})

	agent.stop(t)
	t.Setenv("NAVE_ADDON_KUBECLIENT_REGISTRATION_AUTH", "csr")
	agent = startAgent(t, b, second, strings.TrimSpace(token), cluster, dir)
	secret = a.secret(t, ctx, secret.Name, "tls.crt")
	require.NotContains(t, secret.Data, "token")
	require.Equal(t, "system:open-cluster-management:cluster:drivers:addon:switched:agent:switched", a.whoami(t, ctx, secret))
	eventually(t, ctx, "the service account is gone", func() error {
		_, err := b.hub.CoreV1().ServiceAccounts(cluster).Get(ctx, "switched-agent", metav1.GetOptions{})
		return gone(err)
	})

	agent.stop(t)
	t.Setenv("NAVE_ADDON_KUBECLIENT_REGISTRATION_AUTH", "token")
	startAgent(t, b, second, strings.TrimSpace(token), cluster, dir)
	require.Equal(t, account, a.whoami(t, ctx, a.secret(t, ctx, secret.Name, "token")))
}

// TestAddOnWithItsOwnSigner: the request waits for whoever signs for the add-on.
func TestAddOnWithItsOwnSigner(t *testing.T) {
	b, ctx := start(t)
	a := newAddOn(t, ctx, b, first, first, "signed", addonv1beta1.RegistrationConfig{Type: addonv1beta1.CustomSigner, CustomSigner: &addonv1beta1.CustomSignerConfig{
		SignerName: "example.test/lantern",
		Subject:    addonv1beta1.Subject{BaseSubject: addonv1beta1.BaseSubject{User: "lantern", Groups: []string{"lights"}}, OrganizationUnits: []string{"unit"}},
	}})
	a.install(t, ctx)
	csr := a.signingRequest(t, ctx)
	require.Equal(t, "example.test/lantern", csr.Spec.SignerName)
	a.sign(t, ctx, csr, 4*time.Second)
	secret := a.secret(t, ctx, "signed-example.test-lantern-client-cert", "tls.crt")
	require.NotContains(t, secret.Data, "kubeconfig")
	require.Equal(t, first, string(secret.Data["cluster-name"]))

	// Before a certificate ends there is another one.
	a.sign(t, ctx, a.signingRequest(t, ctx), time.Hour)
	eventually(t, ctx, "the certificate is replaced", func() error {
		if next := a.secret(t, ctx, secret.Name, "tls.crt"); bytes.Equal(next.Data["tls.key"], secret.Data["tls.key"]) {
			return errors.New("it is the old one")
		}
		return nil
	})
	// Another subject is another certificate.
	a.changeStatus(t, ctx, func(s *addonv1beta1.ManagedClusterAddOnStatus) { s.Registrations[0].CustomSigner.Subject.User = "lamp" })
	a.sign(t, ctx, a.signingRequest(t, ctx), time.Hour)
	eventually(t, ctx, "the certificate is for the new subject", func() error {
		leaf := leafOf(t, a.secret(t, ctx, secret.Name, "tls.crt"))
		if leaf.Subject.CommonName != "lamp" {
			return errors.New(leaf.Subject.String())
		}
		return nil
	})
	a.register(t, ctx)
	eventually(t, ctx, "the secret is gone with its registration", func() error {
		_, err := a.spoke.CoreV1().Secrets(a.namespace).Get(ctx, secret.Name, metav1.GetOptions{})
		return gone(err)
	})
}

// TestAddOnThatNobodySignsFor does not fill the hub with requests.
func TestAddOnThatNobodySignsFor(t *testing.T) {
	b, ctx := start(t)
	const signer = "example.test/nobody"
	a := newAddOn(t, ctx, b, first, first, "unsigned", addonv1beta1.RegistrationConfig{Type: addonv1beta1.CustomSigner, CustomSigner: &addonv1beta1.CustomSignerConfig{
		SignerName: signer, Subject: addonv1beta1.Subject{BaseSubject: addonv1beta1.BaseSubject{User: "nobody"}},
	}})
	agent, err := kubernetes.NewForConfig(b.agentIdentity(t, b.agentData(t, first)))
	require.NoError(t, err)
	key, err := pki.NewKey()
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "nobody"}}, key)
	require.NoError(t, err)
	requests := b.hub.CertificatesV1().CertificateSigningRequests()
	var made []string
	for range 10 { // of earlier keys
		csr, err := agent.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "addon-cluster1-unsigned-", Labels: map[string]string{
				"open-cluster-management.io/cluster-name": first, "open-cluster-management.io/addon-name": a.name,
			}},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: signer,
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		made = append(made, csr.Name)
		t.Cleanup(func() { _ = requests.Delete(context.Background(), csr.Name, metav1.DeleteOptions{}) })
	}
	a.install(t, ctx)
	a.condition(t, ctx, "ClusterCertificateRotated", "ClientCertificateUpdateFailed")
	mca, err := a.get(ctx)
	require.NoError(t, err)
	require.Contains(t, meta.FindStatusCondition(mca.Status.Conditions, "ClusterCertificateRotated").Message, "too many csr")
	require.NoError(t, requests.Delete(ctx, made[0], metav1.DeleteOptions{}))
	eventually(t, ctx, "there is room for the agent's own", func() error {
		list, err := requests.List(ctx, metav1.ListOptions{LabelSelector: "open-cluster-management.io/addon-name=" + a.name})
		if err != nil {
			return err
		}
		for _, csr := range list.Items {
			if !slices.Contains(made, csr.Name) {
				return nil
			}
		}
		return fmt.Errorf("%d requests, all of the test", len(list.Items))
	})
}

// TestAddOnOfAnotherCluster: what this agent cannot do it says, and does once it can.
func TestAddOnOfAnotherCluster(t *testing.T) {
	b, ctx := start(t)
	a := newAddOn(t, ctx, b, first, first, "hosted")
	a.install(t, ctx)
	annotate := func(value string) {
		body := fmt.Sprintf(`{"metadata":{"annotations":{"addon.open-cluster-management.io/hosting-cluster-name":%s}}}`, value)
		_, err := a.addons.AddonV1beta1().ManagedClusterAddOns(a.cluster).Patch(ctx, a.name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	annotate(`"cluster2"`)
	a.register(t, ctx, kubeRegistration())
	a.condition(t, ctx, "ClusterCertificateRotated", "ClientCertificateUpdateFailed")
	for _, kind := range []string{"ClusterCertificateRotated", "Available"} {
		eventually(t, ctx, kind+" says why", func() error {
			mca, err := a.get(ctx)
			if err != nil {
				return err
			}
			if c := meta.FindStatusCondition(mca.Status.Conditions, kind); c == nil || !strings.Contains(c.Message, "to run on cluster cluster2") {
				return fmt.Errorf("conditions are %v", mca.Status.Conditions)
			}
			return nil
		})
	}
	annotate("null")
	a.secret(t, ctx, "hosted-hub-kubeconfig", "tls.crt")
	a.condition(t, ctx, "ClusterCertificateRotated", "ClientCertificateUpdated")
}

// signingRequest is the request of the add-on that has no certificate yet.
func (a *addonBench) signingRequest(t *testing.T, ctx context.Context) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	var found *certificatesv1.CertificateSigningRequest
	eventually(t, ctx, "the add-on asks for a certificate", func() error {
		list, err := a.hub.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{
			LabelSelector: "open-cluster-management.io/cluster-name=" + a.cluster + ",open-cluster-management.io/addon-name=" + a.name,
		})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if len(list.Items[i].Status.Certificate) == 0 {
				found = &list.Items[i]
				return nil
			}
		}
		return fmt.Errorf("none of %d requests is open", len(list.Items))
	})
	return found
}

// sign does what the controller of an add-on with its own signer does: it approves and signs.
func (a *addonBench) sign(t *testing.T, ctx context.Context, csr *certificatesv1.CertificateSigningRequest, life time.Duration) {
	t.Helper()
	authority, err := pki.LoadAuthority(t.TempDir()+"/ca.pem", "lantern", time.Now())
	require.NoError(t, err)
	block, _ := pem.Decode(csr.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	require.NoError(t, err)
	leaf, err := authority.Sign(&x509.Certificate{Subject: request.Subject, DNSNames: request.DNSNames, NotBefore: time.Now(), NotAfter: time.Now().Add(life)}, request.PublicKey)
	require.NoError(t, err)
	requests := a.hub.CertificatesV1().CertificateSigningRequests()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"})
	csr, err = requests.UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{})
	require.NoError(t, err)
	csr.Status.Certificate = pki.CertificatePEM(leaf)
	_, err = requests.UpdateStatus(ctx, csr, metav1.UpdateOptions{})
	require.NoError(t, err)
}

func leafOf(t *testing.T, secret *corev1.Secret) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(secret.Data["tls.crt"])
	leaf, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return leaf
}

// TestAddOnLease: an add-on is available only while its agent renews its lease.
func TestAddOnLease(t *testing.T) {
	b, ctx := start(t)
	a := newAddOn(t, ctx, b, first, first, "leased")
	a.condition(t, ctx, "Available", "ManagedClusterAddOnLeaseNotFound")
	a.install(t, ctx)
	leases := a.spoke.CoordinationV1().Leases(a.namespace)
	renewed := metav1.NowMicro()
	lease, err := leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: a.name}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	a.condition(t, ctx, "Available", "ManagedClusterAddOnLeaseUpdated")
	old := metav1.NewMicroTime(time.Now().Add(-time.Hour))
	lease.Spec.RenewTime = &old
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	require.NoError(t, err)
	a.condition(t, ctx, "Available", "ManagedClusterAddOnLeaseUpdateStopped")
	require.NoError(t, leases.Delete(ctx, a.name, metav1.DeleteOptions{}))
	a.condition(t, ctx, "Available", "ManagedClusterAddOnLeaseNotFound")
}
