package scheduling

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// TestEvents: one event about a change of what is selected, whatever its size, and one about scores; a warning if scores that
// were asked for are over (spec 5.3).
func TestEvents(t *testing.T) {
	const byUsage = "prioritizerPolicy: {mode: Exact, configurations: [{weight: 2, scoreCoordinate: {type: AddOn, addOn: {resourceName: usage, scoreName: cpu}}}]}"
	w := newWorld(t)
	w.set("s", "n")
	usage := func(cluster string, value int32, until time.Duration) {
		w.score(cluster, "usage", &clusterv1alpha1.AddOnPlacementScoreStatus{
			Scores: []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "cpu", Value: value}}, ValidUntil: &metav1.Time{Time: w.clock.Now().Add(until)}})
	}
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"nothing is selected", func() { w.placement("p", "{}") }, nil},
		{"some are", func() { w.cluster("a"); w.cluster("b") }, []string{"Normal DecisionUpdate: 2 clusters are selected; new: a, b"}},
		{"the same are", func() { w.placement("p", "numberOfClusters: 2") }, nil},
		{"one instead of another", func() { w.cluster("b", leavingNow); w.cluster("c") },
			[]string{"Normal DecisionUpdate: 2 clusters are selected; new: c; no longer: b"}},
		{"many", func() {
			for i := range 9 {
				w.cluster(fmt.Sprint("d", i))
			}
			w.placement("p", "{}")
		}, []string{"Normal DecisionUpdate: 11 clusters are selected; new: d0, d1, d2, d3, d4 and 4 more"}},
		{"by scores", func() {
			usage("d7", 70, time.Hour)
			usage("d8", 80, time.Hour)
			w.placement("p", "numberOfClusters: 2\n"+byUsage)
		},
			[]string{"Normal DecisionUpdate: 2 clusters are selected; no longer: a, c, d0, d1, d2 and 4 more", "Normal ScoreUpdate: d8:160 d7:140 "}},
		{"one score is over", func() { usage("d8", 80, -time.Second) },
			[]string{"Warning DecisionUpdate: 2 clusters are selected; new: a; no longer: d8; AddOnPlacementScores d8/usage expired", "Normal ScoreUpdate: d7:140 a:0 "}},
	} {
		w.events = nil
		step.do()
		w.decided("p")
		require.Equal(t, step.want, w.events, step.name)
	}
	x, err := w.explain(t.Context(), w.targets["n/p"].object, false)
	require.NoError(t, err)
	require.Equal(t, []string{"AddOnPlacementScores d8/usage expired"}, x.Warnings)

	w.events = nil
	w.placement("q", "numberOfClusters: 1")
	w.decided("q")
	require.Equal(t, []string{"Normal DecisionCreate: 1 clusters are selected; new: c", "Normal ScoreUpdate: c:100 "}, w.events)
}

// transport answers requests as a function does.
type transport func(*http.Request) (any, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := f(r)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(answer)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, err
}

// TestGoneWhileItIsWritten: a decision that is written while its placement goes counts once, and no longer than it is there.
func TestGoneWhileItIsWritten(t *testing.T) {
	w := newWorld(t)
	w.set("s", "n")
	w.cluster("a")
	w.placement("p", "{}")
	var written *clusterv1beta1.PlacementDecision
	clusters, err := clusterclient.NewForConfig(&rest.Config{Host: "hub", Transport: transport(func(r *http.Request) (any, error) {
		if r.Method != http.MethodPost {
			return nil, fmt.Errorf("%s is not expected", r.Method)
		}
		w.placementChanged(w.targets["n/p"].object, nil)
		written = &clusterv1beta1.PlacementDecision{}
		err := json.NewDecoder(r.Body).Decode(written)
		written.ResourceVersion = w.next()
		return written, err
	})})
	require.NoError(t, err)
	w.Controller.Clusters = clusters
	_, err = w.reconcile(t.Context(), "n/p")
	require.ErrorContains(t, err, "placement n/p: ") // its status cannot be written
	require.NotNil(t, written)
	w.decisionChanged(nil, written)
	require.Equal(t, 1, w.fleet.byName["a"].decisions)
	w.decisionChanged(written, nil)
	require.Zero(t, w.fleet.byName["a"].decisions)
	require.Empty(t, w.targets)
}
