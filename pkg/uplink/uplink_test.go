package uplink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	testingclock "k8s.io/utils/clock/testing"

	"nave/pkg/pki"
)

// patience is how long a slow machine may take for one step before a test gives up on it.
const patience = 30 * time.Second

// hub is an API server that says whose certificate it sees, and that can go away and come back at the same address.
type hub struct {
	t       *testing.T
	ca      *pki.Authority
	address string
	ready   atomic.Bool // what it answers to probes
	status  atomic.Int32
	server  *httptest.Server
}

func newHub(t *testing.T) *hub {
	ca, err := pki.LoadAuthority(t.TempDir()+"/ca.pem", "ca", time.Now())
	require.NoError(t, err)
	h := &hub{t: t, ca: ca, address: "127.0.0.1:0"}
	h.ready.Store(true)
	h.status.Store(http.StatusOK)
	h.start()
	t.Cleanup(func() { h.server.Close() })
	return h
}

func (h *hub) start() {
	pair, err := h.ca.Issue(pki.Leaf{CommonName: "hub", Hosts: []string{"127.0.0.1"}}, time.Now())
	require.NoError(h.t, err)
	listener, err := net.Listen("tcp", h.address)
	require.NoError(h.t, err)
	h.address = listener.Addr().String()
	h.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == readyPath {
			if !h.ready.Load() {
				w.WriteHeader(http.StatusInternalServerError)
			}
			return
		}
		w.WriteHeader(int(h.status.Load()))
		if len(r.TLS.PeerCertificates) > 0 {
			fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.CommonName)
		}
	}))
	h.server.Listener = listener
	h.server.EnableHTTP2 = true
	h.server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, Certificates: []tls.Certificate{{Certificate: [][]byte{pair.Certificate.Raw}, PrivateKey: pair.Key}}}
	h.server.StartTLS()
}

func (h *hub) stop() {
	h.server.CloseClientConnections()
	h.server.Close()
}

func (h *hub) target(name string) Target {
	pair, err := h.ca.Issue(pki.Leaf{CommonName: name}, time.Now())
	require.NoError(h.t, err)
	key, err := pki.KeyPEM(pair.Key)
	require.NoError(h.t, err)
	return Target{Server: "https://" + h.address, CA: pki.CertificatePEM(h.ca.Certificate), Certificate: pki.CertificatePEM(pair.Certificate), Key: key}
}

func (h *hub) uplink(c Config) *Uplink {
	if c.Server == "" {
		c.Target = h.target("agent")
	}
	u, err := New(c)
	require.NoError(h.t, err)
	h.t.Cleanup(u.Close)
	return u
}

// get asks for a path and returns what the hub says, whose certificate it saw.
func get(ctx context.Context, u *Uplink, path string) (string, error) {
	client, err := kubernetes.NewForConfig(u.Client("test"))
	if err != nil {
		return "", err
	}
	text, err := client.RESTClient().Get().AbsPath(path).DoRaw(ctx)
	return string(text), err
}

func TestReplacedCertificateIsInUseAtOnce(t *testing.T) {
	h := newHub(t)
	u := h.uplink(Config{})
	for _, name := range []string{"agent", "renewed", "renewed again"} {
		if name != "agent" {
			require.NoError(t, u.Replace(h.target(name)))
		}
		seen, err := get(t.Context(), u, "/")
		require.NoError(t, err)
		require.Equal(t, name, seen)
	}
	require.Error(t, u.Replace(Target{Server: "https://elsewhere"}), "another hub is another uplink")
	require.Error(t, u.Replace(Target{Server: "https://" + h.address, CA: []byte("nothing")}))
	seen, err := get(t.Context(), u, "/")
	require.NoError(t, err)
	require.Equal(t, "renewed again", seen, "what cannot be used changes nothing")
}

// TestHubThatComesBack has requests wait while the hub is away, and while it is there and not ready.
func TestHubThatComesBack(t *testing.T) {
	h := newHub(t)
	clock := testingclock.NewFakeClock(time.Now())
	changes := make(chan error, 100)
	u := h.uplink(Config{Clock: clock, Changed: func(err error) { changes <- err }})
	_, err := get(t.Context(), u, "/")
	require.NoError(t, err)

	h.stop()
	var waiting sync.WaitGroup
	answers := make(chan error, 10)
	ask := func() { _, err := get(t.Context(), u, "/"); answers <- err }
	waiting.Go(ask) // notices; clients repeat by themselves what a lost connection cut off
	require.Error(t, <-changes)
	for range cap(answers) - 1 {
		waiting.Go(ask)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = get(ctx, u, "/")
	require.ErrorIs(t, err, context.Canceled, "nobody waits longer than they want to")

	h.ready.Store(false)
	h.start()
	step := func() {
		require.Eventually(t, clock.HasWaiters, patience, time.Millisecond)
		clock.Step(probeTo)
	}
	step()
	require.ErrorContains(t, <-changes, "500", "the reason has changed, which is told")
	require.LessOrEqual(t, len(answers), 1, "all but the one that noticed, at most, wait")
	h.ready.Store(true)
	step()
	require.NoError(t, <-changes)
	waiting.Wait()
	succeeded := 0
	for range cap(answers) {
		if <-answers == nil {
			succeeded++
		}
	}
	require.GreaterOrEqual(t, succeeded, cap(answers)-1, "all but the one that noticed, at most")
}

func TestCloseEndsWaiting(t *testing.T) {
	h := newHub(t)
	changes := make(chan error, 100)
	u := h.uplink(Config{Clock: testingclock.NewFakeClock(time.Now()), Changed: func(err error) { changes <- err }})
	h.stop()
	answer := make(chan error)
	ask := func() { _, err := get(t.Context(), u, "/"); answer <- err }
	go ask()
	require.Error(t, <-changes)
	u.Close()
	require.Error(t, <-answer)
	go ask()
	require.ErrorIs(t, <-answer, errClosed)
}

func TestRefusal(t *testing.T) {
	const own, other = "/apis/cluster.open-cluster-management.io/v1/managedclusters/c1", "/api/v1/secrets"
	for _, test := range []struct {
		name   string
		status int
		path   string
		want   bool
	}{
		{"fine", http.StatusOK, own, false},
		{"nobody it knows", http.StatusUnauthorized, other, true},
		{"its own cluster is forbidden", http.StatusForbidden, own, true},
		{"something else is forbidden", http.StatusForbidden, other, false},
		{"not there", http.StatusNotFound, own, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHub(t)
			u := h.uplink(Config{})
			h.status.Store(int32(test.status))
			_, _ = get(t.Context(), u, test.path)
			require.Len(t, u.Refused(), map[bool]int{true: 1}[test.want])
		})
	}
}

// TestWrongAuthority names what is wrong, and does not let go of it until it is right.
func TestWrongAuthority(t *testing.T) {
	h, other := newHub(t), newHub(t)
	target := h.target("agent")
	right := target.CA
	target.CA = pki.CertificatePEM(other.ca.Certificate)
	clock := testingclock.NewFakeClock(time.Now())
	changes := make(chan error, 100)
	u := h.uplink(Config{Target: target, Clock: clock, Changed: func(err error) { changes <- err }})
	_, err := get(t.Context(), u, "/")
	require.ErrorAs(t, err, new(x509.UnknownAuthorityError))
	require.ErrorAs(t, <-changes, new(x509.UnknownAuthorityError))
	target.CA = append(target.CA, right...)
	require.NoError(t, u.Replace(target))
	require.Eventually(t, clock.HasWaiters, patience, time.Millisecond)
	clock.Step(probeTo)
	require.NoError(t, <-changes)
}
