// Package registration gives an agent its identity on a hub: by a join token or a bootstrap kubeconfig the first time, from
// what is kept after that, renewed before it ends, and got anew when the hub does not know it any more (spec 2.1 to 2.5).
package registration

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/utils/clock"

	"nave/pkg/agentstate"
	"nave/pkg/live"
	"nave/pkg/log"
	"nave/pkg/settings"
)

const (
	// firstContact is how long an agent that never joined tries to reach its hub before it gives up and says so.
	firstContact = 10 * time.Second
	// patientTries are failed tries of which nobody is told: rights of a cluster that was just accepted come in pieces.
	patientTries = 5

	part = "registration"
)

// Config says who the agent is to be.
type Config struct {
	Wish      *live.Value[Wish]
	UserAgent string
	Store     Store
	Settings  *live.Value[settings.Agent]
	State     *live.Value[agentstate.State]
	// SpokeCA is the managed cluster's own CA as PEM, for clients that are told where its API is.
	SpokeCA []byte
	Clock   clock.WithTicker
	Log     logrus.FieldLogger
}

// trouble is why there is no identity to go on with. Time or somebody may mend it.
type trouble struct {
	bootstrap bool   // rather than of the identity that is kept
	reason    string // of the fault
	err       error
}

func (t *trouble) Error() string { return t.err.Error() }
func (t *trouble) Unwrap() error { return t.err }

// Identity returns the identity that the agent goes on with: the one that is kept if the hub still knows it, otherwise a new
// one, which takes as long as the hub's people take to accept the cluster. Its errors are the end of ctx, and those of a first
// join that cannot succeed, which have an ExitCode; everything else is waited for.
func (c Config) Identity(ctx context.Context) (Credentials, error) {
	search := &search{Config: c, began: c.Clock.Now()}
	for {
		wish, changed := c.Wish.Watch()
		attempt, cancel := until(ctx, changed)
		credentials, err := search.try(attempt, wish)
		cancel()
		if err == nil {
			c.told(wish, credentials)
			return credentials, nil
		}
		if ctx.Err() != nil {
			return Credentials{}, ctx.Err()
		}
		if final := search.final(wish, err); final != nil {
			return Credentials{}, final
		}
		select {
		case <-changed:
			search.pace, search.tries = pace{}, 0
			continue
		default:
		}
		search.tell(err)
		if err := c.wait(ctx, search.pace.after(err), changed); err != nil {
			return Credentials{}, err
		}
	}
}

// until is a context that ends when changed is closed, too.
func until(ctx context.Context, changed <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-changed:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(); watching.Wait() }
}

// told clears what stood in the way of an identity.
func (c Config) told(w Wish, credentials Credentials) {
	c.State.Update(func(s agentstate.State) agentstate.State {
		s.Hub, s.Cluster, s.Agent = credentials.Server, credentials.Agent.Cluster, credentials.Agent.Name
		s.Bootstrap, s.HubConnection = c.bootstrapFault(w), nil
		return s
	})
}

// bootstrapFault is what is wrong with the bootstrap credentials that were given.
func (c Config) bootstrapFault(w Wish) *agentstate.Fault {
	if w.Fault == nil || w.OneTime && c.Store.Holds() {
		return nil
	}
	return &agentstate.Fault{Part: part, Reason: agentstate.BootstrapError, Message: w.Fault.Error(), At: c.Clock.Now()}
}

// search is one search for an identity, of many tries.
type search struct {
	Config
	began time.Time
	first bool // there was no identity of the cluster before
	tries int
	pace  pace
	last  string // what was told last
	asked string // hub of which it was told that the cluster has to be accepted there
}

// final is the error that ends the process, or nil: the first join of an agent that somebody has just started can tell them
// what is wrong, and systemd tries again.
func (s *search) final(w Wish, err error) error {
	var refused *JoinError
	switch {
	case !s.first || w.Unattended:
		return nil
	case errors.As(err, &refused):
		return err
	case len(w.Ways) == 0:
		return err
	case unreachable(err) && s.asked == "" && s.Clock.Since(s.began) > firstContact:
		return refusal(exitUnreachable, "%w; check --server and that the hub runs", err)
	}
	return nil
}

// tell says what stands in the way, once.
func (s *search) tell(err error) {
	s.tries++
	t := &trouble{reason: agentstate.HubError, err: err}
	errors.As(err, &t)
	now := s.Clock.Now()
	s.State.Update(func(state agentstate.State) agentstate.State {
		fault := &agentstate.Fault{Part: part, Reason: t.reason, Message: err.Error(), At: now}
		if t.bootstrap {
			state.Bootstrap = keepTime(state.Bootstrap, fault)
			if s.first {
				state.HubConnection = keepTime(state.HubConnection, &agentstate.Fault{Part: part, Reason: agentstate.NoIdentity, Message: "the agent has no identity on a hub yet", At: now})
			}
		} else {
			state.HubConnection = keepTime(state.HubConnection, fault)
		}
		state.LastError = *keepTime(&state.LastError, fault)
		return state
	})
	kind := kindOf(err)
	if kind == s.last || t.reason == agentstate.HubUnauthorized && s.tries < patientTries {
		return
	}
	s.last = kind
	s.Log.WithField(log.FieldCluster, s.Wish.Get().Cluster).WithError(err).Warn("the agent has no use of a hub now; it tries again by itself")
}

// keepTime is after, met when before was if they are the same.
func keepTime(before, after *agentstate.Fault) *agentstate.Fault {
	if before != nil && before.Part == after.Part && before.Reason == after.Reason && before.Message == after.Message {
		return before
	}
	return after
}
