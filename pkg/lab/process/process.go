// Package process starts children that outlive the process which started them, and finds, watches and ends them later.
// A child is known by its pid together with the moment it started, so a pid that the kernel has given to somebody else
// in the meantime is never signalled. It reads /proc and therefore works on Linux only.
package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// look is how often Wait looks whether a process has gone: often enough that nobody notices, and one small read each.
const look = 20 * time.Millisecond

// Spec says what to run.
type Spec struct {
	Binary string   // absolute path of the executable
	Args   []string // without the name; readable by everyone on the machine, so never a secret
	Dir    string   // working directory
	Log    string   // file that takes stdout and stderr, at its end
	// Without drops the variables with this prefix from the environment which the child inherits: they were meant for
	// the parent.
	Without string
}

// ID names one process for as long as the machine is up.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks between the machine's boot and the start of the process
	Boot  string `json:"boot"`  // the kernel's random id of that boot
}

// Start runs the spec in a session of its own, so that neither the end of the caller nor its terminal's signals reach it.
func Start(s Spec) (ID, error) {
	name := filepath.Base(s.Binary)
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return ID{}, fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	cmd := &exec.Cmd{
		Path:        s.Binary,
		Args:        argv(s),
		Dir:         s.Dir,
		Stdout:      log,
		Stderr:      log,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	for _, v := range cmd.Environ() {
		if s.Without == "" || !strings.HasPrefix(v, s.Without) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	if err := cmd.Start(); err != nil {
		return ID{}, fmt.Errorf("start %s: %w", name, err)
	}
	pid := cmd.Process.Pid
	id, err := identify(pid)
	if err != nil {
		return ID{}, errors.Join(fmt.Errorf("start %s: %w", name, err), cmd.Process.Kill(), cmd.Wait())
	}
	return id, cmd.Process.Release()
}

// argv is the command line as ps shows it: the executable's own name first, whatever path it was started by.
func argv(s Spec) []string { return append([]string{filepath.Base(s.Binary)}, s.Args...) }

// Alive reports whether the process still runs. One that has ended and that only its parent has not taken note of counts
// as gone; if this process is the parent, that is made good.
func (id ID) Alive() bool {
	if id.PID <= 0 {
		return false
	}
	s, err := readStat(id.PID)
	if err != nil || s.start != id.Start || !id.sameBoot() {
		return false
	}
	if s.state == 'Z' || s.state == 'X' {
		// An error means that it is not our child; then its own parent or init takes it.
		_, _ = syscall.Wait4(id.PID, nil, syscall.WNOHANG, nil)
		return false
	}
	return true
}

// Signal sends sig, or does nothing if the process has gone.
func (id ID) Signal(sig os.Signal) error {
	if id.PID <= 0 {
		return nil
	}
	// The handle refers to one process for good, so what is checked after opening it is what gets the signal.
	p, err := os.FindProcess(id.PID)
	if err != nil {
		return fmt.Errorf("process %d: %w", id.PID, err)
	}
	defer p.Release()
	if !id.Alive() {
		return nil
	}
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to process %d: %w", sig, id.PID, err)
	}
	return nil
}

// Wait returns when the process has gone.
func (id ID) Wait(ctx context.Context) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for id.Alive() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the end of process %d: %w", id.PID, context.Cause(ctx))
		}
	}
	return nil
}

// Stop asks the process to end, and after the grace period makes it.
func (id ID) Stop(ctx context.Context, grace time.Duration) error {
	if err := id.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	patience, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if id.Wait(patience) == nil {
		return nil
	}
	if err := id.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	return id.Wait(ctx)
}

// Find looks for a running process with exactly the command line that Start would give it.
func Find(s Spec) (ID, bool, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return ID{}, false, fmt.Errorf("list processes: %w", err)
	}
	want := strings.Join(argv(s), "\x00") + "\x00"
	for _, e := range entries {
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || string(line) != want {
			continue // most entries are no processes, and a process may end while it is looked at
		}
		var pid int
		if _, err := fmt.Sscan(e.Name(), &pid); err != nil || pid == os.Getpid() {
			continue
		}
		id, err := identify(pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return id, err == nil && id.Alive(), err
	}
	return ID{}, false, nil
}
