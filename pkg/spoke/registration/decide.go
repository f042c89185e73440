package registration

import (
	"fmt"
	"time"
)

// Wish is what the agent was told: which cluster it is to be, on which hub.
type Wish struct {
	Cluster string
	// Server is where the hub is reached by an identity that is kept, if it is not where it was got.
	Server string
	// Ways are ways to get an identity, the one that is liked best first. There are several only with several hubs.
	Ways []Bootstrap
	// Unattended says that nobody waits at a terminal for the outcome: the way stands on the cluster.
	Unattended bool
	// OneTime says that the way is a join token, which nobody needs, and may well be gone, once there is an identity.
	OneTime bool
	// Fault says what is wrong with the ways that were given.
	Fault error
}

// several tells whether there are hubs to choose from.
func (w Wish) several() bool { return len(w.Ways) > 1 }

// act is what to do about the identity.
type act int

const (
	// actWait is for somebody to mend what is wrong.
	actWait act = iota
	// actUse goes on with the identity that is kept.
	actUse
	// actMove takes the identity that is kept to another place, where the same hub may be, and joins there if it is not.
	actMove
	// actJoin asks for a new identity.
	actJoin
)

// decision is what to do, and with what.
type decision struct {
	act         act
	credentials Credentials // actUse, actMove
	way         *Bootstrap  // to join with; nil if there is none
	why         string
}

// decide says what to do about the identity, by the wish and by what is kept (spec 2.1). way is the one of the wish's ways
// that was chosen, nil if there is none; missing says why nothing is kept, or nil.
func decide(w Wish, way *Bootstrap, kept Credentials, missing error, now time.Time) decision {
	if way != nil && missing == nil && way.spent(kept) {
		way = nil
	}
	why := unfit(w, kept, missing, now)
	switch {
	case why != nil && way != nil:
		return decision{act: actJoin, way: way, why: why.Error()}
	case why != nil:
		return decision{act: actWait, why: why.Error()}
	case way == nil || leads(*way, kept):
		if w.Server != "" {
			kept.Server = w.Server
		}
		return decision{act: actUse, credentials: kept, way: way}
	case way.Token != nil:
		return decision{act: actJoin, way: way, why: "the token is another hub's than the identity that is kept"}
	case way.Entry != kept.Entry && kept.Token == "":
		return decision{act: actJoin, way: way, why: fmt.Sprintf("the hub is now called %q in the bootstrap kubeconfig", way.Entry)}
	default:
		return decision{act: actMove, credentials: way.place(kept), way: way, why: "address or CA of the hub have changed in the bootstrap kubeconfig"}
	}
}

// unfit says why what is kept cannot be used, or nil.
func unfit(w Wish, kept Credentials, missing error, now time.Time) error {
	if missing != nil {
		return missing
	}
	if err := kept.usable(now); err != nil {
		return err
	}
	if kept.Agent.Cluster != w.Cluster {
		return fmt.Errorf("the identity that is kept is that of cluster %s", kept.Agent.Cluster)
	}
	return nil
}

// leads tells whether a way leads to the hub that an identity is of.
func leads(way Bootstrap, kept Credentials) bool {
	if way.Token != nil {
		return pins(*way.Token, kept.CA)
	}
	if kept.Mark != "" {
		return way.mark() == kept.Mark
	}
	return way.mark() == Bootstrap{Server: kept.Server, ServerName: kept.ServerName, Proxy: kept.Proxy, Entry: kept.Entry, CA: kept.CA}.mark()
}

// place is the identity at the place to which the way leads.
func (b Bootstrap) place(c Credentials) Credentials {
	c.Server, c.ServerName, c.Proxy, c.Entry, c.CA, c.Mark = b.Server, b.ServerName, b.Proxy, b.Entry, b.CA, b.mark()
	if b.Token != nil {
		c.Entry, c.Token = joinEntry, b.Token.ID
	}
	return c
}
