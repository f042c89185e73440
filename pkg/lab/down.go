package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
)

// stopGrace is how long a part may take to drain before it is killed.
const stopGrace = 20 * time.Second

// Down ends the lab in dir, agents first and the hub last, and removes what the lab made in it. It can be repeated if it
// was interrupted. A folder that is not a lab is refused with ErrNotALab.
func Down(ctx context.Context, dir string, out io.Writer) error {
	l, err := Open(dir)
	if err != nil {
		return err
	}
	unlock, err := lock(l.dir)
	if err != nil {
		return err
	}
	defer unlock()
	// Whoever held the lock may have changed what the lab is made of.
	if l, err = Open(l.dir); err != nil {
		return err
	}
	steps := newProgress(out)
	for _, role := range []Role{RoleAgent, RoleControllerManager, RoleAPIServer, RoleHub} {
		if err := l.stopRole(ctx, role); err != nil {
			return fmt.Errorf("lab in %s: %w", l.dir, err)
		}
		steps.print("%s stopped", role)
	}
	if err := l.remove(); err != nil {
		return fmt.Errorf("lab in %s: %w", l.dir, err)
	}
	steps.print("lab is gone from %s", l.dir)
	return nil
}

func (l *Lab) stopRole(ctx context.Context, role Role) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range l.Parts() {
		if p.Role == role {
			group.Go(func() error { return l.Stop(ctx, p.Name) })
		}
	}
	return group.Wait()
}

// remove takes away what the lab made, and the folder itself if the lab made it and nobody put anything else in.
func (l *Lab) remove() error {
	for _, path := range l.made() {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove: %w", err)
		}
	}
	if !l.state.MadeDir {
		return nil
	}
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	if len(entries) > 0 {
		return nil
	}
	if err := os.Remove(l.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove: %w", err)
	}
	return nil
}
