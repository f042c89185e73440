package apiserver

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/audit"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// refuse answers a request with an error, outside of Kubernetes' chain of handlers.
type refuse func(w http.ResponseWriter, r *http.Request, err error)

type refusalKey struct{}

// refusing is a refuse whose requests are in the audit log, like those that Kubernetes refuses by itself.
func refusing(c *genericapiserver.Config) refuse {
	var answer http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err, _ := r.Context().Value(refusalKey{}).(error)
		audit.AddAuditAnnotation(r.Context(), refusalAnnotation, err.Error())
		if id, _, ok := bearer(r); ok {
			noteToken(r.Context(), id)
		}
		responsewriters.ErrorNegotiated(err, legacyscheme.Codecs, metav1.SchemeGroupVersion, w, r)
	})
	answer = genericapifilters.WithFailedAuthenticationAudit(answer, c.AuditBackend, c.AuditPolicyRuleEvaluator)
	answer = genericapifilters.WithRequestInfo(answer, c.RequestInfoResolver)
	answer = genericapifilters.WithRequestReceivedTimestamp(answer)
	answer = genericapifilters.WithAuditInit(answer)
	return func(w http.ResponseWriter, r *http.Request, err error) {
		answer.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), refusalKey{}, err)))
	}
}
