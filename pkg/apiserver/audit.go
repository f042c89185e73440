package apiserver

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
	"gopkg.in/natefinch/lumberjack.v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	auditlog "k8s.io/apiserver/plugin/pkg/audit/log"

	"nave/pkg/token"
)

const (
	// The audit log is kept for auditDays, in auditFiles files of auditMegabytes each at the most.
	auditMegabytes, auditFiles, auditDays = 20, 5, 90

	// tokenAnnotation names, on the record of a request, the join token that it came with.
	tokenAnnotation = "nave.dev/join-token"
)

// auditor writes the audit log: who changed what of importance, who used which token, and what was refused. It never holds
// bodies, so no secret, and nothing of the daily traffic of agents: their heartbeats, reads, watches and status.
type auditor struct {
	audit.Backend
}

// newAuditor writes to the file at path, which only the hub's user may read.
func newAuditor(path string) *auditor {
	return auditTo(&lumberjack.Logger{Filename: path, MaxSize: auditMegabytes, MaxBackups: auditFiles, MaxAge: auditDays})
}

func auditTo(w io.Writer) *auditor {
	return &auditor{auditlog.NewBackend(w, auditlog.FormatJson, auditv1.SchemeGroupVersion)}
}

// install makes the API server tell it everything it may want to know.
func (a *auditor) install(config *genericapiserver.Config) {
	config.AuditBackend, config.AuditPolicyRuleEvaluator = a, a
}

// EvaluatePolicyRule implements audit.PolicyRuleEvaluator. Whether a request was refused is known only at its end, so
// every request from outside gets that far; of the hub's own only changes of importance are looked at.
func (a *auditor) EvaluatePolicyRule(attributes authorizer.Attributes) audit.RequestAuditConfig {
	config := audit.RequestAuditConfig{
		Level:      auditinternal.LevelMetadata,
		OmitStages: []auditinternal.Stage{auditinternal.StageRequestReceived, auditinternal.StageResponseStarted},
	}
	if u := attributes.GetUser(); u != nil && u.GetName() == user.APIServerUser {
		if attributes.IsReadOnly() || attributes.GetResource() == "leases" || attributes.GetSubresource() == "status" {
			config.Level = auditinternal.LevelNone
		}
	}
	return config
}

// ProcessEvents implements audit.Sink.
func (a *auditor) ProcessEvents(events ...*auditinternal.Event) bool {
	noted := slices.DeleteFunc(slices.Clone(events), func(e *auditinternal.Event) bool { return !notable(e) })
	return len(noted) == 0 || a.Backend.ProcessEvents(noted...)
}

// notable tells whether something belongs into the audit log.
func notable(e *auditinternal.Event) bool {
	code := int32(0)
	if e.ResponseStatus != nil {
		code = e.ResponseStatus.Code
	}
	switch {
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusTooManyRequests:
		return true
	case e.ImpersonatedUser != nil || e.Annotations[tokenAnnotation] != "":
		return true
	case code >= http.StatusBadRequest, e.ObjectRef == nil, !slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb):
		return false
	}
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	decisions := []string{"managedclusters", "certificatesigningrequests", "certificatesigningrequests/approval"}
	if e.User.Username == user.APIServerUser {
		// Of the hub's own: whom it lets in by itself, and which token was used for that. The rest follows from it.
		return slices.Contains(decisions, resource) || resource == "secrets" && strings.HasPrefix(e.ObjectRef.Name, token.SecretName(""))
	}
	return e.ObjectRef.APIGroup == "rbac.authorization.k8s.io" || slices.Contains(append(decisions,
		"secrets", "namespaces", "serviceaccounts/token", "managedclustersetbindings", "clustermanagers", "customresourcedefinitions", "apiservices",
		"mutatingwebhookconfigurations", "validatingwebhookconfigurations", "mutatingadmissionpolicies", "validatingadmissionpolicies"), resource)
}

// refusedToken notes a request that was turned away before the API server's own handlers, which would note it, saw it.
func (a *auditor) refusedToken(r *http.Request, id, why string) {
	now := metav1.NowMicro()
	a.ProcessEvents(&auditinternal.Event{
		Level: auditinternal.LevelMetadata, AuditID: types.UID(uuid.NewString()), Stage: auditinternal.StageResponseComplete,
		RequestURI: r.URL.RequestURI(), Verb: strings.ToLower(r.Method), UserAgent: r.UserAgent(), SourceIPs: []string{sourceOf(r)},
		ResponseStatus:           &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnauthorized, Message: why},
		RequestReceivedTimestamp: now, StageTimestamp: now, Annotations: map[string]string{tokenAnnotation: id},
	})
}

// noteToken notes on the record of the request that it is about which token it came with.
func noteToken(ctx context.Context, id string) { audit.AddAuditAnnotation(ctx, tokenAnnotation, id) }
