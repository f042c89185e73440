package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nave/pkg/lab"
)

// TestMetricsOfAnAgent reads what an agent says of itself while it works.
func TestMetricsOfAnAgent(t *testing.T) {
	b, ctx := start(t)
	require.NoError(t, b.Stop(ctx, lab.AgentPart(second)))
	t.Cleanup(func() { require.NoError(t, b.Start(context.Background(), lab.AgentPart(second))) })
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	t.Setenv("NAVE_METRICS_LISTEN", address)
	startAgent(t, b, second, "", second, b.agentData(t, second))

	for i := range 5 {
		name := fmt.Sprintf("measured-%d", i)
		b.newWork(t, ctx, second, name, configMap("default", name, "a"))
		eventually(t, ctx, "the work is available", func() error { return b.appliedAndAvailable(ctx, second, name) })
	}
	get := func(path string) string {
		answer, err := http.Get("http://" + address + path)
		require.NoError(t, err)
		defer answer.Body.Close()
		require.Equal(t, http.StatusOK, answer.StatusCode)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return string(text)
	}
	require.Equal(t, "ok\n", get("/healthz"))
	measured := get("/metrics")
	for _, family := range []string{`workqueue_depth{name="work"} `, `workqueue_retries_total{name="work"} `, `workqueue_work_duration_seconds_count{name="work"} `,
		"nave_agent_apply_duration_seconds_count{", "nave_agent_watches ", "nave_build_info{", "rest_client_requests_total{", "process_resident_memory_bytes "} {
		require.True(t, strings.HasPrefix(measured, family) || strings.Contains(measured, "\n"+family), "there is no %s in %s", family, measured)
	}
	require.NotContains(t, measured, "measured-", "nothing grows with the number of works")
}
