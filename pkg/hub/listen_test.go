package hub

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hasIPv6 tells whether this machine has IPv6 at all.
func hasIPv6() bool {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

// bothFamilies are loopback addresses, IPv6 first where there is one.
func bothFamilies() []string {
	if hasIPv6() {
		return []string{"[::1]:0", "127.0.0.1:0"}
	}
	return []string{"127.0.0.1:0"}
}

func TestParseEndpoint(t *testing.T) {
	for _, test := range []struct{ text, want, refusal string }{
		{":7443", ":7443", ""},
		{"::", "[::]:7443", ""},
		{"[::]", "[::]:7443", ""},
		{"[::]:8443", "[::]:8443", ""},
		{"0.0.0.0", "0.0.0.0:7443", ""},
		{"192.0.2.1:1", "192.0.2.1:1", ""},
		{"2001:db8::10", "[2001:db8::10]:7443", ""},
		{"[2001:DB8:0::10]:6443", "[2001:db8::10]:6443", ""},
		{"localhost", "localhost:7443", ""},
		{"", "", "write HOST:PORT"},
		{"2001:db8::10:70000", "", "write HOST:PORT, or [ADDRESS]:PORT for IPv6"},
		{"[2001:db8::10", "", `listen address "[2001:db8::10": write HOST:PORT`},
		{"[fe80::1%eth0]:1", "", "has an IPv6 zone"},
		{"fe80::1%eth0", "", "has an IPv6 zone"},
		{"127.0.0.1:http", "", `"http" is no port`},
		{"127.0.0.1:65536", "", `"65536" is no port`},
		{"https://hub:1", "", `listen address "https://hub:1": write HOST:PORT`},
		{"a b:1", "", "is no IP address and no host name"},
	} {
		t.Run(test.text, func(t *testing.T) {
			got, err := parseEndpoint(test.text)
			if test.want == "" {
				require.ErrorContains(t, err, test.refusal)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got.String())
		})
	}
}

func TestListen(t *testing.T) {
	if !hasIPv6() {
		t.Skip("this machine has no IPv6")
	}
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	const v4, v6 = "127.0.0.1", "::1"
	for _, test := range []struct {
		name             string
		listen           []string
		reached, unheard []string
		refusal          string
	}{
		{"every address", []string{":0"}, []string{v4, v6}, nil, ""},
		{"every address, in IPv6", []string{"[::]:0"}, []string{v4, v6}, nil, ""},
		{"every IPv4 address", []string{"0.0.0.0:0"}, []string{v4}, []string{v6}, ""},
		{"one IPv6 address", []string{"[::1]:0"}, []string{v6}, []string{v4}, ""},
		{"one of each", []string{"[::1]:0", "127.0.0.1:0"}, []string{v4, v6}, nil, ""},
		{"all of each", []string{"[::]:0", "0.0.0.0:0"}, []string{v4, v6}, nil, ""},
		{"the second is taken", []string{"[::1]:0", taken.Addr().String()}, nil, nil, "listen on " + taken.Addr().String() + ": the port is in use"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, endpoints, err := listen(test.listen)
			if test.refusal != "" {
				require.ErrorContains(t, err, test.refusal)
				require.False(t, strings.Contains(err.Error(), "\n"))
				return
			}
			require.NoError(t, err)
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					_ = conn.Close()
				}
			}()
			for _, host := range test.reached {
				conn, err := net.Dial("tcp", endpoint{host, endpoints[0].port}.String())
				require.NoError(t, err, host)
				require.NoError(t, conn.Close())
			}
			for _, host := range test.unheard {
				_, err := net.Dial("tcp", endpoint{host, endpoints[0].port}.String())
				require.Error(t, err, host)
			}
			require.NoError(t, l.Close())
			_, err = l.Accept()
			require.ErrorIs(t, err, net.ErrClosed)
			again, _, err := listen([]string{endpoints[0].String()})
			require.NoError(t, err, "everything was closed")
			require.NoError(t, again.Close())
		})
	}
}

func TestHosts(t *testing.T) {
	for _, test := range []struct {
		name      string
		listen    []endpoint
		advertise []string
		want      []string
		refusal   string
	}{
		{"what was given", []endpoint{{"0.0.0.0", 1}}, []string{"hub.example", "192.0.2.1"}, []string{"hub.example", "192.0.2.1"}, ""},
		{"IPv6, with brackets", []endpoint{{"::", 1}}, []string{"[2001:db8::1]"}, []string{"2001:db8::1"}, ""},
		{"IPv6, without", []endpoint{{"::", 1}}, []string{"2001:db8::1"}, []string{"2001:db8::1"}, ""},
		{"the address it listens on", []endpoint{{"127.0.0.1", 1}}, nil, []string{"127.0.0.1", "127.0.0.1"}, ""},
		{"the first that is one", []endpoint{{"::", 1}, {"192.0.2.1", 1}}, nil, []string{"192.0.2.1", "192.0.2.1"}, ""},
		{"an URL", nil, []string{"https://hub"}, nil, `advertised address "https://hub" is no IP address and no host name; it comes without https:// and without a port`},
		{"with a port", nil, []string{"192.0.2.1:1"}, nil, "without a port"},
		{"a zone", nil, []string{"fe80::1%eth0"}, nil, "has an IPv6 zone"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := &Hub{config: Config{Advertise: test.advertise}}
			got, err := h.hosts(test.listen)
			if test.refusal != "" {
				require.ErrorContains(t, err, test.refusal)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
	for _, host := range outgoing() {
		require.NotNil(t, net.ParseIP(host))
	}
	require.NotContains(t, reachable([]endpoint{{"0.0.0.0", 1}}), ":", "who listens on IPv4 alone is reached by it")
}
