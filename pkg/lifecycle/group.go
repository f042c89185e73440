package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"nave/pkg/log"
)

const (
	// startLimit bounds the start of one component. The slowest is a store that replays a large log on a slow disk;
	// what needs longer than this hangs.
	startLimit = 2 * time.Minute

	// stopLimit bounds the stop of one component. Draining an API server takes up to its longest ordinary request, a
	// minute; a component that is not done soon after will not be.
	stopLimit = 75 * time.Second
)

// Group is the components of one process or one part of it. It is used once: New, Add for each component, Run.
type Group struct {
	log   logrus.FieldLogger
	steps []step
}

type step struct {
	name      string
	component Component
}

// New returns an empty group. It logs the time that each start and stop took, at debug.
func New(logger logrus.FieldLogger) *Group { return &Group{log: logger} }

// Add appends a component, which starts after all that were added before and stops before them. The name appears in
// logs and in errors. Add must not be called once Run has begun.
func (g *Group) Add(name string, c Component) {
	g.steps = append(g.steps, step{name: name, component: c})
}

// Run starts the components in order, waits until ctx ends or a component fails, and stops them in reverse. It returns
// nil after a clean stop that ctx asked for, also in the middle of the start; otherwise the first failure, joined with
// whatever went wrong while stopping. When Run returns, nothing of the group is running.
func (g *Group) Run(ctx context.Context) error {
	running, fail := context.WithCancelCause(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer fail(nil)

	var started []step
	var err error
	for _, s := range g.steps {
		if err = g.start(running, s); err != nil {
			break
		}
		started = append(started, s)
		if f, ok := s.component.(Failer); ok {
			watchers.Go(func() { g.watch(running, s.name, f, fail) })
		}
	}
	if err == nil {
		<-running.Done()
	}
	return errors.Join(verdict(running, err), g.stop(ctx, started))
}

// start starts one component. It does not begin once the group is on its way down.
func (g *Group) start(running context.Context, s step) error {
	if running.Err() != nil {
		return context.Cause(running)
	}
	ctx, cancel := context.WithTimeoutCause(running, startLimit, fmt.Errorf("not ready after %s", startLimit))
	defer cancel()
	began := time.Now()
	err := s.component.Start(ctx)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	g.log.WithField(log.FieldComponent, s.name).WithField(log.FieldElapsed, time.Since(began).Round(time.Millisecond)).Debug("started")
	return nil
}

// stop stops components in reverse. It goes on after an error: those that remain still have to end. The contexts are
// not bound to the one that Run got, which has often ended by now.
func (g *Group) stop(ctx context.Context, started []step) error {
	var errs []error
	for i := len(started) - 1; i >= 0; i-- {
		s := started[i]
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		began := time.Now()
		err := s.component.Stop(bounded)
		cancel()
		entry := g.log.WithField(log.FieldComponent, s.name).WithField(log.FieldElapsed, time.Since(began).Round(time.Millisecond))
		if err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", s.name, err))
			entry = entry.WithError(err)
		}
		entry.Debug("stopped")
	}
	return errors.Join(errs...)
}

// failure is the error of a component that ended by itself. As a type of its own it is never mistaken for the end of the
// context that Run was given, whatever it wraps.
type failure struct {
	name string
	err  error
}

func (f *failure) Error() string { return f.name + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// watch waits for a component to fail and then takes the group down with that error. The first failure wins, since a
// context keeps its first cause.
func (g *Group) watch(running context.Context, name string, f Failer, fail context.CancelCauseFunc) {
	select {
	case err, ok := <-f.Failed():
		if !ok || err == nil {
			return
		}
		if p, ok := errors.AsType[*panicked](err); ok {
			g.log.WithField(log.FieldComponent, name).WithField("stack", string(p.stack)).Error(p)
		}
		fail(&failure{name: name, err: err})
	case <-running.Done():
	}
}

// verdict decides what Run reports. The failure of a running component comes before the failed start that it caused, and
// a start that was cut short because Run's context ended is no failure.
func verdict(running context.Context, startErr error) error {
	if running.Err() == nil {
		return startErr
	}
	cause := context.Cause(running)
	if failed, ok := errors.AsType[*failure](cause); ok {
		return failed
	}
	if errors.Is(startErr, cause) || errors.Is(startErr, running.Err()) {
		return nil
	}
	return startErr
}
