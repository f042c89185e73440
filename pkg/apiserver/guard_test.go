package apiserver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	testingclock "k8s.io/utils/clock/testing"
)

// unaudited refuses without an audit log.
func unaudited() refuse {
	return refusing(&genericapiserver.Config{RequestInfoResolver: &request.RequestInfoFactory{}})
}

func TestGuard(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
	g := newGuard("own", clock)
	ask := func(source, bearer string, valid bool) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/version", nil)
		r.RemoteAddr = source
		if bearer != "" {
			r.Header.Set("Authorization", "Bearer "+bearer)
		}
		w := httptest.NewRecorder()
		g.Check(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !valid {
				g.failed(r)
				w.WriteHeader(http.StatusUnauthorized)
			}
		}), unaudited()).ServeHTTP(w, r)
		return w
	}
	const attacker, neighbour, other = "192.0.2.1:1000", "192.0.2.1:2000", "192.0.2.2:1000"
	for range sourceTries {
		require.Equal(t, http.StatusUnauthorized, ask(attacker, "nave-join.a.b", false).Code)
	}
	blocked := ask(attacker, "nave-join.a.b", false)
	require.Equal(t, http.StatusTooManyRequests, blocked.Code)
	require.Equal(t, "5", blocked.Header().Get("Retry-After"))
	require.Contains(t, blocked.Body.String(), "10 at once and one every 5s", "the refusal names the limit")
	for _, test := range []struct {
		name, source, bearer string
		want                 int
	}{
		{"a good token from there waits, too", neighbour, "abcdef.0123456789abcdef", http.StatusTooManyRequests},
		{"a signed token does not", neighbour, "eyJhbGciOi.e.s", http.StatusOK},
		{"nor do the hub's own parts", neighbour, "own", http.StatusOK},
		{"nor does a certificate", neighbour, "", http.StatusOK},
		{"nor who comes from elsewhere", other, "nave-join.a.b", http.StatusOK},
	} {
		t.Run(test.name, func(t *testing.T) { require.Equal(t, test.want, ask(test.source, test.bearer, true).Code) })
	}
	clock.SetTime(clock.Now().Add(sourceEvery))
	require.Equal(t, http.StatusUnauthorized, ask(attacker, "nave-join.a.b", false).Code, "one more after the time")
	require.Equal(t, http.StatusTooManyRequests, ask(attacker, "nave-join.a.b", false).Code)
}

// TestGuardAgainstMany guesses from a new address each time.
func TestGuardAgainstMany(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
	g := newGuard("own", clock)
	request := func(i int) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/version", nil)
		r.RemoteAddr = fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)
		r.Header.Set("Authorization", "Bearer nave-join.a.b")
		return r
	}
	tried := 0
	for ; tried < 10*sources; tried++ {
		if wait, limit := g.blocked(request(tried)); wait > 0 {
			require.Contains(t, limit, "all addresses")
			break
		}
		g.failed(request(tried))
	}
	require.Equal(t, allTries, tried)
	require.LessOrEqual(t, g.bySource.buckets.Len(), sources)
}

func TestSourceOf(t *testing.T) {
	for _, test := range []struct{ name, remote, want string }{
		{"IPv4", "192.0.2.1:1234", "192.0.2.1"},
		{"IPv4 in IPv6", "[::ffff:192.0.2.1]:1234", "192.0.2.1"},
		{"a host's IPv6 addresses are one", "[2001:db8:1:2:aaaa::1]:1234", "2001:db8:1:2::/64"},
		{"with a zone", "[fe80::1%eth0]:1", "fe80::/64"},
		{"nothing that is known", "@", "@"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = test.remote
			r.Header.Set("X-Forwarded-For", "203.0.113.9")
			require.Equal(t, test.want, sourceOf(r))
		})
	}
}
