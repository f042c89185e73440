package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOneAtATime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dir")
	release, err := Lock(dir, "nave hub")
	require.NoError(t, err)
	_, err = Lock(dir, "nave hub")
	require.ErrorContains(t, err, fmt.Sprintf("in use by nave hub, pid %d", os.Getpid()))
	require.NoError(t, release())
	release, err = Lock(dir, "nave hub")
	require.NoError(t, err, "the same directory can be taken again")
	require.NoError(t, release())
}

func TestFormat(t *testing.T) {
	for _, test := range []struct{ name, format, want string }{
		{"this one", "1\n", ""},
		{"a newer one", "2\n", "has format 2, this nave knows up to 1"},
		{"something else", "hello", "not a format number"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, formatFile), []byte(test.format), 0o600))
			release, err := Lock(dir, "nave agent")
			if test.want == "" {
				require.NoError(t, err)
				require.NoError(t, release())
				return
			}
			require.ErrorContains(t, err, test.want)
			_, err = Lock(dir, "nave agent")
			require.ErrorContains(t, err, test.want, "a refusal leaves no lock behind")
		})
	}
}

func TestWhereNothingCanBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Lock(filepath.Join(file, "below"), "nave hub")
	require.ErrorContains(t, err, "choose another one with --data-dir")
}
