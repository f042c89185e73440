package uplink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// probeFrom and probeTo bound the pause between two looks at a hub that is away. It is random, so that a thousand
	// agents come back spread over that time.
	probeFrom, probeTo = time.Second, 2 * time.Second
	// probeTimeout bounds one look. A hub that starts lets connections wait before it answers them.
	probeTimeout = 5 * time.Second
	// maxProbe bounds what is read of an answer.
	maxProbe = 4 << 10

	// readyPath is what every Kubernetes API server answers to everybody. One that only lives may still know nobody's
	// rights, and refuse the agent.
	readyPath = "/readyz"
)

// ownCluster tells whether a request is about ManagedClusters.
func ownCluster(path string) bool { return strings.Contains(path, "/managedclusters") }

// await returns when the hub is there, as far as is known.
func (u *Uplink) await(ctx context.Context) error {
	u.mu.Lock()
	back := u.back
	u.mu.Unlock()
	if back != nil {
		select {
		case <-back:
		case <-ctx.Done():
			return ctx.Err()
		case <-u.ctx.Done():
		}
	}
	if u.ctx.Err() != nil {
		return errClosed
	}
	return nil
}

// lost begins to look out for the hub after a request did not reach it.
func (u *Uplink) lost(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.back != nil || u.ctx.Err() != nil {
		return
	}
	back := make(chan struct{})
	u.back = back
	u.probes.Go(func() {
		u.lookOut(err)
		u.mu.Lock()
		defer u.mu.Unlock()
		u.back = nil
		close(back)
	})
}

// lookOut returns when the hub is back, or the uplink is closed. A connection that was lost while the hub is there is no
// news for anybody.
func (u *Uplink) lookOut(why error) {
	if u.probe() == nil {
		return
	}
	u.config.Changed(why)
	for {
		u.current.Load().close() // the next look is no use on a connection that is dead
		pause := probeFrom + rand.N(probeTo-probeFrom)
		select {
		case <-u.config.Clock.After(pause):
		case <-u.ctx.Done():
			return
		}
		err := u.probe()
		if err == nil {
			u.config.Changed(nil)
			return
		}
		if u.ctx.Err() == nil && kindOf(err) != kindOf(why) {
			why = err
			u.config.Changed(why)
		}
	}
}

// kindOf is the same for errors that mean the same to people. Those of the network often differ by a port only.
func kindOf(err error) string {
	var network *net.OpError
	switch {
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "network"
	}
	return err.Error()
}

// probe asks the hub whether it serves. One that refuses to say does.
func (u *Uplink) probe() error {
	ctx, cancel := context.WithTimeout(u.ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.config.Server+readyPath, nil)
	if err != nil {
		return err
	}
	response, err := u.current.Load().transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("hub at %s: %w", u.config.Server, err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, maxProbe)); err != nil {
		return fmt.Errorf("hub at %s: %w", u.config.Server, err)
	}
	if response.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("hub at %s answers %s", u.config.Server, response.Status)
	}
	return nil
}
