package lab

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nave/pkg/lab/process"
)

func TestFoldersThatAreRefused(t *testing.T) {
	for name, row := range map[string]struct {
		files   map[string]string
		notALab bool
		says    string
	}{
		"somebody's folder":  {map[string]string{"letter.txt": "dear"}, true, "choose another folder"},
		"another version":    {map[string]string{stateFile: `{"version": 99, "binary": "/bin/other"}`}, false, "use the binary that made it (/bin/other)"},
		"a state cut short":  {map[string]string{stateFile: `{"version":`}, false, "read " + stateFile},
		"a folder of a user": {map[string]string{"hub/data": "x"}, true, "not a lab"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range row.files {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			_, err := Up(t.Context(), Options{DataDir: dir, Binary: "/bin/false"})
			require.ErrorContains(t, err, row.says)
			assert.ErrorContains(t, err, dir)
			err = Down(t.Context(), dir, nil)
			require.Error(t, err)
			_, statusErr := Status(dir)
			require.Error(t, statusErr)
			if row.notALab {
				assert.ErrorIs(t, err, ErrNotALab)
				assert.ErrorIs(t, statusErr, ErrNotALab)
			}
			for file := range row.files {
				assert.FileExists(t, filepath.Join(dir, file))
			}
		})
	}
}

func TestOneCommandAtATime(t *testing.T) {
	dir := t.TempDir()
	_, unlock, err := open(Options{DataDir: dir, Binary: "/bin/false"})
	require.NoError(t, err)
	_, err = Up(t.Context(), Options{DataDir: dir, Binary: "/bin/false"})
	require.ErrorContains(t, err, "another command")
	require.ErrorContains(t, Down(t.Context(), dir, nil), "another command")
	unlock()
	require.NoError(t, Down(t.Context(), dir, nil))
}

func TestDownLeavesWhatOthersPutThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	_, unlock, err := open(Options{DataDir: dir, Binary: "/bin/false"})
	require.NoError(t, err)
	unlock()
	notes := filepath.Join(dir, "notes.txt")
	require.NoError(t, os.WriteFile(notes, nil, 0o600))
	require.NoError(t, Down(t.Context(), dir, nil))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.FileExists(t, notes)
}

func TestMoreClustersAreAdded(t *testing.T) {
	dir := t.TempDir()
	before := []Part{}
	for _, row := range []struct {
		asked int
		want  []string
	}{
		{1, []string{"cluster1"}},
		{3, []string{"cluster1", "cluster2", "cluster3"}},
		{2, []string{"cluster1", "cluster2", "cluster3"}},
	} {
		l, unlock, err := open(Options{DataDir: dir, Clusters: row.asked, Binary: "/bin/false"})
		require.NoError(t, err)
		unlock()
		assert.Equal(t, row.want, l.Clusters())
		assert.Equal(t, before, l.Parts()[:len(before)], "what was there keeps its address")
		before = l.Parts()
	}
	for _, clusters := range []int{-1, maxClusters + 1} {
		_, _, err := open(Options{DataDir: dir, Clusters: clusters, Binary: "/bin/false"})
		assert.ErrorContains(t, err, "only 1 to 50")
	}
}

// TestPartThatDies uses the test binary as a part that ends at once.
func TestPartThatDies(t *testing.T) {
	binary, err := os.Executable()
	require.NoError(t, err)
	for name, row := range map[string]struct {
		words    string
		settled  bool
		launches int
	}{
		"an error":                        {"reading the moon: too dark", false, 1},
		"its port is taken":               {"listen tcp: bind: address already in use", false, addressTries},
		"its port is taken, known to all": {"listen on 127.0.0.1:1: the port is in use by another process", true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(lastWords, row.words)
			l, unlock, err := open(Options{DataDir: t.TempDir(), Clusters: 1, Binary: binary})
			require.NoError(t, err)
			defer unlock()
			part := APIServerPart("cluster1")
			require.NoError(t, l.change(part, func(p *Part) { p.Settled = row.settled }))
			err = l.step(t.Context(), newProgress(nil), part)
			require.ErrorContains(t, err, part+" ended while it started")
			assert.ErrorContains(t, err, l.LogFile(part))
			assert.ErrorContains(t, err, row.words)
			log, err := os.ReadFile(l.LogFile(part))
			require.NoError(t, err)
			assert.Equal(t, row.launches, bytes.Count(log, []byte(row.words)))
		})
	}
}

func TestFreeAddress(t *testing.T) {
	taken := []string{}
	for range 20 {
		address, err := freeAddress(taken)
		require.NoError(t, err)
		require.NotContains(t, taken, address)
		listener, err := net.Listen("tcp", address)
		require.NoError(t, err)
		require.NoError(t, listener.Close())
		taken = append(taken, address)
	}
}

func TestStatus(t *testing.T) {
	dir := t.TempDir()
	l, unlock, err := open(Options{DataDir: dir, Clusters: 1, Binary: "/bin/false"})
	require.NoError(t, err)
	unlock()
	require.NoError(t, l.change(HubPart, func(p *Part) {
		p.Address, p.Args, p.Process = "127.0.0.1:1", []string{"hub"}, process.ID{PID: os.Getpid(), Start: 1}
	}))
	parts, err := Status(dir)
	require.NoError(t, err)
	require.Len(t, parts, 4)
	assert.Equal(t, Stopped, parts[0].State, "this process has the pid, but is not the hub")
	assert.Equal(t, NotStarted, parts[1].State)
	var out bytes.Buffer
	require.NoError(t, WriteStatus(&out, parts))
	assert.Contains(t, out.String(), "https://127.0.0.1:1")
	assert.NotContains(t, out.String(), string(Running))
	require.NoError(t, l.Stop(context.Background(), HubPart), "nothing is ended that is not the lab's")
}

// TestCommandLines keeps secrets off them: files and names only.
func TestCommandLines(t *testing.T) {
	l, unlock, err := open(Options{DataDir: t.TempDir(), Clusters: 1, Nodes: 3, Binary: "/bin/false"})
	require.NoError(t, err)
	defer unlock()
	hub, err := l.Part(HubPart)
	require.NoError(t, err)
	api, err := l.Part(APIServerPart("cluster1"))
	require.NoError(t, err)
	for name, want := range map[string][]string{
		HubPart:                           {"hub", "--data-dir", l.dir + "/hub", "--listen", hub.Address},
		APIServerPart("cluster1"):         {"lab-kube-apiserver", "--cluster", "cluster1", "--data-dir", l.dir + "/cluster1", "--listen", api.Address},
		ControllerManagerPart("cluster1"): {"lab-kube-controller-manager", "--cluster", "cluster1", "--data-dir", l.dir + "/cluster1", "--nodes", "3"},
		AgentPart("cluster1"): {"agent", "--data-dir", l.dir + "/agent-cluster1", "--kubeconfig", l.dir + "/cluster1.kubeconfig",
			"--server", "https://" + hub.Address, "--cluster-name", "cluster1", "--token-file", l.dir + "/cluster1/join-token"},
	} {
		p, err := l.Part(name)
		require.NoError(t, err)
		assert.Equal(t, want, l.args(p))
	}
	_, err = l.Part("nobody")
	assert.ErrorContains(t, err, `no part "nobody"`)
}
