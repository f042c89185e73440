package registration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	testingclock "k8s.io/utils/clock/testing"

	"nave/pkg/agentstate"
	"nave/pkg/certrequest"
	"nave/pkg/identity"
	"nave/pkg/live"
	"nave/pkg/pki"
	"nave/pkg/settings"
	"nave/pkg/token"
)

// hubAt serves with a certificate for hosts, signed by ca, and sends the chain.
func hubAt(t *testing.T, ca *pki.Authority, chain ...*x509.Certificate) string {
	t.Helper()
	pair, err := ca.Issue(pki.Leaf{CommonName: "hub", Hosts: []string{"127.0.0.1"}}, time.Now())
	require.NoError(t, err)
	certificate := tls.Certificate{Certificate: [][]byte{pair.Certificate.Raw}, PrivateKey: pair.Key}
	for _, c := range chain {
		certificate.Certificate = append(certificate.Certificate, c.Raw)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("something was sent before the pin was checked")
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

func authority(t testing.TB) *pki.Authority {
	t.Helper()
	ca, err := pki.LoadAuthority(filepath.Join(t.TempDir(), "ca.pem"), "ca", time.Now())
	require.NoError(t, err)
	return ca
}

func TestPin(t *testing.T) {
	ca, other := authority(t), authority(t)
	good := hubAt(t, ca, ca.Certificate)
	_, port, err := net.SplitHostPort(good[len("https://"):])
	require.NoError(t, err)
	for _, test := range []struct {
		name, server string
		pinned       *pki.Authority
		want         string // of the error
		code         int
	}{
		{"the hub that made the token", good, ca, "", 0},
		{"another hub", good, other, "is not the hub that made this token", exitOtherHub},
		{"a hub that sends no CA", hubAt(t, ca), ca, "is not the hub that made this token", exitOtherHub},
		{"somebody who shows our CA with a certificate of their own", hubAt(t, other, ca.Certificate), ca, "is not one of the hub that made this token", exitOtherHub},
		{"a name that the certificate is not for", "https://localhost:" + port, ca, "is not one of the hub that made this token", exitOtherHub},
		{"no URL", "127.0.0.1:7443", ca, "is no https URL", 0},
		{"without TLS", "http://127.0.0.1:7443", ca, "is no https URL", 0},
		{"nobody there", "https://127.0.0.1:1", ca, "reach hub at 127.0.0.1:1", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := pinnedCA(context.Background(), test.server, token.Token{CAHash: token.CAHash(test.pinned.Certificate)})
			if test.want == "" {
				require.NoError(t, err)
				block, _ := pem.Decode(got)
				require.Equal(t, ca.Certificate.Raw, block.Bytes)
				return
			}
			require.ErrorContains(t, err, test.want)
			var join *JoinError
			require.Equal(t, test.code != 0, errors.As(err, &join))
			if join != nil {
				require.Equal(t, test.code, join.ExitCode())
			}
		})
	}
}

// identityFor is a good identity on the hub with this CA.
func identityFor(t *testing.T, ca *pki.Authority, agent identity.Agent, issued time.Time) Credentials {
	t.Helper()
	pair, err := ca.Issue(pki.Leaf{CommonName: agent.User(), Organizations: agent.Groups()}, issued)
	require.NoError(t, err)
	key, err := pki.KeyPEM(pair.Key)
	require.NoError(t, err)
	return Credentials{Server: "https://hub", Entry: joinEntry, CA: pki.CertificatePEM(ca.Certificate), Agent: agent, Certificate: pki.CertificatePEM(pair.Certificate), Key: key}
}

func TestDataRoundTrip(t *testing.T) {
	kept := identityFor(t, authority(t), identity.Agent{Cluster: "c1", Name: "a"}, time.Now())
	data, err := kept.data()
	require.NoError(t, err)
	require.NotContains(t, string(data[keyKubeconfig]), "PRIVATE KEY", "the kubeconfig refers to the key, as upstream's does")
	read, err := fromData(data)
	require.NoError(t, err)
	require.Equal(t, kept, read)
}

// searchIn is a search with a store in a folder of its own.
func searchIn(t *testing.T, cluster string) *search {
	t.Helper()
	return &search{Config: Config{
		Wish: live.New(Wish{Cluster: cluster}), Store: Store{Dir: t.TempDir(), Kube: fake.NewClientset()}, Settings: live.New(settings.DefaultAgent()),
		State: live.New(agentstate.State{}), Clock: testingclock.NewFakeClock(time.Now()), Log: quiet(),
	}}
}

func quiet() *logrus.Logger {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	return logger
}

func TestUnfinishedJoinIsContinued(t *testing.T) {
	s := searchIn(t, "c1")
	way := Bootstrap{Server: "https://hub", CA: pki.CertificatePEM(authority(t).Certificate)}
	first, _, err := s.nextIdentity(t.Context(), Credentials{}, way)
	require.NoError(t, err)
	s.Store.Dir = t.TempDir() // as a pod finds it that was started again
	again, _, err := s.nextIdentity(t.Context(), Credentials{}, way)
	require.NoError(t, err)
	require.Equal(t, first, again, "the same key and name, so the same request on the hub")
	way.CA = pki.CertificatePEM(authority(t).Certificate)
	elsewhere, _, err := s.nextIdentity(t.Context(), Credentials{}, way)
	require.NoError(t, err)
	require.NotEqual(t, first.Key, elsewhere.Key, "another hub gets another key")
	require.Equal(t, first.Agent, elsewhere.Agent, "the agent keeps its name")
}

// TestJoiningElsewhereKeepsTheOldIdentity until there is a new one.
func TestJoiningElsewhereKeepsTheOldIdentity(t *testing.T) {
	old := identityFor(t, authority(t), identity.Agent{Cluster: "c1", Name: "a"}, time.Now())
	s := searchIn(t, "c2")
	require.NoError(t, s.Store.write(identityFile, old))
	next, _, err := s.nextIdentity(t.Context(), old, Bootstrap{Server: "https://other", CA: pki.CertificatePEM(authority(t).Certificate)})
	require.NoError(t, err)
	require.Equal(t, "a", next.Agent.Name)
	kept, err := s.Store.load(context.Background())
	require.NoError(t, err)
	require.Equal(t, old, kept)
}

// TestUnfinishedRenewalIsContinued after a restart, with the same key.
func TestUnfinishedRenewalIsContinued(t *testing.T) {
	current := identityFor(t, authority(t), identity.Agent{Cluster: "c1", Name: "a"}, time.Now())
	s := searchIn(t, "c1")
	first, err := s.renewal(t.Context(), current)
	require.NoError(t, err)
	require.NotEqual(t, current.Key, first.Key, "a new certificate has a new key")
	again, err := s.renewal(t.Context(), current)
	require.NoError(t, err)
	require.Equal(t, first.Key, again.Key)
	again.Certificate = current.Certificate
	require.NoError(t, s.Store.save(t.Context(), again))
	_, err = s.Store.loadPending(t.Context())
	require.ErrorIs(t, err, errNone, "what has been obtained is no longer pending")
	current.Agent.Name = "b"
	other, err := s.renewal(t.Context(), current)
	require.NoError(t, err)
	require.NotEqual(t, first.Key, other.Key, "the request of another agent is none of ours")
}

func TestPace(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", errors.New("x"))
	for _, test := range []struct {
		name string
		err  error
		want time.Duration // after the third failure
	}{
		{"no answer", errors.New("connection refused"), absentPause},
		{"busy", apierrors.NewTooManyRequests("later", 1), absentPause},
		{"ill", apierrors.NewInternalError(errors.New("x")), absentPause},
		{"forbidden", forbidden, 4 * firstPause},
		{"a bootstrap credential that is not taken yet", unauthorized(refusal(exitUnknown, "x")), 4 * firstPause},
		{"token used", refusal(exitUsed, "x"), finalPause},
		{"denied by a person", fmt.Errorf("request: %w", certrequest.ErrDenied), deniedPause},
	} {
		t.Run(test.name, func(t *testing.T) {
			var p pace
			p.after(test.err)
			p.after(test.err)
			require.Equal(t, test.want, p.after(test.err))
			for range 100 {
				require.LessOrEqual(t, p.after(test.err), finalPause)
			}
		})
	}
}

func TestRenewalTime(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	leaf := &x509.Certificate{NotBefore: now, NotAfter: now.Add(100 * time.Hour)}
	require.Equal(t, now.Add(80*time.Hour), renewalTime(leaf, 0))
	require.Equal(t, now.Add(75*time.Hour), renewalTime(leaf, 1))
}

func TestExplain(t *testing.T) {
	for cause, code := range map[metav1.CauseType]int{
		token.CauseUnknown: exitUnknown, token.CauseUsed: exitUsed, token.CauseExpired: exitExpired, token.CauseRevoked: exitRevoked, token.CauseWrongCluster: exitUsed,
	} {
		err := apierrors.NewUnauthorized("no")
		err.ErrStatus.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: cause, Message: "why"}}}
		var join *JoinError
		require.ErrorAs(t, explain(err), &join, cause)
		require.Equal(t, code, join.ExitCode())
		require.EqualError(t, join, "why")
	}
	other := apierrors.NewUnauthorized("no")
	require.Equal(t, error(other), explain(other))
}

// TestBootstrapFault is none where the credential is not needed any more.
func TestBootstrapFault(t *testing.T) {
	s := searchIn(t, "c1")
	broken := Wish{Cluster: "c1", Fault: errors.New("the file is gone")}
	token := broken
	token.OneTime = true
	require.NotNil(t, s.bootstrapFault(token), "it is needed to join")
	require.NoError(t, s.Store.write(identityFile, identityFor(t, authority(t), identity.Agent{Cluster: "c1", Name: "a"}, time.Now())))
	require.Nil(t, s.bootstrapFault(token))
	require.NotNil(t, s.bootstrapFault(broken), "a kubeconfig is what the agent joins anew by")
	require.Nil(t, s.bootstrapFault(Wish{Cluster: "c1"}))
}

// TestSecondAgentOnACluster has a name of its own: what the cluster keeps for another name is another agent's, unless this
// one's directory says that it is its own.
func TestSecondAgentOnACluster(t *testing.T) {
	found := identityFor(t, authority(t), identity.Agent{Cluster: "c1", Name: "a"}, time.Now())
	for _, test := range []struct {
		cluster string
		keeps   bool
	}{{"c1", true}, {"c2", false}} {
		next, _, err := searchIn(t, test.cluster).nextIdentity(t.Context(), found, Bootstrap{Server: "https://hub", CA: pki.CertificatePEM(authority(t).Certificate)})
		require.NoError(t, err)
		require.Equal(t, test.keeps, next.Agent.Name == "a", test.cluster)
	}
}
