package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nave/pkg/agent"
	"nave/pkg/agentstate"
)

func TestWriteStatus(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	good := agent.Status{Running: true, Connected: true, Version: "v1", State: agentstate.State{
		Hub: "https://hub", Cluster: "c1", Agent: "abcde", Accepted: true, Joined: true,
		CertificateUntil: now.Add(50 * time.Hour), LastHeartbeat: now.Add(-7 * time.Second),
	}}
	ended := good
	ended.Running, ended.Connected, ended.Why, ended.CertificateUntil = false, false, "no agent runs", now.Add(-time.Hour)
	away := good
	away.Connected, away.Why = false, "connection refused"
	away.HubConnection = &agentstate.Fault{Part: "uplink", Message: "connection refused", At: now.Add(-time.Minute)}
	away.LastError = *away.HubConnection
	for _, test := range []struct {
		name   string
		status agent.Status
		want   []string
	}{
		{"connected", good, []string{"agent running, version v1", "hub https://hub", "cluster c1 (agent abcde)", "connected yes", "accepted yes", "joined yes",
			"certificate until 2026-05-03T14:00:00Z (2 days)", "last heartbeat 2026-05-01T11:59:53Z (7s ago)", "last error -"}},
		{"ended", ended, []string{"agent not running", "connected no: no agent runs", "certificate expired at 2026-05-01T11:00:00Z"}},
		{"away", away, []string{"connected no: connection refused", "hub connection uplink: connection refused, at 2026-05-01T11:59:00Z (60s ago)", "last error uplink"}},
		{"just started", agent.Status{Running: true}, []string{"hub -", "certificate -", "last heartbeat -"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, writeStatus(&out, test.status, "", now))
			text := strings.Join(strings.Fields(out.String()), " ")
			for _, want := range test.want {
				require.Contains(t, text, want)
			}
			require.LessOrEqual(t, strings.Count(out.String(), "\n"), 12, "it is one screen")
			out.Reset()
			require.NoError(t, writeStatus(&out, test.status, "json", now))
			var read agent.Status
			require.NoError(t, json.Unmarshal(out.Bytes(), &read))
			require.Equal(t, test.status, read)
		})
	}
}
