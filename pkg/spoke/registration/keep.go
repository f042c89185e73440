package registration

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
	hubinformers "open-cluster-management.io/api/client/cluster/informers/externalversions/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/agentstate"
	"nave/pkg/uplink"
)

const (
	// betweenChecks is the least time between two looks at whether the hub still knows the identity.
	betweenChecks = 2 * time.Second
	// refusalPause is how long after a refusal it is asked again.
	refusalPause = time.Second
	// leaseLook is how often, at least, the age of the last heartbeat is looked at, with several hubs (spec 2.5).
	leaseLook = time.Minute
)

// Heed returns *Ended when the wish has changed to another identity than the one in use, or nil when ctx ends.
func (c Config) Heed(ctx context.Context, current Credentials) error {
	for {
		wish, changed := c.Wish.Watch()
		if why := outdated(wish, current, c.Clock.Now()); why != "" {
			return &Ended{why}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// outdated says why an identity in use is not the one that is wished for, or nothing. With several hubs, one of them has to
// lead to it.
func outdated(w Wish, current Credentials, now time.Time) string {
	if len(w.Ways) == 0 {
		return outdatedBy(w, nil, current, now)
	}
	why := ""
	for i := range w.Ways {
		if why = outdatedBy(w, &w.Ways[i], current, now); why == "" {
			return ""
		}
	}
	return why
}

func outdatedBy(w Wish, way *Bootstrap, current Credentials, now time.Time) string {
	d := decide(w, way, current, nil, now)
	if d.act != actUse {
		return d.why
	}
	if d.credentials.Server != current.Server {
		return fmt.Sprintf("the hub is to be reached at %s", d.credentials.Server)
	}
	return ""
}

// Attend returns *Ended when the hub does not know the identity any more or has turned the cluster away, or nil when ctx
// ends. It learns that from the cluster's own object, and from refusals of any request, of which it finds the reason.
func (c Config) Attend(ctx context.Context, hub *uplink.Uplink, current Credentials, own hubinformers.ManagedClusterInformer) error {
	look := make(chan struct{}, 1)
	soon := func() {
		select {
		case look <- struct{}{}:
		default: // asked for already
		}
	}
	handler, err := own.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.seen(obj, soon) }, UpdateFunc: func(_, obj any) { c.seen(obj, soon) }, DeleteFunc: func(any) { soon() },
	})
	if err != nil {
		return fmt.Errorf("watch cluster %s: %w", current.Agent.Cluster, err)
	}
	defer func() { _ = own.Informer().RemoveEventHandler(handler) }() // it only fails for handlers of others
	began, pause := c.Clock.Now(), betweenChecks
	for {
		why := ""
		select {
		case <-ctx.Done():
			return nil
		case <-c.Clock.After(c.leaseLook()):
		case <-look:
			pause = betweenChecks
			why = c.disowned(ctx, hub, current)
		case <-hub.Refused():
			why = c.disowned(ctx, hub, current)
			pause = min(2*pause, leaseLook) // something else is forbidden to the agent, it seems
		}
		if why == "" {
			why = c.silent(began)
		}
		if why != "" && ctx.Err() == nil {
			return &Ended{why}
		}
		if err := c.wait(ctx, pause, nil); err != nil {
			return nil
		}
	}
}

// leaseLook is how often the age of the last heartbeat is looked at.
func (c Config) leaseLook() time.Duration {
	if limit := c.Settings.Get().HubTimeout; limit > 0 {
		return min(leaseLook, limit/4)
	}
	return leaseLook
}

// seen takes note of the cluster's own object.
func (c Config) seen(obj any, look func()) {
	mc, ok := obj.(*clusterv1.ManagedCluster)
	if !ok {
		return
	}
	in := letIn(mc)
	c.State.Update(func(s agentstate.State) agentstate.State {
		s.Accepted = in
		s.Joined = meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionJoined)
		return s
	})
	if !in || !mc.Spec.HubAcceptsClient && c.Wish.Get().several() {
		look()
	}
}

// disowned says why the hub has no use for the identity, or nothing. A refusal has to be said twice: hubs and what stands in
// front of them refuse for a moment while they start.
func (c Config) disowned(ctx context.Context, hub *uplink.Uplink, current Credentials) string {
	first := c.refusalOf(ctx, hub, current)
	if first == "" || c.wait(ctx, refusalPause, nil) != nil {
		return ""
	}
	return c.refusalOf(ctx, hub, current)
}

func (c Config) refusalOf(ctx context.Context, hub *uplink.Uplink, current Credentials) string {
	s, err := ask(ctx, hub.Client(c.UserAgent), current.Agent.Cluster)
	switch s {
	case accepted, absent:
		return ""
	case unaccepted:
		return "the hub does not accept the cluster"
	case deleted:
		return "the cluster was deleted on the hub"
	}
	return fmt.Sprintf("the hub refuses it: %v", err)
}

// silent says, with several hubs, that this one has been away for too long, or nothing.
func (c Config) silent(began time.Time) string {
	last := c.State.Get().LastHeartbeat
	if last.Before(began) {
		last = began
	}
	limit := c.Settings.Get().HubTimeout
	if !c.Wish.Get().several() || limit <= 0 || c.Clock.Since(last) < limit {
		return ""
	}
	return fmt.Sprintf("the hub took no heartbeat for %s", limit)
}
