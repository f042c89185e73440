package replicaset

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
	"sigs.k8s.io/yaml"

	"nave/pkg/live"
	"nave/pkg/settings"
)

// world is a controller of one set, web of namespace n, that goes by placement p.
type world struct {
	*Controller
	t         *testing.T
	api       *api
	clusters  clusterinformers.SharedInformerFactory
	clock     *testclock.FakeClock
	logged    *logrustest.Hook
	placement *clusterv1beta1.Placement

	queued int           // how often the set was asked to be looked at
	again  time.Duration // when the last step asks for the next
	err    error         // of the last step
}

func newWorld(t *testing.T, strategy string) *world {
	t.Helper()
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	w := &world{
		t: t, api: &api{works: map[string]*workv1.ManifestWork{}}, clusters: clusterinformers.NewSharedInformerFactory((*clusterclient.Clientset)(nil), 0),
		clock: testclock.NewFakeClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)), logged: logrustest.NewLocal(quiet),
	}
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Namespace: "n", UID: "s", Finalizers: []string{workv1alpha1.ManifestWorkReplicaSetFinalizer},
	}}
	set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "p"}}
	require.NoError(t, yaml.UnmarshalStrict([]byte(strategy), &set.Spec.PlacementRefs[0].RolloutStrategy))
	w.api.set = set
	w.restart()
	w.content("one")
	return w
}

// restart makes another controller, which knows what there is and nothing of what there was.
func (w *world) restart() {
	w.t.Helper()
	before := w.clusters.Cluster().V1beta1()
	w.clusters = clusterinformers.NewSharedInformerFactory((*clusterclient.Clientset)(nil), 0)
	var err error
	w.Controller, err = New(Config{
		Log: w.quiet(), Works: w.api, WorkInformers: workinformers.NewSharedInformerFactory((*workclient.Clientset)(nil), 0), ClusterInformers: w.clusters,
		Settings: live.New(settings.Hub{}), Clock: w.clock,
	})
	require.NoError(w.t, err)
	w.enqueue = func(string) { w.queued++ }
	now := w.clusters.Cluster().V1beta1()
	for _, p := range before.Placements().Informer().GetIndexer().List() {
		require.NoError(w.t, now.Placements().Informer().GetIndexer().Add(p))
	}
	for _, d := range before.PlacementDecisions().Informer().GetIndexer().List() {
		require.NoError(w.t, now.PlacementDecisions().Informer().GetIndexer().Add(d))
	}
	w.setChanged(nil, w.api.set)
	for _, work := range w.api.works {
		work = work.DeepCopy()
		trim(work)
		w.workChanged(nil, work)
	}
}

func (w *world) quiet() logrus.FieldLogger {
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	quiet.AddHook(w.logged)
	return quiet
}

// change makes a user change the set.
func (w *world) change(f func(*workv1alpha1.ManifestWorkReplicaSet)) {
	w.api.mu.Lock()
	after := w.api.set.DeepCopy()
	f(after)
	w.api.tell(after)
	w.api.mu.Unlock()
	w.api.deliver(w.Controller)
}

// content changes the template.
func (w *world) content(text string) {
	w.change(func(set *workv1alpha1.ManifestWorkReplicaSet) {
		set.Generation++
		set.Spec.ManifestWorkTemplate.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"data":"` + text + `"}`)}}}
	})
}

// selects makes the placement select clusters. The status may tell of others, as it does for a moment.
func (w *world) selects(told int, clusters ...string) {
	w.t.Helper()
	w.tellsOf(group{"", told})
	w.decides(0, "", clusters...)
}

// group is a decision group, and how many clusters the status says are in it.
type group struct {
	name string
	told int
}

// tellsOf makes the status of the placement tell of groups, each with one decision.
func (w *world) tellsOf(groups ...group) {
	w.t.Helper()
	w.placement = &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "p"}}
	status := &w.placement.Status
	status.Conditions = []metav1.Condition{{Type: clusterv1beta1.PlacementConditionSatisfied}}
	for i, g := range groups {
		status.NumberOfSelectedClusters += int32(g.told)
		status.DecisionGroups = append(status.DecisionGroups, clusterv1beta1.DecisionGroupStatus{
			DecisionGroupIndex: int32(i), DecisionGroupName: g.name, ClustersCount: int32(g.told), Decisions: []string{decisionName(i)},
		})
	}
	require.NoError(w.t, w.clusters.Cluster().V1beta1().Placements().Informer().GetIndexer().Add(w.placement))
}

func decisionName(index int) string { return "p-decision-" + strconv.Itoa(index+1) }

// decides makes the decision of a group known.
func (w *world) decides(index int, name string, clusters ...string) {
	w.t.Helper()
	d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Name: decisionName(index), Namespace: "n", Labels: map[string]string{
		clusterv1beta1.PlacementLabel: "p", clusterv1beta1.DecisionGroupIndexLabel: strconv.Itoa(index), clusterv1beta1.DecisionGroupNameLabel: name,
	}}}
	for _, cluster := range clusters {
		d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: cluster})
	}
	require.NoError(w.t, w.clusters.Cluster().V1beta1().PlacementDecisions().Informer().GetIndexer().Add(d))
}

func (w *world) unplace() {
	require.NoError(w.t, w.clusters.Cluster().V1beta1().Placements().Informer().GetIndexer().Delete(w.placement))
}

// step looks at the set once, and gives the clusters that got the content, and those that lost their work.
func (w *world) step() (written, removed []string) {
	w.t.Helper()
	w.api.log = nil
	w.again, w.err = w.reconcile(w.t.Context(), "n.web")
	for _, line := range w.api.log {
		switch verb, cluster, _ := strings.Cut(line, " "); verb {
		case "create", "content":
			written = append(written, cluster)
		case "delete":
			removed = append(removed, cluster)
		}
	}
	w.api.deliver(w.Controller)
	slices.Sort(written)
	slices.Sort(removed)
	return written, removed
}

// says has an agent report of a cluster's work, at its generation or the one before.
func (w *world) says(cluster string, applied, available metav1.ConditionStatus, generation int64) {
	w.elsewhere(cluster, func(work *workv1.ManifestWork) bool {
		work.Status.Conditions = []metav1.Condition{
			{Type: workv1.WorkApplied, Status: applied, ObservedGeneration: generation}, {Type: workv1.WorkAvailable, Status: available, ObservedGeneration: generation},
		}
		return true
	})
}

// elsewhere has somebody else change the work of a cluster; f gives false to take it away.
func (w *world) elsewhere(cluster string, f func(*workv1.ManifestWork) bool) {
	w.api.elsewhere(cluster, f)
	w.api.deliver(w.Controller)
}

// condition is what is said of the set.
func (w *world) condition(kind string) metav1.Condition {
	w.t.Helper()
	c := meta.FindStatusCondition(w.api.set.Status.Conditions, kind)
	require.NotNil(w.t, c)
	return *c
}

func (w *world) tells(kind string) string   { return w.condition(kind).Reason }
func (w *world) message(kind string) string { return w.condition(kind).Message }

const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
