package replicaset

import (
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
	"nave/pkg/replicas"
	"nave/pkg/settings"
)

// world is a controller with objects that only it knows. What it plans is taken for written.
type world struct {
	*Controller
	t         *testing.T
	clusters  clusterinformers.SharedInformerFactory
	clock     *testclock.FakeClock
	version   int
	set       *workv1alpha1.ManifestWorkReplicaSet
	placement *clusterv1beta1.Placement
}

func newWorld(t *testing.T, strategy string) *world {
	t.Helper()
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	w := &world{
		t: t, clusters: clusterinformers.NewSharedInformerFactory((*clusterclient.Clientset)(nil), 0),
		clock: testclock.NewFakeClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)),
	}
	var err error
	w.Controller, err = New(Config{
		Log: quiet, WorkInformers: workinformers.NewSharedInformerFactory((*workclient.Clientset)(nil), 0), ClusterInformers: w.clusters,
		Settings: live.New(settings.Hub{}), Clock: w.clock,
	})
	require.NoError(t, err)
	w.enqueue = func(string) {}
	w.set = &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "n", UID: "s"}}
	w.set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "p"}}
	require.NoError(t, yaml.UnmarshalStrict([]byte(strategy), &w.set.Spec.PlacementRefs[0].RolloutStrategy))
	w.content("one")
	return w
}

func (w *world) next() string {
	w.version++
	return strconv.Itoa(w.version)
}

// content changes the template.
func (w *world) content(text string) {
	w.set = w.set.DeepCopy()
	w.set.Generation++
	w.set.ResourceVersion = w.next()
	w.set.Spec.ManifestWorkTemplate.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"data":"` + text + `"}`)}}}
	w.setChanged(nil, w.set)
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

func (w *world) work(cluster string) *workv1.ManifestWork {
	for _, r := range w.states["n.web"].works {
		if r.Namespace == cluster {
			return r.ManifestWork
		}
	}
	return nil
}

// step does what is planned and gives the clusters that got the content, and those that lost their work.
func (w *world) step() (written, removed []string) {
	w.t.Helper()
	s := w.states["n.web"]
	p, err := w.plan(s, w.clock.Now())
	require.NoError(w.t, err)
	for _, write := range p.writes {
		work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: replicas.WorkName(w.set, "p", 0), Namespace: write.cluster, UID: types.UID(write.cluster)}}
		if write.there != nil {
			work = write.there.DeepCopy()
		}
		work.Labels = labelsOf(w.set, "p")
		work.Annotations = map[string]string{replicas.WrittenAnnotation: w.stamp(), replicas.LabelsAnnotation: namesOf(work.Labels)}
		work.Spec = w.set.Spec.ManifestWorkTemplate
		if write.content {
			work.Generation++
			written = append(written, write.cluster)
		}
		work.ResourceVersion = w.next()
		s.wrote(work, p.content)
	}
	for _, r := range p.removes {
		removed = append(removed, r.Namespace)
		w.workChanged(r.ManifestWork, nil)
	}
	return written, removed
}

// says has an agent report of a cluster's work, at its generation or the one before.
func (w *world) says(cluster string, applied, available metav1.ConditionStatus, generation int64) {
	work := w.work(cluster).DeepCopy()
	work.ResourceVersion = w.next()
	work.Status.Conditions = []metav1.Condition{
		{Type: workv1.WorkApplied, Status: applied, ObservedGeneration: generation}, {Type: workv1.WorkAvailable, Status: available, ObservedGeneration: generation},
	}
	w.workChanged(w.work(cluster), work)
}

// condition is what is said of the set.
func (w *world) condition(kind string) metav1.Condition {
	w.t.Helper()
	status, err := w.statusOf(w.states["n.web"], w.clock.Now())
	require.NoError(w.t, err)
	c := meta.FindStatusCondition(status.Conditions, kind)
	require.NotNil(w.t, c)
	return *c
}

func (w *world) tells(kind string) string   { return w.condition(kind).Reason }
func (w *world) message(kind string) string { return w.condition(kind).Message }

const yes, no = metav1.ConditionTrue, metav1.ConditionFalse

func TestProgressIsOfTheNewGenerationOnly(t *testing.T) {
	w := newWorld(t, "{type: Progressive, progressive: {maxConcurrency: 1, minSuccessTime: 20s}}")
	w.selects(2, "a", "b")
	written, _ := w.step()
	require.Equal(t, []string{"a"}, written)
	w.says("a", yes, yes, 1)
	written, _ = w.step()
	require.Empty(t, written, "it has just succeeded")
	w.clock.Step(21 * time.Second)
	written, _ = w.step()
	require.Equal(t, []string{"b"}, written)
	w.says("b", yes, yes, 1)
	w.step()
	w.clock.Step(21 * time.Second)
	require.Equal(t, "Complete", w.tells("PlacementRolledOut"))

	w.content("two")
	require.Equal(t, "Progressing", w.tells("PlacementRolledOut"))
	written, _ = w.step()
	require.Equal(t, []string{"a"}, written)
	w.clock.Step(time.Hour)
	written, _ = w.step()
	require.Empty(t, written, "what was said of the old content does not count")
	w.says("a", yes, yes, 2)
	written, _ = w.step()
	require.Empty(t, written, "it succeeds since now, though its conditions are as old as the work")
	p, err := w.plan(w.states["n.web"], w.clock.Now())
	require.NoError(t, err)
	require.Equal(t, w.clock.Now().Add(20*time.Second), p.next, "time alone goes on")
	w.clock.Step(20 * time.Second)
	written, _ = w.step()
	require.Equal(t, []string{"b"}, written)
}

func TestNothingBeginsBeforeAllDecisionsAreThere(t *testing.T) {
	w := newWorld(t, "{type: Progressive, progressive: {mandatoryDecisionGroups: [{groupName: canary}]}}")
	w.tellsOf()
	w.decides(1, "", "b", "c")
	written, _ := w.step()
	require.Empty(t, written, "the canaries are not known yet")
	w.decides(0, "canary", "a")
	written, _ = w.step()
	require.Empty(t, written, "the status does not tell of them yet")
	require.Contains(t, w.message("PlacementRolledOut"), "not all decisions of it are known")
	w.tellsOf(group{"canary", 1}, group{"", 2})
	written, _ = w.step()
	require.Equal(t, []string{"a"}, written)
}

func TestFailuresStopARollout(t *testing.T) {
	w := newWorld(t, "{type: Progressive, progressive: {maxConcurrency: 1, maxFailures: 0}}")
	w.selects(3, "a", "b", "c")
	w.step()
	w.says("a", no, yes, 1)
	written, _ := w.step()
	require.Empty(t, written)
	require.Equal(t, "Progressing", w.tells("PlacementRolledOut"))
	w.content("back")
	written, _ = w.step()
	require.Equal(t, []string{"a"}, written)
	w.says("a", yes, yes, 2)
	written, _ = w.step()
	require.Equal(t, []string{"b"}, written)
}

func TestWhatIsNotSelectedGoes(t *testing.T) {
	w := newWorld(t, "{type: All}")
	w.selects(3, "a", "b", "c")
	written, _ := w.step()
	require.Equal(t, []string{"a", "b", "c"}, written)
	w.set.Annotations = map[string]string{"nave.dev/rollout-paused": "true"}
	w.content("two")
	written, removed := w.step()
	require.Empty(t, written, "held")
	require.Empty(t, removed)
	require.Equal(t, "Paused", w.tells("PlacementRolledOut"))

	w.selects(3, "a", "b")
	_, removed = w.step()
	require.Empty(t, removed, "the status tells of three")
	w.selects(2, "a", "b")
	_, removed = w.step()
	require.Equal(t, []string{"c"}, removed, "with old content, and held")

	w.unplace()
	_, removed = w.step()
	require.Empty(t, removed)
	require.Equal(t, "PlacementDecisionNotFound", w.tells("PlacementVerified"))
	require.NotNil(t, w.work("a"))

	w.set = w.set.DeepCopy()
	w.set.Spec.PlacementRefs[0].Name = "q"
	w.content("three")
	_, removed = w.step()
	require.ElementsMatch(t, []string{"a", "b"}, removed, "of a placement that the set does not name any more")
}

func TestLabelsFollow(t *testing.T) {
	w := newWorld(t, "{type: All}")
	w.set.Labels = map[string]string{"team": "blue", "old": "x"}
	w.content("one")
	w.selects(1, "a")
	w.step()
	w.set = w.set.DeepCopy()
	w.set.Labels = map[string]string{"team": "red"}
	w.content("one")
	p, err := w.plan(w.states["n.web"], w.clock.Now())
	require.NoError(t, err)
	require.Len(t, p.writes, 1)
	require.False(t, p.writes[0].content)
	there := p.writes[0].there.DeepCopy()
	there.Labels["theirs"] = "y"
	require.Equal(t, map[string]string{"team": "red", "theirs": "y", replicas.SetLabel: "n.web", replicas.PlacementLabel: "p"}, relabelled(there, labelsOf(w.set, "p")))
}
