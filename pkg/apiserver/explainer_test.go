package apiserver

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func TestExplainerLetsUsersAsk(t *testing.T) {
	somebody := &user.DefaultInfo{Name: "jane", Groups: []string{user.AllAuthenticated}}
	there := Explainer{Path: "/debug/placements", Handler: http.NotFoundHandler()}
	for _, test := range []struct {
		name      string
		explainer Explainer
		asked     authorizer.AttributesRecord
		want      authorizer.Decision
	}{
		{"somebody", there, authorizer.AttributesRecord{User: somebody, Path: "/debug/placements/n/p"}, authorizer.DecisionAllow},
		{"nobody", there, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}, Path: "/debug/placements/n/p"}, authorizer.DecisionAllow},
		{"nobody, elsewhere", there, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}, Path: "/debug/pprof"}, authorizer.DecisionNoOpinion},
		{"another path", there, authorizer.AttributesRecord{User: somebody, Path: "/debug/placementsecret"}, authorizer.DecisionNoOpinion},
		{"a resource", there, authorizer.AttributesRecord{User: somebody, Path: "/debug/placements/n/p", ResourceRequest: true}, authorizer.DecisionNoOpinion},
		{"nobody explains", Explainer{}, authorizer.AttributesRecord{User: somebody, Path: "/debug/placements/n/p"}, authorizer.DecisionNoOpinion},
	} {
		t.Run(test.name, func(t *testing.T) {
			decision, _, err := test.explainer.authorize(t.Context(), test.asked)
			require.NoError(t, err)
			require.Equal(t, test.want, decision)
		})
	}
}
