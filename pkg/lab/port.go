package lab

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
)

const (
	// firstPort and lastPort lie below the range from which Linux takes the ports of outgoing connections, so that a part
	// which is started again finds its port free.
	firstPort = 20000
	lastPort  = 32000

	// portTries bounds the search; with most of the range free one try is enough.
	portTries = 100
)

// freeAddress finds a loopback address that nobody listens on and that is none of taken. Somebody else may be faster to use
// it, so who listens there has to be ready to ask again.
func freeAddress(taken []string) (string, error) {
	var last error
	for range portTries {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(lastPort-firstPort))
		if slices.Contains(taken, address) {
			continue
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			last = err
			continue
		}
		if err := listener.Close(); err != nil {
			return "", fmt.Errorf("look for a free port: %w", err)
		}
		return address, nil
	}
	return "", fmt.Errorf("no free port between %d and %d in %d tries: %w", firstPort, lastPort, portTries, last)
}
