package agent

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"nave/pkg/agentstate"
	"nave/pkg/datadir"
	"nave/pkg/live"
)

// TestStatus follows an agent from before its first start until after its end.
func TestStatus(t *testing.T) {
	dataDir := t.TempDir()
	_, err := ReadStatus(dataDir)
	require.ErrorContains(t, err, "no agent has run")

	release, err := datadir.Lock(folder(dataDir), "nave agent")
	require.NoError(t, err)
	a := &Agent{dir: folder(dataDir), config: Config{Log: logrus.New(), Clock: clock.RealClock{}}, state: live.New(agentstate.State{Cluster: "c1"})}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.writeState(ctx) }()
	require.Eventually(t, func() bool { s, err := ReadStatus(dataDir); return err == nil && s.Running }, time.Minute, time.Millisecond)
	status, err := ReadStatus(dataDir)
	require.NoError(t, err)
	require.False(t, status.Connected)
	require.Contains(t, status.Why, "waits for its identity")

	good := agentstate.State{Hub: "https://hub", Cluster: "c1", Accepted: true, Joined: true, CertificateUntil: time.Now().Add(time.Hour), LastHeartbeat: time.Now()}
	a.state.Update(func(agentstate.State) agentstate.State { return good })
	require.Eventually(t, func() bool { s, err := ReadStatus(dataDir); return err == nil && s.Connected }, time.Minute, time.Millisecond)
	require.NoError(t, datadirIsTaken(dataDir), "asking frees no lock")

	a.state.Update(func(s agentstate.State) agentstate.State { s.Joined = false; return s })
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, release())
	status, err = ReadStatus(dataDir)
	require.NoError(t, err)
	require.False(t, status.Running)
	require.False(t, status.Connected)
	require.Contains(t, status.Why, "no agent runs")
	require.Equal(t, "https://hub", status.Hub, "what it left is still told")

	require.NoError(t, os.WriteFile(filepath.Join(folder(dataDir), stateFile), []byte("{"), 0o600))
	_, err = ReadStatus(dataDir)
	require.ErrorContains(t, err, "state of the agent")
}

func datadirIsTaken(dataDir string) error {
	release, err := datadir.Lock(folder(dataDir), "another")
	if err != nil {
		return nil
	}
	_ = release()
	return context.Canceled
}

func TestTrouble(t *testing.T) {
	now := time.Now()
	fault := &agentstate.Fault{Message: "broken"}
	good := agentstate.State{Accepted: true, Joined: true, CertificateUntil: now, LastHeartbeat: now}
	for _, test := range []struct {
		name   string
		change func(*Status)
		want   string
	}{
		{"connected", func(*Status) {}, ""},
		{"not running", func(s *Status) { s.Running = false }, "no agent runs"},
		{"hub away", func(s *Status) { s.HubConnection = fault }, "broken"},
		{"no use of the bootstrap credential yet", func(s *Status) { s.Bootstrap, s.LastHeartbeat = fault, time.Time{} }, "broken"},
		{"a broken bootstrap credential that is not needed", func(s *Status) { s.Bootstrap = fault }, ""},
		{"joining", func(s *Status) { s.CertificateUntil = time.Time{} }, "identity"},
		{"not accepted", func(s *Status) { s.Accepted = false }, "accept"},
		{"not joined", func(s *Status) { s.Joined = false }, "not reported"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := Status{State: good, Running: true}
			test.change(&s)
			if test.want == "" {
				require.Empty(t, s.trouble("/d"))
				return
			}
			require.Contains(t, s.trouble("/d"), test.want)
		})
	}
}
