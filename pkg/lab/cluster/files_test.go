package cluster

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
)

func TestPrepare(t *testing.T) {
	dir := t.TempDir()
	now := time.Unix(1_800_000_000, 0)
	read := func() map[string]string {
		files := map[string]string{}
		require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			require.NoError(t, err)
			if e.IsDir() {
				return nil
			}
			info, err := e.Info()
			require.NoError(t, err)
			assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), path)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			files[path] = string(text)
			return nil
		}))
		return files
	}
	text, err := Prepare("c1", dir, "127.0.0.1:1", now)
	require.NoError(t, err)
	before := read()

	t.Run("what the cluster publishes has no key", func(t *testing.T) {
		assert.Contains(t, before[folder(dir).authorityCert()], "CERTIFICATE")
		assert.NotContains(t, before[folder(dir).authorityCert()], "KEY")
	})
	t.Run("the kubeconfig is an administrator's", func(t *testing.T) {
		assert.Equal(t, string(text), before[Kubeconfig(dir)])
		config, err := clientcmd.RESTConfigFromKubeConfig(text)
		require.NoError(t, err)
		assert.Equal(t, "https://127.0.0.1:1", config.Host)
		assert.NotEmpty(t, config.KeyData)
	})
	t.Run("again, elsewhere: only the address changes", func(t *testing.T) {
		_, err := Prepare("c1", dir, "127.0.0.1:2", now.Add(time.Hour))
		require.NoError(t, err)
		after := read()
		assert.Equal(t, strings.ReplaceAll(before[Kubeconfig(dir)], "127.0.0.1:1\n", "127.0.0.1:2\n"), after[Kubeconfig(dir)])
		delete(before, Kubeconfig(dir))
		delete(after, Kubeconfig(dir))
		assert.Equal(t, before, after)
	})
	t.Run("after a crash that lost files", func(t *testing.T) {
		for path := range before {
			if path != folder(dir).authority() {
				require.NoError(t, os.Remove(path))
			}
		}
		_, err := Prepare("c1", dir, "127.0.0.1:2", now)
		require.NoError(t, err)
		assert.Equal(t, before[folder(dir).authorityCert()], read()[folder(dir).authorityCert()], "never a second CA")
	})
	t.Run("a folder that cannot be made", func(t *testing.T) {
		_, err := Prepare("c1", Kubeconfig(dir), "127.0.0.1:2", now)
		assert.ErrorContains(t, err, "prepare c1: ")
	})
}
