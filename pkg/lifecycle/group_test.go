package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scripted is a component that writes down what happens to it.
type scripted struct {
	name     string
	events   *[]string
	onStart  func(ctx context.Context) error
	startErr error
	stopErr  error
	failed   chan error
}

func (s *scripted) Start(ctx context.Context) error {
	*s.events = append(*s.events, "start "+s.name)
	if s.onStart != nil {
		return s.onStart(ctx)
	}
	return s.startErr
}

func (s *scripted) Stop(ctx context.Context) error {
	*s.events = append(*s.events, "stop "+s.name)
	if ctx.Err() != nil {
		return fmt.Errorf("stop began with an ended context: %w", ctx.Err())
	}
	return s.stopErr
}

func (s *scripted) Failed() <-chan error { return s.failed }

func TestRun(t *testing.T) {
	boom := errors.New("boom")
	allStarted := []string{"start a", "start b", "start c"}
	tests := []struct {
		name   string
		change func(a, b, c *scripted, cancel context.CancelFunc)
		events []string
		err    string // empty: Run returns nil
	}{
		{
			name: "ends when the context ends",
			change: func(_, _, c *scripted, cancel context.CancelFunc) {
				c.onStart = func(context.Context) error { cancel(); return nil }
			},
			events: append(allStarted[:3:3], "stop c", "stop b", "stop a"),
		},
		{
			name:   "undoes what has started when a start fails",
			change: func(_, _, c *scripted, _ context.CancelFunc) { c.startErr = boom },
			events: append(allStarted[:3:3], "stop b", "stop a"),
			err:    "start c: boom",
		},
		{
			name: "stops everything at the first failure",
			change: func(_, b, c *scripted, _ context.CancelFunc) {
				c.onStart = func(context.Context) error { b.failed <- boom; return nil }
			},
			events: append(allStarted[:3:3], "stop c", "stop b", "stop a"),
			err:    "b: boom",
		},
		{
			name: "a failure cuts a start short and is what is reported",
			change: func(a, b, _ *scripted, _ context.CancelFunc) {
				b.onStart = func(ctx context.Context) error {
					a.failed <- boom
					<-ctx.Done()
					return ctx.Err()
				}
			},
			events: []string{"start a", "start b", "stop a"},
			err:    "a: boom",
		},
		{
			name: "the end of the context in the middle of a start is no failure",
			change: func(_, b, _ *scripted, cancel context.CancelFunc) {
				b.onStart = func(ctx context.Context) error {
					cancel()
					return fmt.Errorf("wait for store: %w", ctx.Err())
				}
			},
			events: []string{"start a", "start b", "stop a"},
		},
		{
			name: "a start that failed for its own reason is reported although the context ended",
			change: func(_, b, _ *scripted, cancel context.CancelFunc) {
				b.onStart = func(context.Context) error { cancel(); return boom }
			},
			events: []string{"start a", "start b", "stop a"},
			err:    "start b: boom",
		},
		{
			name: "a failure that wraps a cancelled context is still a failure",
			change: func(_, b, c *scripted, _ context.CancelFunc) {
				c.onStart = func(context.Context) error { b.failed <- fmt.Errorf("watch: %w", context.Canceled); return nil }
			},
			events: append(allStarted[:3:3], "stop c", "stop b", "stop a"),
			err:    "b: watch: context canceled",
		},
		{
			name: "a closed channel is no failure",
			change: func(a, _, c *scripted, cancel context.CancelFunc) {
				close(a.failed)
				c.onStart = func(context.Context) error { cancel(); return nil }
			},
			events: append(allStarted[:3:3], "stop c", "stop b", "stop a"),
		},
		{
			name: "goes on stopping after a failed stop and reports it",
			change: func(_, _, c *scripted, cancel context.CancelFunc) {
				c.stopErr = boom
				c.onStart = func(context.Context) error { cancel(); return nil }
			},
			events: append(allStarted[:3:3], "stop c", "stop b", "stop a"),
			err:    "stop c: boom",
		},
		{
			name: "a start that takes too long is ended and undone",
			change: func(_, b, _ *scripted, _ context.CancelFunc) {
				b.onStart = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
			},
			events: []string{"start a", "start b", "stop a"},
			err:    "start b: not ready after 2m0s: context deadline exceeded",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var events []string
				parts := map[string]*scripted{}
				logger, _ := logrustest.NewNullLogger()
				g := New(logger)
				for _, name := range []string{"a", "b", "c"} {
					parts[name] = &scripted{name: name, events: &events, failed: make(chan error, 1)}
					g.Add(name, parts[name])
				}
				tt.change(parts["a"], parts["b"], parts["c"], cancel)

				err := g.Run(ctx)

				assert.Equal(t, tt.events, events)
				if tt.err == "" {
					assert.NoError(t, err)
				} else {
					assert.EqualError(t, err, tt.err)
				}
			})
		})
	}
}

func TestRunLogsEachStep(t *testing.T) {
	logger, hook := logrustest.NewNullLogger()
	logger.SetLevel(logrus.DebugLevel)
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := func(context.Context) error { cancel(); return nil }
	g := New(logger)
	g.Add("store", &scripted{events: new([]string), onStart: cancelled})

	require.NoError(t, g.Run(ctx))

	var lines []string
	for _, e := range hook.AllEntries() {
		assert.Contains(t, e.Data, "elapsed")
		lines = append(lines, fmt.Sprintf("%s %s %s", e.Level, e.Message, e.Data["component"]))
	}
	assert.Equal(t, []string{"debug started store", "debug stopped store"}, lines)
}

func TestBackground(t *testing.T) {
	untilEnd := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	tests := []struct {
		name string
		run  func(ctx context.Context) error
		stop bool // end the group's context once everything has started
		err  string
	}{
		{name: "runs until stopped", run: untilEnd, stop: true},
		{name: "an error ends the group", run: func(context.Context) error { return errors.New("disk full") }, err: "loop: disk full"},
		{name: "returning early is a failure", run: func(context.Context) error { return nil }, err: "loop: ended by itself"},
		{name: "a panic is a failure", run: func(context.Context) error { panic("nil map") }, err: "loop: panic: nil map"},
		{
			name: "an error while stopping is reported",
			run:  func(ctx context.Context) error { <-ctx.Done(); return errors.New("flush: disk full") },
			stop: true,
			err:  "stop loop: flush: disk full",
		},
		{
			name: "one that does not end is given up",
			run:  func(ctx context.Context) error { <-ctx.Value(endKey{}).(chan struct{}); return nil },
			stop: true,
			err:  "stop loop: still running: context deadline exceeded",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				defer close(end)
				ctx, cancel := context.WithCancel(context.WithValue(t.Context(), endKey{}, end))
				defer cancel()
				logger, _ := logrustest.NewNullLogger()
				g := New(logger)
				g.Add("loop", Background(tt.run))
				if tt.stop {
					g.Add("last", &scripted{events: new([]string), onStart: func(context.Context) error { cancel(); return nil }})
				}

				err := g.Run(ctx)

				if tt.err == "" {
					assert.NoError(t, err)
				} else {
					assert.EqualError(t, err, tt.err)
				}
			})
		})
	}
}

type endKey struct{}

func TestPanicIsLoggedWithItsStack(t *testing.T) {
	logger, hook := logrustest.NewNullLogger()
	g := New(logger)
	g.Add("loop", Background(func(context.Context) error { panic("nil map") }))

	require.Error(t, g.Run(t.Context()))

	require.Len(t, hook.AllEntries(), 1)
	assert.Contains(t, hook.LastEntry().Data["stack"], "TestPanicIsLoggedWithItsStack")
}
