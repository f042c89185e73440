// Package settings are what can be set while a hub or an agent runs. Flags and the configuration file give them at the
// start; the ClusterManager object on the hub, and the Klusterlet object on a managed cluster, may change them after that
// (spec section 7). Loops read them through a live.Value and never know who set them.
package settings

import "time"

// Hub are the settings of a hub.
type Hub struct {
	// Features are the feature gates that are on or off otherwise than by default, by upstream's names (spec 0.2).
	Features Features
	// AutoApprovedUsers are users on whose requests clusters are accepted, and their certificates approved, without a
	// person. They count while the gate ManagedClusterAutoApproval is on.
	AutoApprovedUsers []string
	// Labels are put on every object that is made for a cluster, besides those that say whose it is.
	Labels map[string]string
	// RemovalTimeout is how long a cluster that is being removed waits for an agent that does not answer. After it the
	// cluster is let go, and what its works applied stays where it is. Zero is for ever.
	RemovalTimeout time.Duration
}
