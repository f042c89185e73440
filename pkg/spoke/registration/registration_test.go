package registration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
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
	testingclock "k8s.io/utils/clock/testing"

	"nave/pkg/certrequest"
	"nave/pkg/identity"
	"nave/pkg/pki"
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

func authority(t *testing.T) *pki.Authority {
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
	return Credentials{Server: "https://hub", CA: pki.CertificatePEM(ca.Certificate), Agent: agent, Certificate: pki.CertificatePEM(pair.Certificate), Key: key}
}

func TestFits(t *testing.T) {
	now := time.Now()
	ca, other := authority(t), authority(t)
	agent := identity.Agent{Cluster: "c1", Name: "a"}
	tokenOf := func(a *pki.Authority) string {
		made, err := token.New(token.CAHash(a.Certificate))
		require.NoError(t, err)
		return made.String()
	}
	for _, test := range []struct {
		name   string
		change func(*Credentials)
		token  string
		at     time.Time
		want   string
	}{
		{"good", func(*Credentials) {}, "", now, ""},
		{"good, with the used token still in the command line", func(*Credentials) {}, tokenOf(ca), now, ""},
		{"good, with something that is no token", func(*Credentials) {}, "x", now, ""},
		{"token of another hub", func(*Credentials) {}, tokenOf(other), now, "another hub"},
		{"expired", func(*Credentials) {}, "", now.Add(2 * 365 * 24 * time.Hour), "expired"},
		{"of another cluster", func(c *Credentials) { *c = identityFor(t, ca, identity.Agent{Cluster: "c2", Name: "a"}, now) }, "", now, "that of cluster c2"},
		{"not issued yet", func(c *Credentials) { c.Certificate = nil }, "", now, "no certificate yet"},
		{"key of another certificate", func(c *Credentials) { c.Key = identityFor(t, ca, agent, now).Key }, "", now, "certificate and key"},
		{"certificate of another agent", func(c *Credentials) { c.Agent.Name = "b" }, "", now, "is for system:open-cluster-management:c1:a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			kept := identityFor(t, ca, agent, now)
			test.change(&kept)
			c := Config{Cluster: "c1", Token: test.token, Clock: testingclock.NewFakeClock(test.at), Log: logrus.New()}
			err := c.fits(kept)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
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

func TestUnfinishedJoinIsContinued(t *testing.T) {
	ca := pki.CertificatePEM(authority(t).Certificate)
	c := Config{Server: "https://hub", Cluster: "c1", Store: Store{Dir: t.TempDir()}}
	first, err := c.nextIdentity(Credentials{}, ca)
	require.NoError(t, err)
	require.NoError(t, c.Store.savePending(first))
	again, err := c.nextIdentity(Credentials{}, ca)
	require.NoError(t, err)
	require.Equal(t, first, again, "the same key and name, so the same request on the hub")
	elsewhere, err := c.nextIdentity(Credentials{}, pki.CertificatePEM(authority(t).Certificate))
	require.NoError(t, err)
	require.NotEqual(t, first.Key, elsewhere.Key, "another hub gets another key")
	require.Equal(t, first.Agent, elsewhere.Agent, "the agent keeps its name")
}

// TestJoiningElsewhereKeepsTheOldIdentity until there is a new one.
func TestJoiningElsewhereKeepsTheOldIdentity(t *testing.T) {
	old := identityFor(t, authority(t), identity.Agent{Cluster: "c1", Name: "a"}, time.Now())
	s := Store{Dir: t.TempDir()}
	require.NoError(t, s.write(identityFile, old))
	c := Config{Server: "https://other", Cluster: "c2", Store: s}
	next, err := c.nextIdentity(old, pki.CertificatePEM(authority(t).Certificate))
	require.NoError(t, err)
	require.NoError(t, s.savePending(next))
	require.Equal(t, "a", next.Agent.Name)
	kept, err := s.load(context.Background())
	require.NoError(t, err)
	require.Equal(t, old, kept)
}

func TestPassing(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want bool
	}{
		{"no answer", errors.New("connection refused"), true},
		{"busy", apierrors.NewTooManyRequests("later", 1), true},
		{"ill", apierrors.NewInternalError(errors.New("x")), true},
		{"forbidden", apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", errors.New("x")), false},
		{"token used", refusal(exitUsed, "x"), false},
		{"denied by a person", certrequest.ErrDenied, true},
	} {
		require.Equal(t, test.want, passing(test.err), test.name)
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
