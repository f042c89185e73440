package apiserver

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Explainer answers below a path that is no resource. What it shows is about resources, so it asks itself whether the user
// may see that; whoever has logged on may ask it.
type Explainer struct {
	Path    string // without a slash at its end
	Handler http.Handler
}

// authorize lets users through to the handler. Agents were refused before, as they are everywhere outside of their own.
func (e Explainer) authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if e.Handler == nil || a.IsResourceRequest() || a.GetUser() == nil || !strings.HasPrefix(a.GetPath(), e.Path+"/") {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if !slices.Contains(a.GetUser().GetGroups(), user.AllAuthenticated) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	return authorizer.DecisionAllow, "the placement decides", nil
}
