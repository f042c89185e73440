package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// errEnded is reported for a background function that returned without being asked to and without an error.
var errEnded = errors.New("ended by itself")

// Background adapts a function that blocks until its context ends. The component counts as ready at once. It fails when
// run returns before Stop, with or without an error, or panics; so one broken loop ends the process in order instead of
// killing it. The context that run gets keeps the values of the start's context and ends with Stop. What run returns
// after that is the result of Stop, unless it is the end of the context itself.
func Background(run func(ctx context.Context) error) Component {
	return &background{run: run, failed: make(chan error, 1), done: make(chan struct{})}
}

type background struct {
	run    func(ctx context.Context) error
	cancel context.CancelFunc
	failed chan error
	done   chan struct{} // closed when run has returned
	result error         // what run returned; valid once done is closed
}

func (b *background) Start(ctx context.Context) error {
	ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() { // Stop waits for it
		defer close(b.done)
		err := b.call(ctx)
		switch {
		case ctx.Err() == nil && err == nil:
			b.failed <- errEnded
		case ctx.Err() == nil:
			b.failed <- err
		case !errors.Is(err, context.Canceled):
			b.result = err
		}
	}()
	return nil
}

func (b *background) Stop(ctx context.Context) error {
	b.cancel()
	select {
	case <-b.done:
		return b.result
	case <-ctx.Done():
		return fmt.Errorf("still running: %w", ctx.Err())
	}
}

func (b *background) Failed() <-chan error { return b.failed }

// call turns a panic into an error.
func (b *background) call(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &panicked{value: r, stack: debug.Stack()}
		}
	}()
	return b.run(ctx)
}

// panicked keeps the stack of a panic apart from its text: the group logs it, while the error that a person gets to see
// stays one line.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }
