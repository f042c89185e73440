package apiserver

import (
	"context"
	"slices"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"nave/pkg/identity"
)

// auditPolicy says which requests the auditor is told about. To be told of a write costs encoding its object once more, so
// the daily traffic of agents is left out: what they write all day, where it is their own. Whatever will be denied is not.
type auditPolicy struct {
	agents authorizer.Authorizer // denies what agents may never do
}

// EvaluatePolicyRule implements audit.PolicyRuleEvaluator. Whether a request was refused is known only at its end, so every
// other request from outside gets that far; of the hub's own only changes of importance are looked at.
func (p auditPolicy) EvaluatePolicyRule(a authorizer.Attributes) audit.RequestAuditConfig {
	config := audit.RequestAuditConfig{
		Level:      auditinternal.LevelMetadata,
		OmitStages: []auditinternal.Stage{auditinternal.StageRequestReceived},
	}
	u := a.GetUser()
	switch {
	case u == nil:
	case u.GetName() == user.APIServerUser:
		if a.IsReadOnly() || daily(a) {
			config.Level = auditinternal.LevelNone
		}
	case daily(a) && p.own(a):
		config.Level = auditinternal.LevelNone
	}
	return config
}

// daily tells whether this is what agents write all day.
func daily(a authorizer.Attributes) bool {
	return a.GetSubresource() == "status" || slices.Contains([]string{"leases", "events", "manifestworks"}, a.GetResource())
}

// own tells whether an agent does what agents may.
func (p auditPolicy) own(a authorizer.Attributes) bool {
	if _, agent := identity.AgentOf(a.GetUser().GetName(), a.GetUser().GetGroups()); !agent {
		return false
	}
	decision, _, err := p.agents.Authorize(context.Background(), a)
	return err == nil && decision != authorizer.DecisionDeny
}
