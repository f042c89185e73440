package apiserver

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"nave/pkg/identity"
)

func quiet() logrus.FieldLogger {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	return logger
}

func TestCut(t *testing.T) {
	r := newRunning(quiet())
	one, doneOne := r.enter(context.Background(), "cluster1")
	two, doneTwo := r.enter(context.Background(), "cluster1")
	other, doneOther := r.enter(context.Background(), "cluster10")
	doneOne()
	require.ErrorIs(t, context.Cause(one), context.Canceled, "over by itself")
	r.cut("cluster1")
	require.ErrorContains(t, context.Cause(two), "managed cluster cluster1 was cut off")
	require.NoError(t, other.Err(), "another cluster")
	doneTwo()
	doneOther()
	require.Empty(t, r.requests, "nothing is kept")
	r.cut("cluster1")
}

// TestAgentsOfAHubThatStarts are told to come again: an agent that hears 401 drops its identity.
func TestAgentsOfAHubThatStarts(t *testing.T) {
	view, err := newClusterView(&rest.Config{Host: "https://127.0.0.1:1"})
	require.NoError(t, err)
	agent := identity.Agent{Cluster: "cluster1", Name: "a1"}
	for _, test := range []struct {
		name string
		user user.Info
		want int
	}{
		{"agent", &user.DefaultInfo{Name: agent.User(), Groups: agent.Groups(), UID: "uid"}, http.StatusServiceUnavailable},
		{"somebody else", &user.DefaultInfo{Name: "jane"}, http.StatusOK},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := &agents{clusters: view, running: newRunning(quiet()), next: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
				return &authenticator.Response{User: test.user}, true, nil
			})}
			recorder := httptest.NewRecorder()
			a.Check(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				response, ok, err := a.AuthenticateRequest(r)
				require.NoError(t, err)
				require.True(t, ok)
				require.Equal(t, test.user, response.User, "what was found out is kept")
			}), nil, unaudited()).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/version", nil))
			require.Equal(t, test.want, recorder.Code, recorder.Body)
		})
	}
}
