package apiserver

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	coreapi "k8s.io/kubernetes/pkg/apis/core"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/identity"
)

func agentUser(cluster string) user.Info {
	a := identity.Agent{Cluster: cluster, Name: "a1"}
	return &user.DefaultInfo{Name: a.User(), Groups: a.Groups()}
}

func written(u user.Info, operation admission.Operation, object runtime.Object) admission.Attributes {
	return admission.NewAttributesRecord(object, nil, schema.GroupVersionKind{}, "c1", "n", schema.GroupVersionResource{Resource: "things"}, "status", operation, nil, false, u)
}

func TestAgentLimits(t *testing.T) {
	conditions := func(n int) []metav1.Condition { return make([]metav1.Condition, n) }
	resources := func(n int) clusterv1.ResourceList {
		list := clusterv1.ResourceList{}
		for i := range n {
			list[clusterv1.ResourceName(fmt.Sprintf("r%d", i))] = resource.Quantity{}
		}
		return list
	}
	for _, test := range []struct {
		name   string
		object runtime.Object
		want   string
	}{
		{"conditions at the limit", &clusterv1.ManagedCluster{Status: clusterv1.ManagedClusterStatus{Conditions: conditions(maxConditions)}}, ""},
		{"conditions", &clusterv1.ManagedCluster{Status: clusterv1.ManagedClusterStatus{Conditions: conditions(maxConditions + 1)}}, "65 conditions, the limit for agents of managed clusters is 64"},
		{"claims", &clusterv1.ManagedCluster{Status: clusterv1.ManagedClusterStatus{ClusterClaims: make([]clusterv1.ManagedClusterClaim, maxClaims+1)}}, "513 claims"},
		{"capacity", &clusterv1.ManagedCluster{Status: clusterv1.ManagedClusterStatus{Capacity: resources(maxResources + 1)}}, "257 resources of capacity"},
		{"conditions of a manifest", &workv1.ManifestWork{Status: workv1.ManifestWorkStatus{ResourceStatus: workv1.ManifestResourceStatus{
			Manifests: []workv1.ManifestCondition{{Conditions: conditions(maxConditions + 1)}}}}}, "65 conditions of one manifest"},
	} {
		t.Run(test.name, func(t *testing.T) {
			limits := newAgentLimits(testingclock.NewFakePassiveClock(time.Now()))
			err := limits.Validate(written(agentUser("c1"), admission.Update, test.object))
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
			require.NoError(t, limits.Validate(written(&user.DefaultInfo{Name: "nave-admin"}, admission.Update, test.object)), "not an agent")
		})
	}
}

func TestAgentEvents(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Now())
	limits := newAgentLimits(clock)
	event := func(cluster string, operation admission.Operation) error {
		return limits.Validate(written(agentUser(cluster), operation, &coreapi.Event{}))
	}
	for range eventsBurst {
		require.NoError(t, event("c1", admission.Create))
	}
	err := event("c1", admission.Create)
	require.True(t, apierrors.IsTooManyRequests(err), "%v", err)
	require.ErrorContains(t, err, "the limit is 200 at once and one every 1s")
	require.NoError(t, event("c1", admission.Update), "counting one up is no new one")
	require.NoError(t, event("c10", admission.Create), "another cluster")
	clock.SetTime(clock.Now().Add(eventsEvery))
	require.NoError(t, event("c1", admission.Create))
}

func TestLimitBody(t *testing.T) {
	join := &user.DefaultInfo{Name: "system:bootstrap:abcdef", Groups: []string{identity.BootstrapGroup}}
	for _, test := range []struct {
		name string
		user user.Info
		size int
		says bool // how long it is
		want string
	}{
		{"an agent's, at the limit", agentUser("c1"), agentBody, true, ""},
		{"an agent's, over it", agentUser("c1"), agentBody + 1, true, "limit for agents of cluster c1 is 2097152"},
		{"an agent's, which does not say", agentUser("c1"), agentBody + 1, false, "too large"},
		{"of who joins", join, joinBody + 1, true, "limit for registering a cluster is 65536"},
		{"an administrator's", &user.DefaultInfo{Name: "nave-admin", Groups: []string{"system:masters"}}, agentBody + 1, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", test.size)))
			if !test.says {
				r.ContentLength = -1
			}
			err := limitBody(httptest.NewRecorder(), r, test.user)
			if err == nil {
				_, err = io.ReadAll(r.Body)
			} else {
				require.True(t, apierrors.IsRequestEntityTooLargeError(err))
			}
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}
