// Package agentstate is what an agent knows of itself. Its loops report into it, each what is its own; nave agent status
// and the Klusterlet's conditions are made of it.
package agentstate

import "time"

// State is where an agent stands. The zero value is an agent that has just started.
type State struct {
	Hub     string // URL of the hub
	Cluster string // name of the managed cluster on the hub
	Agent   string // name of the agent within the cluster

	// Bootstrap and HubConnection are why the agent cannot ask a hub for an identity, and why it cannot use the one that it
	// has; nil while it can.
	Bootstrap, HubConnection *Fault

	Accepted bool // the hub accepts the cluster, as far as the agent was told
	Joined   bool

	CertificateFrom, CertificateUntil time.Time // of the certificate that is in use
	LastHeartbeat                     time.Time // when the hub took the last one

	// LastError is the last thing that went wrong, and when. It stays when things go well again.
	LastError Fault
}

// Fault is something that is wrong.
type Fault struct {
	Part    string    // loop that met it
	Reason  string    // one word, as in a condition; may be empty
	Message string    // for people
	At      time.Time // when it was met
}

// Reasons of faults, as upstream's Klusterlet has them in its condition HubConnectionDegraded (spec 7.2).
const (
	BootstrapMissing      = "BootstrapSecretMissing"
	BootstrapError        = "BootstrapSecretError"
	BootstrapUnauthorized = "BootstrapSecretUnauthorized"
	NoIdentity            = "HubKubeConfigSecretMissing"
	HubError              = "HubKubeConfigError"
	HubUnauthorized       = "HubKubeConfigUnauthorized"
)
