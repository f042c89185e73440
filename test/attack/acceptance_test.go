package attack

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/apiserver"
	"nave/pkg/identity"
	"nave/pkg/settings"
	"nave/pkg/token"
)

// register makes a cluster as an agent does that asks to join.
func (p party) register(ctx context.Context, name string, annotations map[string]string) (*clusterv1.ManagedCluster, error) {
	return p.clusters.ClusterV1().ManagedClusters().Create(ctx, &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
	}, metav1.CreateOptions{})
}

func (p party) annotate(ctx context.Context, t *testing.T, cluster, name, value string) *clusterv1.ManagedCluster {
	t.Helper()
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, name, value)
	mc, err := p.clusters.ClusterV1().ManagedClusters().Patch(ctx, cluster, types.MergePatchType, body, metav1.PatchOptions{})
	require.NoError(t, err)
	return mc
}

func (p party) isAccepted(ctx context.Context, t *testing.T, name string) bool {
	t.Helper()
	mc, err := p.clusters.ClusterV1().ManagedClusters().Get(ctx, name, metav1.GetOptions{})
	require.NoError(t, err)
	return mc.Spec.HubAcceptsClient
}

// TestAcceptanceOfAClusterThatSomebodyElseMade is S5: with acceptance without a person switched on, upstream accepts
// whatever anybody made.
func TestAcceptanceOfAClusterThatSomebodyElseMade(t *testing.T) {
	admin, ctx := start(t)
	listed, unlisted := admin.listed(t), admin.bootstrap(t)
	mc, err := unlisted.register(ctx, "auto-unlisted", map[string]string{identity.CreatedByAnnotation: listedUser})
	require.NoError(t, err)
	require.Equal(t, identity.BootstrapAccount, mc.Annotations[identity.CreatedByAnnotation], "nobody says himself who he is")
	mc = admin.annotate(ctx, t, "auto-unlisted", identity.CreatedByAnnotation, listedUser)
	require.Equal(t, identity.BootstrapAccount, mc.Annotations[identity.CreatedByAnnotation], "nor later")
	squatted, err := listed.ask(ctx, t, request{agent: identity.Agent{Cluster: "auto-unlisted", Name: "agent1"}})
	require.NoError(t, err)
	foreign, err := unlisted.ask(ctx, t, request{agent: identity.Agent{Cluster: "auto-unlisted", Name: "agent1"}})
	require.NoError(t, err)

	_, err = listed.register(ctx, "auto-listed", nil)
	require.NoError(t, err)
	csr, err := listed.ask(ctx, t, request{agent: identity.Agent{Cluster: "auto-listed", Name: "agent1"}})
	require.NoError(t, err)
	other, err := unlisted.ask(ctx, t, request{agent: identity.Agent{Cluster: "auto-listed", Name: "agent1"}})
	require.NoError(t, err)
	admin.certificate(ctx, t, csr.Name)
	require.True(t, admin.isAccepted(ctx, t, "auto-listed"))
	require.False(t, admin.isAccepted(ctx, t, "auto-unlisted"))
	for _, name := range []string{squatted.Name, foreign.Name, other.Name} {
		kept, err := admin.kube.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		require.NoError(t, err)
		require.Empty(t, kept.Status.Conditions)
	}
}

// TestAcceptanceAfterADenial asks again for what a person refused.
func TestAcceptanceAfterADenial(t *testing.T) {
	admin, ctx := start(t)
	listed := admin.listed(t)
	_, err := listed.register(ctx, "auto-denied", nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return admin.isAccepted(ctx, t, "auto-denied") }, patience, tick)
	admin.setAccepted(ctx, t, "auto-denied", false)
	csr, err := listed.ask(ctx, t, request{agent: identity.Agent{Cluster: "auto-denied", Name: "agent1"}})
	require.NoError(t, err)

	// Whatever comes after it is decided, it is still not.
	_, err = listed.register(ctx, "auto-denied-after", nil)
	require.NoError(t, err)
	after, err := listed.ask(ctx, t, request{agent: identity.Agent{Cluster: "auto-denied-after", Name: "agent1"}})
	require.NoError(t, err)
	admin.certificate(ctx, t, after.Name)
	require.False(t, admin.isAccepted(ctx, t, "auto-denied"))
	kept, err := admin.kube.CertificatesV1().CertificateSigningRequests().Get(ctx, csr.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Empty(t, kept.Status.Conditions)
}

// TestSeveralRequestsOfOneCluster is clusteradm-214: a cluster that asked several times before it was accepted is settled by
// one acceptance, and approved requests of before change nothing about it.
func TestSeveralRequestsOfOneCluster(t *testing.T) {
	admin, ctx := start(t)
	listed := admin.listed(t)
	agent := identity.Agent{Cluster: "several", Name: "agent1"}
	_, err := listed.register(ctx, "several", nil)
	require.NoError(t, err)
	first, err := listed.ask(ctx, t, request{agent: agent})
	require.NoError(t, err)
	admin.certificate(ctx, t, first.Name)
	admin.setAccepted(ctx, t, "several", false)
	var names []string
	for range 4 {
		csr, err := listed.ask(ctx, t, request{agent: agent})
		require.NoError(t, err)
		names = append(names, csr.Name)
	}
	admin.setAccepted(ctx, t, "several", true)
	for _, name := range names {
		admin.certificate(ctx, t, name)
	}
}

// TestRestartsBeforeAcceptance is an agent that asks anew at each start; the request of the last one is still there when it
// is accepted.
func TestRestartsBeforeAcceptance(t *testing.T) {
	admin, ctx := start(t)
	bootstrap := admin.bootstrap(t)
	_, err := bootstrap.register(ctx, "restarting", nil)
	require.NoError(t, err)
	requests := bootstrap.kube.CertificatesV1().CertificateSigningRequests()
	var last string
	for range 25 {
		csr, err := bootstrap.ask(ctx, t, request{agent: identity.Agent{Cluster: "restarting", Name: "agent1"}})
		require.NoError(t, err)
		last = csr.Name
		require.Eventually(t, func() bool {
			list, err := requests.List(ctx, metav1.ListOptions{LabelSelector: identity.ClusterNameLabel + "=restarting"})
			return err == nil && len(list.Items) <= 5
		}, patience, tick, "the oldest are removed")
	}
	_, err = requests.Get(ctx, last, metav1.GetOptions{})
	require.NoError(t, err)
}

// TestListThatChanges takes what waits when its user is listed, with no other event.
func TestListThatChanges(t *testing.T) {
	admin, ctx := start(t)
	const user = identity.BootstrapUserPrefix + "late"
	late := admin.as(t, user, identity.BootstrapGroup)
	_, err := late.register(ctx, "late", nil)
	require.NoError(t, err)
	csr, err := late.ask(ctx, t, request{agent: identity.Agent{Cluster: "late", Name: "agent1"}})
	require.NoError(t, err)
	require.False(t, admin.isAccepted(ctx, t, "late"))
	hubSettings.Update(func(s settings.Hub) settings.Hub {
		s.AutoApprovedUsers = append(slices.Clone(s.AutoApprovedUsers), user)
		return s
	})
	admin.certificate(ctx, t, csr.Name)
	require.True(t, admin.isAccepted(ctx, t, "late"))
}

// TestManyAtOnce is ocm-386: of clusters that register in the same second every one ends accepted and with a certificate.
func TestManyAtOnce(t *testing.T) {
	admin, ctx := start(t)
	listed := admin.listed(t)
	const many = 200
	names := make([]string, many)
	errs := make([]error, many)
	requests := make([]request, many)
	var all sync.WaitGroup
	for i := range many {
		cluster := fmt.Sprintf("many-%d", i)
		requests[i] = request{agent: identity.Agent{Cluster: cluster, Name: "agent1"}}
		csr := requests[i].build(t)
		all.Go(func() {
			if _, errs[i] = listed.register(ctx, cluster, nil); errs[i] != nil {
				return
			}
			csr, err := listed.kube.CertificatesV1().CertificateSigningRequests().Create(ctx, csr, metav1.CreateOptions{})
			errs[i] = err
			if err == nil {
				names[i] = csr.Name
			}
		})
	}
	all.Wait()
	for i := range many {
		require.NoError(t, errs[i])
		admin.certificate(ctx, t, names[i])
		require.True(t, admin.isAccepted(ctx, t, requests[i].agent.Cluster))
	}
}

// TestRenewalsAfterTheBootstrapIdentityIsGone is rhacm-1661: renewing depends on the agent's certificate alone.
func TestRenewalsAfterTheBootstrapIdentityIsGone(t *testing.T) {
	admin, ctx := start(t)
	made, joiner := admin.newToken(t, func(r *token.Record) { r.AutoAccept = true })
	_, err := joiner.register(ctx, "renewing", nil)
	require.NoError(t, err)
	agent := identity.Agent{Cluster: "renewing", Name: "agent1"}
	self := joiner
	for i := range 4 {
		r := request{agent: agent, key: newKey(t)}
		csr, err := self.ask(ctx, t, r)
		require.NoError(t, err, "certificate %d", i)
		self = admin.with(t, admin.certificate(ctx, t, csr.Name), r.key)
		if i == 0 {
			require.NoError(t, admin.kube.CoreV1().Secrets(token.Namespace).Delete(ctx, token.SecretName(made.ID), metav1.DeleteOptions{}))
			require.Eventually(t, func() bool {
				_, err := self.kube.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
				return err == nil
			}, patience, tick, "the agent gets its rights")
		}
	}
}

// newToken makes a join token, and is who has nothing but it.
func (p party) newToken(t *testing.T, change ...func(*token.Record)) (token.Token, party) {
	t.Helper()
	_, ctx := start(t)
	made, err := token.New([32]byte{})
	require.NoError(t, err)
	record := token.Record{ID: made.ID, Hash: token.Hash(made.Secret), Expires: time.Now().Add(time.Hour)}
	for _, c := range change {
		c(&record)
	}
	_, err = p.kube.CoreV1().Secrets(token.Namespace).Create(ctx, record.Secret(), metav1.CreateOptions{})
	require.NoError(t, err)
	config := rest.AnonymousClientConfig(p.config)
	config.BearerToken = made.Bearer()
	joiner, err := newParty(config)
	require.NoError(t, err)
	return made, joiner
}

// TestNameSquatting has tokens try names that are not theirs (S9).
func TestNameSquatting(t *testing.T) {
	admin, ctx := start(t)
	admin.accepted(ctx, t, "squatted")
	_, bound := admin.newToken(t, func(r *token.Record) { r.Cluster, r.Bound, r.AutoAccept = "squatter", true, true })
	_, unbound := admin.newToken(t, func(r *token.Record) { r.AutoAccept = true })

	_, err := bound.register(ctx, "squatted-free", nil)
	require.ErrorContains(t, err, "is for cluster squatter, not for squatted-free")
	for _, squatter := range []party{bound, unbound} {
		_, err = squatter.ask(ctx, t, request{agent: identity.Agent{Cluster: "squatted", Name: "agent1"}})
		require.True(t, apierrors.IsForbidden(err), "%v", err)
	}
	_, err = bound.clusters.ClusterV1().ManagedClusters().Get(ctx, "squatted", metav1.GetOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	_, err = bound.kube.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{LabelSelector: identity.ClusterNameLabel + "=squatted"})
	require.True(t, apierrors.IsForbidden(err), "%v", err)

	_, err = bound.register(ctx, "squatter", nil)
	require.NoError(t, err, "its own name")
	csr, err := bound.ask(ctx, t, request{agent: identity.Agent{Cluster: "squatter", Name: "agent1"}})
	require.NoError(t, err)
	admin.certificate(ctx, t, csr.Name)
}

// TestForgedJoinTokenAnnotation claims that a cluster was made with a token that takes it over.
func TestForgedJoinTokenAnnotation(t *testing.T) {
	admin, ctx := start(t)
	made, thief := admin.newToken(t, func(r *token.Record) { r.AutoAccept = true })
	mc, err := admin.bootstrap(t).register(ctx, "claimed", map[string]string{apiserver.JoinedWithAnnotation: made.ID})
	require.NoError(t, err)
	require.NotContains(t, mc.Annotations, apiserver.JoinedWithAnnotation)
	mc = admin.annotate(ctx, t, "claimed", apiserver.JoinedWithAnnotation, made.ID)
	require.NotContains(t, mc.Annotations, apiserver.JoinedWithAnnotation)
	_, err = thief.ask(ctx, t, request{agent: identity.Agent{Cluster: "claimed", Name: "agent1"}})
	require.ErrorContains(t, err, "cluster name claimed is taken")
}
