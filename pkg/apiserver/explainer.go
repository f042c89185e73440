package apiserver

import (
	"context"
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Explainer answers below a path that is no resource. What it shows is about resources, so it asks itself whether the user
// may see that. Whoever has not logged on is let through as well, to be told so (401): of "forbidden" nobody would learn that
// the credentials are what is missing.
type Explainer struct {
	Path    string // without a slash at its end
	Handler http.Handler
}

// authorize lets users through to the handler. Agents were refused before, as they are everywhere outside of their own.
func (e Explainer) authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if e.Handler == nil || a.IsResourceRequest() || a.GetUser() == nil || !strings.HasPrefix(a.GetPath(), e.Path+"/") {
		return authorizer.DecisionNoOpinion, "", nil
	}
	return authorizer.DecisionAllow, "the explainer asks who may", nil
}
