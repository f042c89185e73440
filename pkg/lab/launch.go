package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"nave/pkg/lab/process"
)

const (
	// startLimit is how long a part may take from its start until it is ready. A part takes seconds on an idle machine;
	// a busy one with many labs side by side is given the time.
	startLimit = 2 * time.Minute

	// readyTick is how often a starting part is asked whether it is ready.
	readyTick = 50 * time.Millisecond

	// tailLines is how much of its log is shown when a part dies: enough for an error with what led to it.
	tailLines = 8

	// addressTries bounds how often a part that found its port taken is started with another one.
	addressTries = 5

	// environmentPrefix marks variables that configure nave. They are meant for the caller; parts get flags.
	environmentPrefix = "NAVE_"
)

// errPortTaken says that a part ended because somebody else listens on its address.
var errPortTaken = errors.New("port is taken")

// ensure brings a part up unless it runs, and reports whether it had to start it.
func (l *Lab) ensure(ctx context.Context, name string) (started bool, err error) {
	p, err := l.Part(name)
	if err != nil {
		return false, err
	}
	running, err := l.find(p)
	if err != nil {
		return false, err
	}
	if running {
		return false, l.awaitReady(ctx, name, 0)
	}
	return true, l.start(ctx, name)
}

// find reports whether the part runs. A part that was started just before the lab's process ended is known by its command
// line only; then find takes note of it.
func (l *Lab) find(p Part) (bool, error) {
	if p.Process.Alive() {
		return true, nil
	}
	if len(p.Args) == 0 {
		return false, nil // never started
	}
	id, found, err := process.Find(l.spec(p))
	if err != nil || !found {
		return false, err
	}
	return true, l.change(p.Name, func(p *Part) { p.Process = id })
}

// start runs a part and waits until it is ready. A part that nobody knows the address of yet moves to another one if its
// port is taken.
func (l *Lab) start(ctx context.Context, name string) error {
	for try := 1; ; try++ {
		err := l.launch(ctx, name)
		p, partErr := l.Part(name)
		if partErr != nil {
			return partErr
		}
		if !errors.Is(err, errPortTaken) || p.Settled || try == addressTries {
			return err
		}
		if err := l.move(name); err != nil {
			return err
		}
	}
}

// launch runs a part on the address that it has.
func (l *Lab) launch(ctx context.Context, name string) error {
	if err := l.prepare(ctx, name); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	if err := l.change(name, func(p *Part) { p.Args, p.Process = l.args(*p), process.ID{} }); err != nil {
		return err
	}
	p, err := l.Part(name)
	if err != nil {
		return err
	}
	logSize, err := sizeOf(l.LogFile(name))
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	id, err := process.Start(l.spec(p))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := l.change(name, func(p *Part) { p.Process = id }); err != nil {
		return err
	}
	return l.awaitReady(ctx, name, logSize)
}

func (l *Lab) spec(p Part) process.Spec {
	l.mu.Lock()
	defer l.mu.Unlock()
	return process.Spec{Binary: l.state.Binary, Args: p.Args, Dir: l.dir, Log: l.LogFile(p.Name), Without: environmentPrefix}
}

// args is the command line of a part. It is readable by everyone on the machine, so it names files, never secrets.
func (l *Lab) args(p Part) []string {
	switch p.Role {
	case RoleHub:
		return []string{"hub", "--data-dir", l.DataDir(p), "--listen", p.Address}
	case RoleAPIServer:
		return []string{VerbKubeAPIServer, "--cluster", p.Cluster, "--data-dir", l.DataDir(p), "--listen", p.Address}
	case RoleControllerManager:
		return []string{VerbKubeControllerManager, "--cluster", p.Cluster, "--data-dir", l.DataDir(p), "--nodes", strconv.Itoa(l.state.Nodes)}
	default:
		i := l.state.index(HubPart)
		return []string{"agent", "--data-dir", l.DataDir(p), "--kubeconfig", l.ClusterKubeconfig(p.Cluster),
			"--server", "https://" + l.state.Parts[i].Address, "--cluster-name", p.Cluster, "--token-file", l.tokenFile(p.Cluster)}
	}
}

// awaitReady waits until the part is ready, and fails with its last words if it ends before.
func (l *Lab) awaitReady(ctx context.Context, name string, logSize int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not ready after %s", startLimit))
	defer cancel()
	p, err := l.Part(name)
	if err != nil {
		return err
	}
	tick := time.NewTicker(readyTick)
	defer tick.Stop()
	var why error
	for {
		now := l.ready(ctx, p)
		if now == nil {
			return l.change(name, func(p *Part) { p.Settled = true })
		}
		if ctx.Err() == nil { // else it says no more than that the time is over
			why = now
		}
		if !p.Process.Alive() {
			return l.died(name, logSize)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("start %s: %w (last: %w); see %s", name, context.Cause(ctx), why, l.LogFile(name))
		}
	}
}

// died tells how a part ended: its name, its log, and the last lines that it wrote since it was started.
func (l *Lab) died(name string, logSize int64) error {
	file := l.LogFile(name)
	lines, err := process.Tail(file, logSize, tailLines)
	if err != nil {
		return fmt.Errorf("%s ended while it started: %w", name, err)
	}
	text := strings.Join(lines, "\n  ")
	cause := errors.New("see " + file)
	if strings.Contains(text, "address already in use") || strings.Contains(text, "port is in use") {
		cause = fmt.Errorf("%w, see %s", errPortTaken, file)
	}
	return fmt.Errorf("%s ended while it started: %w, which ends with\n  %s", name, cause, text)
}

// move gives a part another free address.
func (l *Lab) move(name string) error {
	address, err := freeAddress(l.addresses())
	if err != nil {
		return err
	}
	return l.change(name, func(p *Part) { p.Address = address })
}

func (l *Lab) addresses() []string {
	var all []string
	for _, p := range l.Parts() {
		all = append(all, p.Address)
	}
	return all
}

func sizeOf(file string) (int64, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return 0, err
	}
	info, err := os.Stat(file)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
