package settings

import "time"

// Agent are the settings of an agent (spec 2.1).
type Agent struct {
	// Features are the feature gates that are on or off otherwise than by default, by upstream's names (spec 0.2).
	Features Features
	// ClusterLabels and ClusterAnnotations are put on the ManagedCluster when the agent creates it. Of annotations only
	// those with the prefix agent.open-cluster-management.io count.
	ClusterLabels, ClusterAnnotations map[string]string
	// ExternalServerURLs are where clients outside reach the managed cluster's API; https only.
	ExternalServerURLs []ServerURL
	// CertificateLifetime is what the hub is asked to let a certificate live for; zero leaves that to the hub.
	CertificateLifetime time.Duration
	// HealthCheckPeriod is how often the cluster is looked at when nothing happens.
	HealthCheckPeriod time.Duration
	// MaxCustomClaims bounds the claims that are reported besides the reserved ones.
	MaxCustomClaims int
	// ReservedClaimSuffixes are endings of names of claims that are always reported.
	ReservedClaimSuffixes []string
	// AddOnTokens says that add-ons log on at the hub with tokens of service accounts rather than certificates.
	AddOnTokens bool
	// AddOnTokenLifetime is what the hub is asked to let such a token live for.
	AddOnTokenLifetime time.Duration
	// HubTimeout is how long the hub may be away before another one of the bootstrap hubs is tried (gate MultipleHubs).
	HubTimeout time.Duration
	// EvictionGrace is how long what was applied outlives its work's disappearance from the hub.
	EvictionGrace time.Duration
	// StatusSyncInterval is how often, at most, the state of an applied object is reported that changes all the time, unless
	// its work wants it watched.
	StatusSyncInterval time.Duration
	// MaxFeedbackBytes bounds a value that is reported as JSON text (gate RawFeedbackJsonString).
	MaxFeedbackBytes int
}

// ServerURL is an address of the managed cluster's API, with the CA that signs for it as PEM.
type ServerURL struct {
	URL string
	CA  []byte
}

// DefaultAgent are the settings of an agent that nobody set anything of: upstream's defaults.
func DefaultAgent() Agent {
	return Agent{
		HealthCheckPeriod:  time.Minute,
		MaxCustomClaims:    20,
		AddOnTokenLifetime: 365 * 24 * time.Hour,
		HubTimeout:         10 * time.Minute,
		EvictionGrace:      time.Hour,
		StatusSyncInterval: 10 * time.Second,
		MaxFeedbackBytes:   1024,
	}
}
