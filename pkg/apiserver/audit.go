package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	auditlog "k8s.io/apiserver/plugin/pkg/audit/log"
	"k8s.io/utils/clock"

	"nave/pkg/token"
)

const (
	// The audit log is kept for auditDays, in auditFiles older files of auditMegabytes each at the most.
	auditMegabytes, auditFiles, auditDays = 20, 5, 90

	// Refusals are what strangers can cause, so refusalsBurst of them are written at once, and one every refusalsEvery after
	// that: nobody can flood what the hub and its people did out of the log. What is not written is counted.
	refusalsBurst, refusalsEvery = 500, 200 * time.Millisecond

	// tokenAnnotation names, on the record of a request, the join token that it came with.
	tokenAnnotation = "nave.dev/join-token"
	// refusalAnnotation tells why a request was refused before it reached Kubernetes' own handlers.
	refusalAnnotation = "nave.dev/refusal"
	// missingAnnotation tells how many refusals before this one were not written.
	missingAnnotation = "nave.dev/refusals-not-written"
)

// auditor writes the audit log: who changed what of importance, who used which token, and what was refused. It never holds
// bodies, so no secret, and nothing of the daily traffic of agents: their heartbeats, reads, watches and status.
type auditor struct {
	audit.Backend
	file  io.Closer
	clock clock.PassiveClock

	mu       sync.Mutex
	refusals *limiters
	missing  int
}

// newAuditor writes to the file at path, which only the hub's user may read. Without a path it is nil: there is no log.
func newAuditor(path string, clock clock.PassiveClock) (*auditor, error) {
	if path == "" {
		return nil, nil
	}
	// It has to be writable now; later nobody would notice.
	probe, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = errors.Join(probe.Chmod(0o600), probe.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("audit log: %w; choose another file with --audit-log", err)
	}
	return auditTo(&lumberjack.Logger{Filename: path, MaxSize: auditMegabytes, MaxBackups: auditFiles, MaxAge: auditDays}, clock), nil
}

func auditTo(w io.WriteCloser, clock clock.PassiveClock) *auditor {
	return &auditor{
		Backend: auditlog.NewBackend(w, auditlog.FormatJson, auditv1.SchemeGroupVersion), file: w, clock: clock,
		refusals: newLimiters(1, refusalsEvery, refusalsBurst, clock),
	}
}

// Shutdown implements audit.Backend.
func (a *auditor) Shutdown() {
	a.Backend.Shutdown()
	_ = a.file.Close() // what was written is written
}

// ProcessEvents implements audit.Sink.
func (a *auditor) ProcessEvents(events ...*auditinternal.Event) bool {
	var noted []*auditinternal.Event
	for _, e := range events {
		if !last(e) || !notable(e) {
			continue
		}
		if isRefusal(e) {
			if e = a.limit(e); e == nil {
				continue
			}
		}
		noted = append(noted, e)
	}
	return len(noted) == 0 || a.Backend.ProcessEvents(noted...)
}

// limit is the record of a refusal as it is to be written, or nil.
func (a *auditor) limit(e *auditinternal.Event) *auditinternal.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.refusals.take(everybody) {
		a.missing++
		return nil
	}
	if a.missing > 0 {
		e = e.DeepCopy() // the original is not ours to change
		if e.Annotations == nil {
			e.Annotations = map[string]string{}
		}
		e.Annotations[missingAnnotation] = strconv.Itoa(a.missing)
		a.missing = 0
	}
	return e
}

// last tells whether a record is the one that tells how its request ended; there is one for each. Those of requests that
// are turned away at the door come with the first stage of the response, all others with its last.
func last(e *auditinternal.Event) bool {
	return e.Stage != auditinternal.StageResponseStarted || codeOf(e) == http.StatusUnauthorized || e.Annotations[refusalAnnotation] != ""
}

// isRefusal tells whether a request was refused for who sent it, or for how much.
func isRefusal(e *auditinternal.Event) bool {
	switch codeOf(e) {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return true
	}
	return false
}

func codeOf(e *auditinternal.Event) int32 {
	if e.ResponseStatus == nil {
		return 0
	}
	return e.ResponseStatus.Code
}

// notable tells whether something belongs into the audit log.
func notable(e *auditinternal.Event) bool {
	switch {
	case isRefusal(e):
		return true
	case e.ImpersonatedUser != nil || e.Annotations[tokenAnnotation] != "":
		return true
	case codeOf(e) >= http.StatusBadRequest, e.ObjectRef == nil, !slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb):
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

// noteToken notes on the record of the request that it is about which token it came with.
func noteToken(ctx context.Context, id string) { audit.AddAuditAnnotation(ctx, tokenAnnotation, id) }
