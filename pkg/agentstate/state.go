// Package agentstate is what an agent knows of itself. Its loops report into it, each what is its own; nave agent status
// and the Klusterlet's conditions are made of it.
package agentstate

import "time"

// State is where an agent stands. The zero value is an agent that has just started.
type State struct {
	Hub     string `json:"hub"`     // URL of the hub
	Cluster string `json:"cluster"` // name of the managed cluster on the hub
	Agent   string `json:"agent"`   // name of the agent within the cluster

	// Bootstrap and HubConnection are why the agent cannot ask a hub for an identity, and why it cannot use the one that it
	// has; nil while it can.
	Bootstrap     *Fault `json:"bootstrap,omitempty"`
	HubConnection *Fault `json:"hubConnection,omitempty"`

	Accepted bool `json:"accepted"` // the hub accepts the cluster, as far as the agent was told
	Joined   bool `json:"joined"`

	// CertificateFrom and CertificateUntil are of the certificate that is in use; LastHeartbeat is when the hub took the
	// last one.
	CertificateFrom  time.Time `json:"certificateFrom,omitzero"`
	CertificateUntil time.Time `json:"certificateUntil,omitzero"`
	LastHeartbeat    time.Time `json:"lastHeartbeat,omitzero"`

	// LastError is the last thing that went wrong, and when. It stays when things go well again.
	LastError Fault `json:"lastError,omitzero"`
}

// Fault is something that is wrong.
type Fault struct {
	Part    string    `json:"part"`             // loop that met it
	Reason  string    `json:"reason,omitempty"` // one word, as in a condition
	Message string    `json:"message"`          // for people
	At      time.Time `json:"at"`               // when it was met
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
