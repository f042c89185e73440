package registration

import (
	"context"
	"errors"
	"time"

	"nave/pkg/certrequest"
	"nave/pkg/reconcile"
)

const (
	// firstPause and lastPause bound the back-off after a refusal. The first is short since rights of a cluster that was
	// just accepted are about to be there; at the last one a thousand agents that nobody lets in cost a hub nothing.
	firstPause = 200 * time.Millisecond
	lastPause  = 30 * time.Second
	// absentPause is how soon a hub that does not answer is tried again.
	absentPause = time.Second
	// finalPause is how soon a credential is tried again that the hub has refused for good; another one is tried at once.
	finalPause = 10 * time.Minute
	// deniedPause is how soon a denied request is looked at again. It is gone an hour later, or when somebody removes it.
	deniedPause = time.Minute
)

// pace is how fast something is tried again.
type pace struct{ next time.Duration }

// after is the pause after a try that failed with err, before jitter.
func (p *pace) after(err error) time.Duration {
	var final *JoinError
	var t *trouble
	switch {
	case errors.Is(err, certrequest.ErrDenied):
		return deniedPause
	case errors.As(err, &final) && !errors.As(err, &t):
		return finalPause
	case unreachable(err):
		return absentPause
	}
	if p.next == 0 {
		p.next = firstPause
	}
	d := p.next
	p.next = min(2*p.next, lastPause)
	return d
}

// wait waits for d with jitter. It returns early, without an error, when the channel is closed.
func (c Config) wait(ctx context.Context, d time.Duration, changed <-chan struct{}) error {
	timer := c.Clock.NewTimer(reconcile.Jitter(d))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
		return nil
	case <-timer.C():
		return nil
	}
}
