package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"

	"nave/pkg/reconcile"
)

// TestMetrics reads what a loop did from an agent that serves it.
func TestMetrics(t *testing.T) {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	working, done := context.WithCancel(ctx)
	tries := 0
	queue := reconcile.New("measured", logger, 1, func(context.Context, string) (time.Duration, error) {
		if tries++; tries < 3 {
			return 0, errors.New("not yet")
		}
		done()
		return 0, nil
	})
	queue.Add("key")
	require.NoError(t, queue.Run(working))

	a := &Agent{config: Config{Log: logger}}
	var err error
	a.metrics, err = listenMetrics("127.0.0.1:0")
	require.NoError(t, err)
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- a.serveMetrics(serving) }()

	for _, test := range []struct {
		path string
		code int
		want []string
	}{
		{"/metrics", http.StatusOK, []string{
			`workqueue_retries_total{name="measured"} 2`, `workqueue_depth{name="measured"}`, `workqueue_work_duration_seconds_count{name="measured"}`,
			"nave_build_info{", "process_resident_memory_bytes", "go_goroutines"}},
		{"/healthz", http.StatusOK, []string{"ok"}},
		{"/debug/pprof/", http.StatusNotFound, nil},
	} {
		t.Run(test.path, func(t *testing.T) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.metrics.Addr().String()+test.path, nil)
			require.NoError(t, err)
			answer, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			text, err := io.ReadAll(answer.Body)
			require.NoError(t, errors.Join(err, answer.Body.Close()))
			require.Equal(t, test.code, answer.StatusCode)
			for _, want := range test.want {
				require.Contains(t, string(text), want)
			}
		})
	}
	stop()
	require.NoError(t, <-ended)
	_, err = net.Dial("tcp", a.metrics.Addr().String())
	require.Error(t, err, "an agent that has ended listens no more")
}

func TestMetricsAddress(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for _, test := range []struct{ name, address, want string }{
		{"no port", "localhost", "--metrics-listen HOST:PORT"},
		{"taken", taken.Addr().String(), "in use"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := listenMetrics(test.address)
			require.ErrorContains(t, err, test.want)
			require.Equal(t, 0, strings.Count(err.Error(), "\n"))
		})
	}
	none, err := listenMetrics("")
	require.NoError(t, err)
	require.Nil(t, none)
}

func TestOpen(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:1": false, "[::1]:1": false, "0.0.0.0:1": true, "[::]:1": true, "192.0.2.1:1": true} {
		tcp, err := net.ResolveTCPAddr("tcp", address)
		require.NoError(t, err)
		require.Equal(t, want, open(tcp), address)
	}
}
