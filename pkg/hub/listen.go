package hub

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"k8s.io/apimachinery/pkg/util/validation"
)

// defaultPort is where a hub listens unless told otherwise; 6443 belongs to a k3s on the same box.
const defaultPort = 7443

// endpoint is where to listen: an address or a name of this host, or every address if the host is empty.
type endpoint struct {
	host string
	port int
}

// String is the endpoint with the brackets that an IPv6 address needs.
func (e endpoint) String() string { return net.JoinHostPort(e.host, strconv.Itoa(e.port)) }

// parseEndpoint reads host:port, or a host alone. An IPv6 address alone may come with brackets or without.
func parseEndpoint(text string) (endpoint, error) {
	if strings.Contains(text, "%") {
		return endpoint{}, zoneError("listen address", text)
	}
	alone := unbracketed(text)
	if _, err := netip.ParseAddr(alone); err == nil {
		return endpoint{alone, defaultPort}, nil
	}
	if !strings.Contains(text, ":") && text != "" {
		text += ":" + strconv.Itoa(defaultPort)
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return endpoint{}, fmt.Errorf("listen address %q: write HOST:PORT, or [ADDRESS]:PORT for IPv6", text)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return endpoint{}, fmt.Errorf("listen address %q: %q is no port from 0 to 65535", text, port)
	}
	if host != "" {
		if host, err = parseHost("listen address", host); err != nil {
			return endpoint{}, err
		}
	}
	return endpoint{host, int(number)}, nil
}

// parseHost reads an address, with brackets or without, or a name. what says, in errors, what it is for.
func parseHost(what, text string) (string, error) {
	if strings.Contains(text, "%") {
		return "", zoneError(what, text)
	}
	host := unbracketed(text)
	if address, err := netip.ParseAddr(host); err == nil {
		return address.String(), nil
	}
	if host != text || len(validation.IsDNS1123Subdomain(strings.ToLower(host))) > 0 {
		return "", fmt.Errorf("%s %q is no IP address and no host name; it comes without https:// and without a port", what, text)
	}
	return host, nil
}

func unbracketed(text string) string {
	if inner, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inner, "]") {
		return strings.TrimSuffix(inner, "]")
	}
	return text
}

func zoneError(what, text string) error {
	return fmt.Errorf("%s %q has an IPv6 zone, which means something on one machine only; use a global address or a name", what, text)
}

// listen opens every endpoint, or none. The first one's port is that of all that leave the choice to the system.
func listen(texts []string) (net.Listener, []endpoint, error) {
	if len(texts) == 0 {
		texts = []string{fmt.Sprintf(":%d", defaultPort)}
	}
	var endpoints []endpoint
	opened := &listeners{accepted: make(chan accepted), closed: make(chan struct{})}
	for _, text := range texts {
		e, err := parseEndpoint(text)
		if err != nil {
			return nil, nil, errors.Join(err, opened.Close())
		}
		if e.port == 0 && len(endpoints) > 0 {
			e.port = endpoints[0].port
		}
		listener, err := net.Listen(network(e, len(texts) == 1), e.String())
		if err != nil {
			return nil, nil, errors.Join(listenError(e, err), opened.Close())
		}
		opened.all = append(opened.all, listener)
		if e.port == 0 {
			e.port = listener.Addr().(*net.TCPAddr).Port
		}
		endpoints = append(endpoints, e)
	}
	if len(opened.all) == 1 {
		return opened.all[0], endpoints, nil
	}
	for _, l := range opened.all {
		go opened.accept(l)
	}
	return opened, endpoints, nil
}

// network keeps addresses of the two families apart: 0.0.0.0 is IPv4 alone, and beside other addresses :: is IPv6 alone,
// since it would collide with them otherwise.
func network(e endpoint, only bool) string {
	address, err := netip.ParseAddr(e.host)
	switch {
	case err != nil || only && address.Is6():
		return "tcp"
	case address.Is6():
		return "tcp6"
	}
	return "tcp4"
}

func listenError(e endpoint, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listen on %s: the port is in use by another process; stop it or choose another port with --listen", e)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("listen on %s: this user may not use the port; choose one above 1023 with --listen", e)
	}
	return fmt.Errorf("listen on %s: %w; choose an address of this host with --listen", e, err)
}

// listeners are several listeners that look like one.
type listeners struct {
	all      []net.Listener
	accepted chan accepted
	closed   chan struct{}
	once     sync.Once
}

type accepted struct {
	conn net.Conn
	err  error
}

func (l *listeners) accept(from net.Listener) {
	for {
		conn, err := from.Accept()
		select {
		case l.accepted <- accepted{conn, err}:
		case <-l.closed:
			if err == nil {
				_ = conn.Close() // nobody waits for it any more
			}
			return
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// Accept implements net.Listener.
func (l *listeners) Accept() (net.Conn, error) {
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listeners) Close() error {
	var errs []error
	l.once.Do(func() {
		close(l.closed)
		for _, each := range l.all {
			errs = append(errs, each.Close())
		}
	})
	return errors.Join(errs...)
}

// Addr implements net.Listener; it is the first one's.
func (l *listeners) Addr() net.Addr { return l.all[0].Addr() }

// reachable is the host by which others reach what listens on these endpoints, as well as can be told from here: the first
// that is one, else the address of this host that traffic leaves it with.
func reachable(endpoints []endpoint) string {
	onlyIPv4 := true
	for _, e := range endpoints {
		address, err := netip.ParseAddr(e.host)
		if e.host != "" && (err != nil || !address.IsUnspecified()) {
			return e.host
		}
		onlyIPv4 = onlyIPv4 && err == nil && address.Is4()
	}
	addresses := append(outgoing(), localAddresses()...)
	if onlyIPv4 {
		addresses = slices.DeleteFunc(addresses, func(text string) bool { return strings.Contains(text, ":") })
	}
	if len(addresses) > 0 {
		return addresses[0]
	}
	return "127.0.0.1"
}

// outgoing are the addresses that the routes of this host choose towards the world. Nothing is sent for that.
func outgoing() []string {
	var all []string
	for _, target := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} { // reserved for examples
		conn, err := net.Dial("udp", target)
		if err != nil {
			continue
		}
		if local, ok := conn.LocalAddr().(*net.UDPAddr); ok && local.IP.IsGlobalUnicast() {
			all = append(all, local.IP.String())
		}
		_ = conn.Close() // it never carried anything
	}
	return all
}
