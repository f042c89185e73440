package lab

import (
	"context"
	"fmt"
	"syscall"
)

// Start runs a part that does not run, with the command line of its last start, and returns when it is ready.
func (l *Lab) Start(ctx context.Context, part string) error {
	_, err := l.ensure(ctx, part)
	return err
}

// Stop asks a part to end, kills it if it does not within its grace, and returns when it has gone.
func (l *Lab) Stop(ctx context.Context, part string) error {
	return l.end(part, func(p Part) error { return p.Process.Stop(ctx, stopGrace) })
}

// Kill ends a part as a crash would, and returns when it has gone.
func (l *Lab) Kill(ctx context.Context, part string) error {
	return l.end(part, func(p Part) error {
		if err := p.Process.Signal(syscall.SIGKILL); err != nil {
			return err
		}
		return p.Process.Wait(ctx)
	})
}

// Restart stops a part and starts it again.
func (l *Lab) Restart(ctx context.Context, part string) error {
	if err := l.Stop(ctx, part); err != nil {
		return err
	}
	return l.Start(ctx, part)
}

func (l *Lab) end(name string, by func(Part) error) error {
	p, err := l.Part(name)
	if err != nil {
		return err
	}
	running, err := l.find(p)
	if err != nil || !running {
		return err
	}
	if p, err = l.Part(name); err != nil { // find may have learned the pid
		return err
	}
	if err := by(p); err != nil {
		return fmt.Errorf("end %s: %w", name, err)
	}
	return nil
}
