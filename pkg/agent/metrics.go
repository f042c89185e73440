package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"nave/pkg/log"
	"nave/pkg/metrics"
)

// Limits of who reads metrics: a scraper in the same network, with one request every few seconds.
const (
	metricsConnections    = 16
	metricsHeaderBytes    = 16 << 10
	metricsHeaderTimeout  = 5 * time.Second
	metricsRequestTimeout = 30 * time.Second
	metricsIdleTimeout    = 2 * time.Minute
	metricsDrain          = time.Second // a scrape that is under way when the agent ends
)

// listenMetrics takes the address at which metrics are served, if there is one, so that a wrong one is told at the start.
func listenMetrics(address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve metrics at %s: %w; choose another address with --metrics-listen HOST:PORT", address, err)
	}
	return netutil.LimitListener(listener, metricsConnections), nil
}

// open tells whether others than processes of this machine reach an address.
func open(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return !ok || !tcp.IP.IsLoopback()
}

// serveMetrics serves /metrics and /healthz until ctx ends. It is healthy as long as the process serves: an agent whose hub
// is away is right to go on, and nave agent status says so.
func (a *Agent) serveMetrics(ctx context.Context) error {
	logger := a.config.Log.WithField(log.FieldComponent, "metrics").WithField(log.FieldAddress, a.metrics.Addr().String())
	if open(a.metrics.Addr()) {
		logger.Warn("metrics are served over plain HTTP to whoever reaches this address")
	} else {
		logger.Info("metrics are served")
	}
	metrics.DescribeBuild()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	server := &http.Server{
		Handler:           mux,
		MaxHeaderBytes:    metricsHeaderBytes,
		ReadHeaderTimeout: metricsHeaderTimeout, ReadTimeout: metricsRequestTimeout, WriteTimeout: metricsRequestTimeout, IdleTimeout: metricsIdleTimeout,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(a.metrics) }() // awaited below
	select {
	case err := <-ended:
		return fmt.Errorf("serve metrics at %s: %w", a.metrics.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), metricsDrain)
	defer cancel()
	if server.Shutdown(drain) != nil { // somebody reads too slowly to be waited for
		if err := server.Close(); err != nil {
			return fmt.Errorf("stop serving metrics: %w", err)
		}
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics at %s: %w", a.metrics.Addr(), err)
	}
	return nil
}
