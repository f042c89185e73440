package registration

import (
	"context"
	"errors"
	"fmt"

	"nave/pkg/agentstate"
	"nave/pkg/uplink"
)

// try looks for an identity once.
func (s *search) try(ctx context.Context, w Wish) (Credentials, error) {
	kept, missing := s.Store.load(ctx)
	s.first = errors.Is(missing, errNone) || missing == nil && kept.Agent.Cluster != w.Cluster
	if missing != nil && !s.first {
		return Credentials{}, &trouble{reason: agentstate.HubError, err: missing} // a new one would lose the agent's name
	}
	way, err := s.choose(ctx, w, kept)
	if err != nil && missing != nil {
		return Credentials{}, err
	}
	d := decide(w, way, kept, missing, s.Clock.Now())
	switch d.act {
	case actWait:
		return Credentials{}, missingWay(w, d.why)
	case actJoin:
		return s.join(ctx, *d.way, kept)
	}
	return s.use(ctx, d)
}

// missingWay says what is needed to get an identity.
func missingWay(w Wish, why string) error {
	if w.Fault != nil {
		return &trouble{bootstrap: true, reason: agentstate.BootstrapError, err: w.Fault}
	}
	return &trouble{bootstrap: true, reason: agentstate.BootstrapMissing, err: fmt.Errorf(
		"agent of cluster %s has no identity on a hub: %s; create a token on the hub (nave token create --cluster %s) and give it in NAVE_TOKEN or --token-file, or give a --bootstrap-kubeconfig",
		w.Cluster, why, w.Cluster)}
}

// use goes on with what is kept, if the hub knows it.
func (s *search) use(ctx context.Context, d decision) (Credentials, error) {
	own, err := s.standing(ctx, d.credentials)
	switch judge(own, d.act == actMove, d.way != nil) {
	case goOn:
		if own == accepted {
			return d.credentials, local(s.Store.save(ctx, d.credentials))
		}
		return d.credentials, nil // kept once the hub has shown that it knows it
	case holdOn:
		return Credentials{}, s.turnedAway(d.credentials)
	case joinAnew:
		return s.join(ctx, *d.way, d.credentials)
	case stuck:
		return Credentials{}, s.refused(d.credentials, fmt.Errorf("%w; give a new token (nave token create --cluster %s) or bootstrap kubeconfig", err, d.credentials.Agent.Cluster))
	}
	return s.askOther(ctx, d, own, err)
}

// askOther asks with the bootstrap credential what became of the cluster.
func (s *search) askOther(ctx context.Context, d decision, own standing, refusal error) (Credentials, error) {
	way, err := s.reach(ctx, *d.way)
	if err != nil {
		return Credentials{}, s.refused(d.credentials, errors.Join(refusal, err))
	}
	other, err := ask(ctx, way.rest(s.UserAgent), d.credentials.Agent.Cluster)
	switch judgeOther(own, other) {
	case joinAnew:
		return s.join(ctx, *d.way, d.credentials)
	case holdOn:
		return Credentials{}, s.turnedAway(d.credentials)
	}
	return Credentials{}, unauthorized(fmt.Errorf("%w; %s is no help: %w", refusal, way.Source, explain(err)))
}

// standing asks the hub about the cluster with an identity.
func (s *search) standing(ctx context.Context, c Credentials) (standing, error) {
	up, err := uplink.New(uplink.Config{Target: c.Target(), Clock: s.Clock})
	if err != nil {
		return absent, err
	}
	defer up.Close()
	own, err := ask(ctx, up.Client(s.UserAgent), c.Agent.Cluster)
	return own, explainTLS(c.Server, err)
}

func (s *search) turnedAway(c Credentials) error {
	return s.refused(c, fmt.Errorf("the hub does not accept the cluster; run there: nave cluster accept %s", c.Agent.Cluster))
}

func (s *search) refused(c Credentials, err error) error {
	s.State.Update(func(state agentstate.State) agentstate.State {
		state.Hub, state.Agent, state.Accepted, state.Joined = c.Server, c.Agent.Name, false, false
		return state
	})
	return &trouble{reason: agentstate.HubUnauthorized, err: fmt.Errorf("cluster %s at hub %s: %w", c.Agent.Cluster, c.Server, err)}
}

// choose is the way to go, of those that are wished for; nil if there is none.
func (s *search) choose(ctx context.Context, w Wish, kept Credentials) (*Bootstrap, error) {
	if len(w.Ways) == 0 {
		return nil, nil
	}
	if !w.several() {
		return &w.Ways[0], nil
	}
	ways := likedFirst(w.Ways, kept)
	var errs []error
	for i := range ways {
		way, err := s.reach(ctx, ways[i])
		if err == nil {
			err = open(ctx, way.rest(s.UserAgent), w.Cluster)
		}
		if err == nil {
			return &ways[i], nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", ways[i].Source, err))
	}
	return &ways[0], &trouble{bootstrap: true, reason: agentstate.BootstrapUnauthorized, err: fmt.Errorf("no hub lets cluster %s in: %w", w.Cluster, oneLine(errors.Join(errs...)))}
}
