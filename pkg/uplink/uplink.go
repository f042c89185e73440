// Package uplink is an agent's connection to its hub. All clients of the agent share it, and what it shows to the hub can be
// replaced while they use it: a renewed certificate is in use at once, rather than when a file is read again.
//
// While the hub is away, requests wait in the uplink rather than fail, and one probe looks out for the hub. So the back-off of
// clients and informers does not grow with the length of an outage, and an agent is back as soon as its hub is.
package uplink

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// errClosed is what requests get that wait for a hub when the uplink is closed.
var errClosed = errors.New("the connection to the hub was given up")

// Config is what an uplink needs.
type Config struct {
	Target
	Clock clock.Clock
	// Changed is told when the hub goes away, with the reason, and when it is back, with nil. It is not called by two
	// goroutines at a time and may be nil.
	Changed func(error)
}

// Target is whom to connect to, and with what.
type Target struct {
	Server           string   // https URL
	ServerName       string   // that the hub's certificate is for, if it is not the host of the URL
	CA               []byte   // PEM bundle of who may sign for the hub; the system's if empty
	Proxy            *url.URL // what the environment says if nil
	Certificate, Key []byte   // PEM
}

// Uplink is an http.RoundTripper to one hub. Make one with New, and Close it.
type Uplink struct {
	config  Config
	current atomic.Pointer[line]
	refused chan struct{}

	ctx    context.Context // of the probe
	cancel context.CancelFunc
	probes sync.WaitGroup

	mu   sync.Mutex
	back chan struct{} // closed when the hub is back; nil while it is there
}

// New makes an uplink. It connects when it is first used.
func New(c Config) (*Uplink, error) {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Changed == nil {
		c.Changed = func(error) {}
	}
	l, err := newLine(c.Target)
	if err != nil {
		return nil, err
	}
	u := &Uplink{config: c, refused: make(chan struct{}, 1)}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	u.current.Store(l)
	return u, nil
}

// Client is the configuration of clients that use the uplink.
func (u *Uplink) Client(userAgent string) *rest.Config {
	return &rest.Config{
		Host:      u.config.Server,
		UserAgent: userAgent,
		Transport: u,
		QPS:       -1, // the hub's priority and fairness is the limit, and each loop bounds what it does at a time
	}
}

// Refused gets a value after the hub answered that it does not know the agent or that its cluster is not the agent's to
// read: whoever keeps the identity has to find out which.
func (u *Uplink) Refused() <-chan struct{} { return u.refused }

// Replace goes on with another target at the same address. Connections to the old one are closed, so that nothing waits
// on one whose certificate is about to end; clients repeat what that cut off, as they do after any lost connection.
func (u *Uplink) Replace(t Target) error {
	if t.Server != u.config.Server {
		return fmt.Errorf("uplink to %s cannot go to %s", u.config.Server, t.Server)
	}
	l, err := newLine(t)
	if err != nil {
		return err
	}
	u.current.Swap(l).close()
	return nil
}

// Close ends what is under way, and what waits for the hub.
func (u *Uplink) Close() {
	u.cancel()
	u.probes.Wait()
	u.current.Load().close()
}

// RoundTrip implements http.RoundTripper. While the hub is away it waits for it as long as the request's context lasts.
func (u *Uplink) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := u.await(r.Context()); err != nil {
		return nil, err
	}
	l := u.current.Load()
	response, err := l.transport.RoundTrip(r)
	switch {
	case err == nil && refusal(r, response):
		select {
		case u.refused <- struct{}{}:
		default: // told already
		}
	case err != nil && r.Context().Err() == nil && l == u.current.Load():
		u.lost(err)
	}
	return response, err
}

// refusal tells whether an answer may mean that the identity is of no use any more. Other things than its own cluster may
// be forbidden to an agent for good reasons.
func refusal(r *http.Request, response *http.Response) bool {
	switch response.StatusCode {
	case http.StatusUnauthorized:
		return true
	case http.StatusForbidden:
		return ownCluster(r.URL.Path)
	}
	return false
}
