package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"nave/pkg/agentstate"
	"nave/pkg/datadir"
	"nave/pkg/log"
	"nave/pkg/version"
)

const (
	// stateFile is where an agent writes how it stands. It is a file rather than a socket so that it still says something
	// when the agent has ended.
	stateFile = "state.json"
	// betweenWrites is the least time between two writes of it.
	betweenWrites = time.Second
	// maxState bounds what is read of it in bytes; errors in it are the longest part.
	maxState = 1 << 20
)

// Status is how the agent of a data directory stands.
type Status struct {
	agentstate.State
	Running   bool   `json:"running"`
	Connected bool   `json:"connected"`     // it runs, and is accepted and in touch with its hub
	Why       string `json:"why,omitempty"` // it is not connected
	Version   string `json:"version"`       // of the agent
}

// writeState writes how the agent stands, whenever that changes, until ctx ends.
func (a *Agent) writeState(ctx context.Context) error {
	file := filepath.Join(a.dir, stateFile)
	failing := false
	for {
		state, changed := a.state.Watch()
		err := writeStatus(file, Status{State: state, Version: version.Current().Version})
		if err != nil && !failing {
			a.config.Log.WithField(log.FieldPath, file).WithError(err).Warn("nave agent status will say nothing new")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		select {
		case <-ctx.Done(): // the last word counts
			return writeStatus(file, Status{State: a.state.Get(), Version: version.Current().Version})
		case <-a.config.Clock.After(betweenWrites):
		}
	}
}

// writeStatus replaces the file at once. It is not synced to the disk: after a crash of the machine it says nothing true
// anyhow, and a heartbeat a minute would wear out a memory card.
func writeStatus(file string, s Status) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	next := file + ".new"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return os.Rename(next, file)
}

// ReadStatus reads how the agent with this data directory stands, or stood when it ended.
func ReadStatus(dataDir string) (Status, error) {
	dir := folder(dataDir)
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Status{}, fmt.Errorf("no agent has run with data directory %s; choose another one with --data-dir", dataDir)
	}
	if err == nil && len(text) > maxState {
		err = fmt.Errorf("it is larger than %d bytes", maxState)
	}
	var s Status
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return s, fmt.Errorf("state of the agent in %s: %w", dir, err)
	}
	if s.Running, err = datadir.Held(dir); err != nil {
		return s, err
	}
	s.Why = s.trouble(dataDir)
	s.Connected = s.Why == ""
	return s, nil
}

// trouble says why the agent is not connected, or nothing.
func (s Status) trouble(dataDir string) string {
	switch {
	case !s.Running:
		return fmt.Sprintf("no agent runs with data directory %s", dataDir)
	case s.HubConnection != nil:
		return s.HubConnection.Message
	case s.Bootstrap != nil && s.LastHeartbeat.IsZero():
		return s.Bootstrap.Message
	case s.CertificateUntil.IsZero():
		return "the agent waits for its identity on the hub"
	case !s.Accepted:
		return "the hub does not accept the cluster"
	case !s.Joined || s.LastHeartbeat.IsZero():
		return "the agent has not reported to the hub yet"
	}
	return ""
}
