package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

const (
	// DefaultClusters and DefaultNodes make the smallest lab in which clusters and nodes can differ.
	DefaultClusters = 2
	DefaultNodes    = 2

	// maxClusters is bounded by memory: each takes about 600 MB with its agent.
	maxClusters = 50
)

// Options say which lab to bring up.
type Options struct {
	DataDir  string    // the lab's folder; made if absent, else it must be empty or a lab
	Clusters int       // how many managed clusters there shall be at least; DefaultClusters if 0
	Nodes    int       // simulated nodes of each cluster of a new lab; DefaultNodes if 0
	Binary   string    // absolute path of the binary that every part runs
	Out      io.Writer // takes a line per step
}

// Up brings a lab up, or what is missing of one, and returns when every cluster has joined the hub and is available. If a
// part does not start, the others are left as they are, for their logs and for the next Up or Down.
func Up(ctx context.Context, o Options) (*Lab, error) {
	l, unlock, err := open(o)
	if err != nil {
		return nil, err
	}
	defer unlock()
	steps := newProgress(o.Out)
	// The agents need hub and cluster; hub and clusters need nobody.
	hub := make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(hub)
		return l.step(ctx, steps, HubPart)
	})
	for _, name := range l.Clusters() {
		group.Go(func() error { return l.upCluster(ctx, steps, name, hub) })
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("lab in %s: %w", l.dir, err)
	}
	steps.print("lab is up: %d clusters, kubeconfigs in %s", len(l.Clusters()), l.dir)
	return l, nil
}

func (l *Lab) upCluster(ctx context.Context, steps *progress, name string, hub <-chan struct{}) error {
	if err := l.step(ctx, steps, APIServerPart(name)); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.step(ctx, steps, ControllerManagerPart(name)) })
	group.Go(func() error {
		select {
		case <-hub:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return context.Cause(ctx) // the hub did not come up; it says why
		}
		return l.step(ctx, steps, AgentPart(name))
	})
	return group.Wait()
}

// step brings one part up and says so.
func (l *Lab) step(ctx context.Context, steps *progress, name string) error {
	started, err := l.ensure(ctx, name)
	if err != nil {
		return err
	}
	p, err := l.Part(name)
	if err != nil {
		return err
	}
	verb := "ready"
	if !started {
		verb = "ran already"
	}
	if p.Role == RoleAgent {
		verb += ", cluster joined and available"
	}
	where := ""
	if p.Address != "" {
		where = " on https://" + p.Address
	}
	steps.print("%s %s%s (pid %d)", name, verb, where, p.Process.PID)
	return nil
}

// open makes or opens the lab that the options name and takes note of the parts that it shall have.
func open(o Options) (*Lab, func(), error) {
	if o.Clusters == 0 {
		o.Clusters = DefaultClusters
	}
	if o.Nodes == 0 {
		o.Nodes = DefaultNodes
	}
	if o.Clusters < 1 || o.Clusters > maxClusters {
		return nil, nil, fmt.Errorf("lab with %d clusters: only 1 to %d are possible", o.Clusters, maxClusters)
	}
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		return nil, nil, fmt.Errorf("lab: %w", err)
	}
	made, err := makeDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("lab: %w", err)
	}
	unlock, err := lock(dir)
	if err != nil {
		return nil, nil, err
	}
	l, err := openLocked(dir, made, o)
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return l, unlock, nil
}

// openLocked keeps the state before anything is started, so that Down knows the folder as a lab from the first moment.
func openLocked(dir string, made bool, o Options) (*Lab, error) {
	s, err := loadState(dir)
	if errors.Is(err, ErrNotALab) {
		err = refuseForeign(dir)
		s = state{Version: stateVersion, Nodes: o.Nodes, MadeDir: made}
	}
	if err != nil {
		return nil, err
	}
	s.Binary = o.Binary
	l := &Lab{dir: dir, state: s}
	if err := l.addParts(o.Clusters); err != nil {
		return nil, err
	}
	return l, l.state.save(dir)
}

func makeDir(dir string) (made bool, err error) {
	if _, err := os.Stat(dir); err == nil {
		return false, nil
	}
	return true, os.MkdirAll(dir, 0o700)
}

func refuseForeign(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s: %w, and not empty; choose another folder", dir, ErrNotALab)
	}
	return nil
}

// addParts adds the parts that are missing for a hub and this many clusters. Clusters beyond them stay.
func (l *Lab) addParts(clusters int) error {
	wanted := []Part{{Name: HubPart, Role: RoleHub}}
	for n := range clusters {
		name := ClusterName(n + 1)
		for _, role := range []Role{RoleAPIServer, RoleControllerManager, RoleAgent} {
			wanted = append(wanted, Part{Name: partName(role, name), Role: role, Cluster: name})
		}
	}
	for _, p := range wanted {
		if l.state.index(p.Name) >= 0 {
			continue
		}
		if p.Role == RoleHub || p.Role == RoleAPIServer {
			address, err := freeAddress(l.addresses())
			if err != nil {
				return err
			}
			p.Address = address
		}
		l.state.Parts = append(l.state.Parts, p)
	}
	return nil
}
