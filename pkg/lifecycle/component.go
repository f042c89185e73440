package lifecycle

import "context"

// Component is one part of a process with a start and a stop. The group calls Start at most once, and Stop exactly once
// after a Start that succeeded, never at the same time.
type Component interface {
	// Start returns when the component is ready for those that start after it. The context bounds the start only: what
	// the component goes on doing must not end with it. On an error the component leaves nothing behind, since Stop is
	// not called.
	Start(ctx context.Context) error

	// Stop drains, ends what Start began, and waits for it. When the context ends first, Stop gives up waiting and
	// returns an error that says what is still running.
	Stop(ctx context.Context) error
}

// Failer is a Component that may end by itself. The first error received from any of them stops the group. The channel
// stays the same for the component's whole life; closing it says that no error will come.
type Failer interface {
	Failed() <-chan error
}
