package apiserver

import (
	"crypto/subtle"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
)

const (
	// A source that comes with wrong tokens may try sourceTries at once and one every sourceEvery after that; all sources
	// together allTries and one every allEvery. A secret has 80 bits or more, so this is about load and noise, not about luck.
	sourceTries, sourceEvery = 10, 5 * time.Second
	allTries, allEvery       = 200, 100 * time.Millisecond

	// sources is how many of them are remembered; one takes about 200 bytes.
	sources = 4096

	// jwtStart is what a signed token of a service account begins with: base64 of an opening brace and a quote.
	jwtStart = "eyJ"

	// everybody is the key of the bucket that all sources share.
	everybody = ""
)

// guard slows down who guesses tokens. Only failures count, and only requests with a token that is a secret shared with the
// hub are held up: agents with certificates, and add-ons with signed tokens, are never locked out by a neighbour behind the
// same address.
type guard struct {
	bySource, inAll *limiters
	own             string // token with which the hub's own parts come
}

func newGuard(own string, clock clock.PassiveClock) *guard {
	return &guard{own: own, bySource: newLimiters(sources, sourceEvery, sourceTries, clock), inAll: newLimiters(1, allEvery, allTries, clock)}
}

// Check refuses requests with a token from a source that failed too often, before anything looks at the token.
func (g *guard) Check(next http.Handler, refuse refuse) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.guessable(r) {
			if wait, limit := g.blocked(r); wait > 0 {
				seconds := int(math.Ceil(wait.Seconds()))
				err := apierrors.NewTooManyRequests(fmt.Sprintf("too many requests with tokens that are not valid: %s; try again in %d s", limit, seconds), seconds)
				refuse(w, r, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (g *guard) blocked(r *http.Request) (wait time.Duration, limit string) {
	if wait := g.bySource.wait(sourceOf(r)); wait > 0 {
		return wait, fmt.Sprintf("the limit for one address is %d at once and one every %s", sourceTries, sourceEvery)
	}
	return g.inAll.wait(everybody), fmt.Sprintf("the limit for all addresses is %d at once and one every %s", allTries, allEvery)
}

// failed counts a token that was not valid.
func (g *guard) failed(r *http.Request) {
	if !g.guessable(r) {
		return
	}
	g.bySource.take(sourceOf(r))
	g.inAll.take(everybody)
}

// guessable tells whether a request carries a token that could be found by trying: a join token or a bootstrap token, or
// something that pretends to be one. Whoever makes up a signed token has to break the signature.
func (g *guard) guessable(r *http.Request) bool {
	scheme, credential, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	credential = strings.TrimSpace(credential)
	return strings.EqualFold(scheme, "bearer") && !strings.HasPrefix(credential, jwtStart) &&
		subtle.ConstantTimeCompare([]byte(credential), []byte(g.own)) != 1
}

// sourceOf is where a connection comes from: an IPv4 address, or the network of an IPv6 host, which has addresses enough to
// use each one once. Headers about forwarding are anybody's to write.
func sourceOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	address = address.Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	network, err := address.Prefix(64)
	if err != nil {
		return host
	}
	return network.String()
}
