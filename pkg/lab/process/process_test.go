package process

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shell starts a script, waits until it has written its first line, and ends it with the test.
func shell(t *testing.T, script string) (Spec, ID) {
	t.Helper()
	binary, err := exec.LookPath("sh")
	require.NoError(t, err)
	s := Spec{Binary: binary, Args: []string{"-c", script, t.TempDir()}, Dir: t.TempDir(), Log: filepath.Join(t.TempDir(), "log"), Without: "NAVE_"}
	id, err := Start(s)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = syscall.Kill(-id.PID, syscall.SIGKILL) // with what the shell has started; it may all be gone
		assert.NoError(t, id.Wait(context.Background()))
	})
	require.Eventually(t, func() bool {
		lines, err := Tail(s.Log, 0, 1)
		return err == nil && len(lines) > 0
	}, time.Minute, time.Millisecond)
	return s, id
}

func TestStop(t *testing.T) {
	for name, row := range map[string]struct {
		script string
		grace  time.Duration
	}{
		"one that obeys":      {"echo started; exec sleep 3600", time.Minute},
		"one that is deaf":    {`trap "" TERM; echo started; sleep 3600`, time.Millisecond},
		"one that ended":      {"echo started", time.Minute},
		"one that left words": {"echo started; echo more >&2; exec sleep 3600", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			_, id := shell(t, row.script)
			require.NoError(t, id.Stop(t.Context(), row.grace))
			assert.False(t, id.Alive())
			assert.NoError(t, id.Signal(syscall.SIGTERM), "gone is not an error")
		})
	}
}

func TestAnotherProcessWithThePidIsLeftAlone(t *testing.T) {
	_, id := shell(t, "echo started; exec sleep 3600")
	for name, other := range map[string]ID{
		"started at another time": {PID: id.PID, Start: id.Start + 1, Boot: id.Boot},
		"started at another boot": {PID: id.PID, Start: id.Start, Boot: "another"},
		"never started":           {},
	} {
		t.Run(name, func(t *testing.T) {
			assert.False(t, other.Alive())
			require.NoError(t, other.Signal(syscall.SIGKILL))
			require.NoError(t, other.Stop(t.Context(), time.Minute))
			assert.True(t, id.Alive())
		})
	}
}

func TestFind(t *testing.T) {
	spec, id := shell(t, "echo started; sleep 3600; :")
	found, ok, err := Find(spec)
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, id, found)

	other := spec
	other.Args = append([]string{}, spec.Args...)
	other.Args[2] += "0"
	_, ok, err = Find(other)
	require.NoError(t, err)
	assert.False(t, ok, "the same program with another folder is another part")
}

func TestStartGivesADetachedChild(t *testing.T) {
	t.Setenv("NAVE_TOKEN", "secret")
	t.Setenv("LAB_TEST", "kept")
	spec, id := shell(t, `echo "token=$NAVE_TOKEN test=$LAB_TEST"; exec sleep 3600`)
	lines, err := Tail(spec.Log, 0, 1)
	require.NoError(t, err)
	assert.Equal(t, []string{"token= test=kept"}, lines)
	session, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(id.PID), 0, 0)
	require.Zero(t, errno)
	assert.Equal(t, id.PID, int(session), "it leads a session of its own")
}

func TestTail(t *testing.T) {
	for name, row := range map[string]struct {
		text string
		from int64
		want []string
	}{
		"fewer lines than asked": {"a\nb\n", 0, []string{"a", "b"}},
		"more lines than asked":  {"a\nb\nc\nd\n", 0, []string{"b", "c", "d"}},
		"blank lines":            {"a\n\n  \nb", 0, []string{"a", "b"}},
		"behind an offset":       {"old\nnew\n", 4, []string{"new"}},
		"nothing new":            {"old\n", 4, nil},
		"shorter than the start": {"old\n", 40, nil},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "log")
			require.NoError(t, os.WriteFile(file, []byte(row.text), 0o600))
			got, err := Tail(file, row.from, 3)
			require.NoError(t, err)
			assert.Equal(t, row.want, got)
		})
	}
	_, err := Tail(filepath.Join(t.TempDir(), "none"), 0, 3)
	assert.ErrorIs(t, err, os.ErrNotExist)
}
