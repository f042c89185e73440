package scheduling

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	"sigs.k8s.io/yaml"
)

// world is a controller with objects that only it knows: events are handed to it, and what it decides is taken for written.
type world struct {
	*Controller
	t         *testing.T
	informers clusterinformers.SharedInformerFactory
	clock     *testclock.FakeClock
	version   int
	clusters  map[string]*clusterv1.ManagedCluster

	queued map[string]bool
	writes int      // of decisions, since it was last set to 0
	events []string // as "kind reason: message", since it was last set to nil
	until  time.Time
}

// Placement records an event.
func (w *world) Placement(_ *clusterv1beta1.Placement, kind, reason, message string) {
	w.events = append(w.events, kind+" "+reason+": "+message)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	w := &world{
		t: t, informers: clusterinformers.NewSharedInformerFactory((*clusterclient.Clientset)(nil), 0),
		clock: testclock.NewFakeClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)), clusters: map[string]*clusterv1.ManagedCluster{},
		queued: map[string]bool{},
	}
	var err error
	w.Controller, err = New(Config{Log: quiet, ClusterInformers: w.informers, Clock: w.clock, Events: w})
	require.NoError(t, err)
	w.enqueue = func(key string) { w.queued[strings.TrimPrefix(key, "n/")] = true }
	return w
}

func (w *world) next() string {
	w.version++
	return strconv.Itoa(w.version)
}

// set makes a cluster set, with a binding to each of the namespaces.
func (w *world) set(name string, namespaces ...string) {
	set := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(w.t, w.informers.Cluster().V1beta2().ManagedClusterSets().Informer().GetIndexer().Add(set))
	w.setChanged(nil, set)
	for _, namespace := range namespaces {
		binding := &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
		require.NoError(w.t, w.bindings.Add(binding))
		w.bindingChanged(nil, binding)
	}
}

func (w *world) unbind(name, namespace string) {
	binding := &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	require.NoError(w.t, w.bindings.Delete(binding))
	w.bindingChanged(binding, nil)
}

// cluster makes or changes a cluster of set s.
func (w *world) cluster(name string, change ...func(*clusterv1.ManagedCluster)) {
	before := w.clusters[name]
	after := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1beta2.ClusterSetLabel: "s"}}}
	if before != nil {
		after = before.DeepCopy()
	}
	for _, f := range change {
		f(after)
	}
	w.clusters[name] = after
	w.clusterChanged(before, after)
}

func (w *world) gone(name string) {
	w.clusterChanged(w.clusters[name], nil)
	delete(w.clusters, name)
}

func labelled(key, value string) func(*clusterv1.ManagedCluster) {
	return func(mc *clusterv1.ManagedCluster) { mc.Labels[key] = value }
}

func leavingNow(mc *clusterv1.ManagedCluster) {
	mc.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
}

// placement makes or changes a placement of namespace n.
func (w *world) placement(name, spec string) {
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", UID: types.UID(name + w.next()), Generation: 1}}
	var before *clusterv1beta1.Placement
	if t := w.targets["n/"+name]; t != nil && t.object != nil {
		before = t.object
		p = before.DeepCopy()
		p.Generation++
		p.Spec = clusterv1beta1.PlacementSpec{}
	}
	require.NoError(w.t, yaml.UnmarshalStrict([]byte(spec), &p.Spec))
	p.ResourceVersion = w.next()
	w.placementChanged(before, p)
}

// annotate switches scheduling of a placement off or on again.
func (w *world) annotate(name string, off bool) {
	before := w.targets["n/"+name].object
	p := before.DeepCopy()
	p.Annotations = map[string]string{clusterv1beta1.PlacementDisableAnnotation: strconv.FormatBool(off)}
	p.ResourceVersion = w.next()
	w.placementChanged(before, p)
}

// score makes or changes scores that an add-on gives a cluster; with nil they are gone.
func (w *world) score(cluster, name string, status *clusterv1alpha1.AddOnPlacementScoreStatus) {
	w.t.Helper()
	scores := w.informers.Cluster().V1alpha1().AddOnPlacementScores().Informer().GetIndexer()
	var before, after *clusterv1alpha1.AddOnPlacementScore
	if known, ok, err := scores.GetByKey(cluster + "/" + name); ok {
		require.NoError(w.t, err)
		before = known.(*clusterv1alpha1.AddOnPlacementScore)
	}
	switch {
	case status != nil:
		after = &clusterv1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: cluster}, Status: *status}
		require.NoError(w.t, scores.Add(after))
	case before == nil:
		return
	default:
		require.NoError(w.t, scores.Delete(before))
	}
	w.scoreChanged(before, after)
}

// decided evaluates a placement, takes what it decides for written, and gives the clusters by decision.
func (w *world) decided(name string) map[string][]string {
	w.t.Helper()
	t := w.targets["n/"+name]
	o, err := w.decide(t, w.clock.Now())
	require.NoError(w.t, err)
	w.until = o.until
	require.True(w.t, w.take(t, o, func() bool { return false }))
	w.tell(t, o)
	clear(w.queued) // what was taken for written is no news
	all := map[string][]string{}
	for name, d := range t.decisions {
		all[name] = clustersOf(d)
	}
	return all
}

// take makes writes come true unless they fail, one step after the other, and tells whether all did.
func (w *world) take(t *target, o *outcome, fails func() bool) bool {
	ok := true
	for i, step := range [][]*clusterv1beta1.PlacementDecision{o.changes.arrivals, o.changes.departures, o.changes.surplus} {
		for _, d := range step {
			if fails() {
				ok = false
				continue // others of the same step are written all the same
			}
			w.writes++
			if i == 2 {
				w.decisionChanged(d, nil)
				continue
			}
			written := d.DeepCopy()
			written.ResourceVersion = w.next()
			w.decisionChanged(t.decisions[d.Name], written)
		}
		if !ok {
			return false
		}
	}
	if o.status != nil {
		if fails() {
			return false
		}
		p := t.object.DeepCopy()
		p.Status, p.ResourceVersion = *o.status, w.next()
		w.placementChanged(t.object, p)
	}
	return true
}

// says is how a placement is satisfied.
func (w *world) says(name string) string {
	w.t.Helper()
	conditions := w.targets["n/"+name].object.Status.Conditions
	require.Len(w.t, conditions, 2)
	require.Equal(w.t, clusterv1beta1.PlacementConditionMisconfigured, conditions[0].Type)
	return fmt.Sprintf("%s %s: %s", conditions[1].Status, conditions[1].Reason, conditions[1].Message)
}

// due are the placements that are to be evaluated since this was last asked.
func (w *world) due() []string {
	all := slices.Sorted(maps.Keys(w.queued))
	clear(w.queued)
	return all
}
