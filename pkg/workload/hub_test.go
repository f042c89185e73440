package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/hub"
	"nave/pkg/workspec"
	"nave/test/hubtest"
)

const (
	// patience is how long a slow machine may take for one step.
	patience = time.Minute
	// impatience is how long the tests wait for an agent that is not there.
	impatience = 300 * time.Millisecond
)

var shared = sync.OnceValues(func() (*hubtest.Hub, error) { return hubtest.Start(hub.Config{}) })

var used bool

func TestMain(m *testing.M) {
	code := m.Run()
	if used {
		if h, err := shared(); err == nil && h.Stop() != nil {
			code = 1
		}
	}
	os.Exit(code)
}

// bench is a namespace of a real hub that stands for a cluster.
type bench struct {
	t       *testing.T
	hub     workclient.Interface
	cluster string
	told    []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	used = true
	h, err := shared()
	require.NoError(t, err)
	return benchOf(t, h, strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())))
}

func benchOf(t *testing.T, h *hubtest.Hub, cluster string) *bench {
	t.Helper()
	kube, err := kubernetes.NewForConfig(h.Admin)
	require.NoError(t, err)
	b := &bench{t: t, cluster: cluster}
	b.hub, err = workclient.NewForConfig(h.Admin)
	require.NoError(t, err)
	_, err = kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.cluster}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return b
}

func (b *bench) applier(change ...func(*Applier)) *Applier {
	a := &Applier{Hub: b.hub, Set: "app", Timeout: patience}
	a.Tell = func(c Change) { b.told = append(b.told, c.Verb+" "+c.Work) }
	for _, c := range change {
		c(a)
	}
	return a
}

// apply applies and returns what was done.
func (b *bench) apply(objects []Object, change ...func(*Applier)) ([]string, error) {
	b.told = nil
	err := b.applier(change...).Apply(b.t.Context(), b.cluster, objects)
	return b.told, err
}

func (b *bench) works() map[string]*workv1.ManifestWork {
	b.t.Helper()
	list, err := b.hub.WorkV1().ManifestWorks(b.cluster).List(b.t.Context(), metav1.ListOptions{})
	require.NoError(b.t, err)
	works := map[string]*workv1.ManifestWork{}
	for i := range list.Items {
		works[list.Items[i].Name] = &list.Items[i]
	}
	return works
}

// where are the works that hold an object.
func (b *bench) where(name string) []string {
	var in []string
	for work, w := range b.works() {
		if slices.ContainsFunc(objectsIn(w), func(o Object) bool { return o.Name == name }) {
			in = append(in, work)
		}
	}
	slices.Sort(in)
	return in
}

// agent says of every work that all of it is applied and available, until the test ends.
func (b *bench) agent() {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	watched, err := b.hub.WorkV1().ManifestWorks(b.cluster).Watch(ctx, metav1.ListOptions{})
	require.NoError(b.t, err)
	running.Go(func() {
		for event := range watched.ResultChan() {
			if work, ok := event.Object.(*workv1.ManifestWork); ok && work.Status.Conditions == nil || ok && Condition(work, workv1.WorkApplied) == "-" {
				_ = report(ctx, b.hub, work, metav1.ConditionTrue, "") // a work that changes meanwhile comes again
			}
		}
	})
	b.t.Cleanup(func() { stop(); watched.Stop(); running.Wait() })
}

func report(ctx context.Context, hub workclient.Interface, work *workv1.ManifestWork, applied metav1.ConditionStatus, message string) error {
	condition := func(kind string, status metav1.ConditionStatus, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "Test", Message: message, ObservedGeneration: work.Generation, LastTransitionTime: metav1.Now()}
	}
	both := []metav1.Condition{condition(workv1.WorkApplied, applied, message), condition(workv1.WorkAvailable, metav1.ConditionTrue, "")}
	next := work.DeepCopy()
	next.Status = workv1.ManifestWorkStatus{Conditions: both}
	for i, m := range next.Spec.Workload.Manifests {
		objects, err := parse("manifest", m.Raw)
		if err != nil || len(objects) != 1 {
			return errors.Join(err, fmt.Errorf("%d objects", len(objects)))
		}
		o := objects[0]
		next.Status.ResourceStatus.Manifests = append(next.Status.ResourceStatus.Manifests, workv1.ManifestCondition{
			ResourceMeta: workv1.ManifestResourceMeta{Ordinal: int32(i), Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}, Conditions: both,
		})
	}
	_, err := hub.WorkV1().ManifestWorks(work.Namespace).UpdateStatus(ctx, next, metav1.UpdateOptions{})
	return err
}

func TestApplyCharts(t *testing.T) {
	for _, test := range []struct {
		size  string
		works []string
	}{{"small", []string{"app"}}, {"large", []string{"app"}}, {"huge", []string{"app", "app-2", "app-3"}}} {
		t.Run(test.size, func(t *testing.T) {
			b := newBench(t)
			objects := chart(t, test.size)
			var created, unchanged []string
			for _, work := range test.works {
				created, unchanged = append(created, "created "+work), append(unchanged, "unchanged "+work)
			}
			done, err := b.apply(objects)
			require.NoError(t, err)
			require.Equal(t, created, done)
			done, err = b.apply(objects)
			require.NoError(t, err)
			require.Equal(t, unchanged, done)
			total := 0
			for _, w := range b.works() {
				total += len(w.Spec.Workload.Manifests)
			}
			require.Equal(t, len(objects), total)
			differences, err := b.applier().Compare(t.Context(), b.cluster, objects)
			require.NoError(t, err)
			require.Empty(t, differences)
		})
	}
}

// TestTheHubSaysHowLarge: the limit is the hub's, not this program's.
func TestTheHubSaysHowLarge(t *testing.T) {
	b := newBench(t)
	done, err := b.apply([]Object{configMapOf(t, "whale", 600<<10)})
	require.ErrorContains(t, err, "ConfigMap whale is")
	require.ErrorContains(t, err, "more than the 512000 bytes that a work of this hub may hold")
	require.Empty(t, done)
	require.Empty(t, b.works())
	_, err = b.apply([]Object{configMapOf(t, "whale", 600<<10)}, func(a *Applier) { a.MaxBytes = 1 << 20 })
	require.ErrorContains(t, err, "exceeds the 512000 limit", "whoever names a limit is told the hub's")
	require.Equal(t, 512000, limitIn(err))
}

func TestWorksOfOthers(t *testing.T) {
	b := newBench(t)
	works := b.hub.WorkV1().ManifestWorks(b.cluster)
	mine := configMapOf(t, "mine", 10)
	other := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "app", Labels: map[string]string{"theirs": "stays"}}}
	other.Spec.Workload.Manifests = []workv1.Manifest{configMapOf(t, "theirs", 10).Manifest()}
	other.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "*", Name: "*"},
		UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeCreateOnly},
	}}
	_, err := works.Create(t.Context(), other, metav1.CreateOptions{})
	require.NoError(t, err)

	_, err = b.apply([]Object{mine})
	require.ErrorContains(t, err, "work app of cluster "+b.cluster+" was not made by nave work apply; choose another name, or take it over with --force")
	done, err := b.apply([]Object{mine}, func(a *Applier) { a.Force = true })
	require.NoError(t, err)
	require.Equal(t, []string{"changed app"}, done)
	work := b.works()["app"]
	require.Equal(t, "stays", work.Labels["theirs"])
	require.Equal(t, workv1.UpdateStrategyTypeCreateOnly, work.Spec.ManifestConfigs[0].UpdateStrategy.Type, "what others have set stays")
	require.Empty(t, b.where("theirs"))

	_, err = b.apply([]Object{mine}, func(a *Applier) { a.Set = "app-2" })
	require.NoError(t, err)
	done, err = b.apply([]Object{mine, configMapOf(t, "more", 600)}, func(a *Applier) { a.MaxBytes = 700 })
	require.NoError(t, err)
	require.Equal(t, []string{"unchanged app", "created app-3"}, done, "app-2 is another application")
	_, err = b.apply([]Object{mine}, func(a *Applier) { a.Set = "app-3" })
	require.ErrorContains(t, err, "is a part of app; choose another name")
}

func TestOptionsComeAndGo(t *testing.T) {
	b := newBench(t)
	objects, err := parse("f", []byte("{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}"))
	require.NoError(t, err)
	done, err := b.apply(objects, func(a *Applier) {
		a.Options = Options{Strategy: workv1.UpdateStrategyTypeServerSideApply, Orphan: true, Feedback: true}
	})
	require.NoError(t, err)
	require.Equal(t, []string{"created app"}, done)
	spec := b.works()["app"].Spec
	require.Equal(t, workv1.DeletePropagationPolicyTypeOrphan, spec.DeleteOption.PropagationPolicy)
	require.Len(t, spec.ManifestConfigs, 2)
	require.Equal(t, workv1.UpdateStrategyTypeServerSideApply, workspec.StrategyOf(workspec.ConfigFor(b.works()["app"], workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "default", Name: "c"})).Type)
	require.Equal(t, "deployments", spec.ManifestConfigs[1].ResourceIdentifier.Resource)
	require.Equal(t, workv1.WellKnownStatusType, spec.ManifestConfigs[1].FeedbackRules[0].Type)
	require.Equal(t, workv1.FeedbackWatchType, spec.ManifestConfigs[1].FeedbackScrapeType)

	differences, err := b.applier().Compare(t.Context(), b.cluster, objects)
	require.NoError(t, err)
	require.Len(t, differences, 1)
	require.Equal(t, "ManifestWork app", differences[0].What)
	done, err = b.apply(objects)
	require.NoError(t, err)
	require.Equal(t, []string{"changed app"}, done)
	spec = b.works()["app"].Spec
	require.Empty(t, spec.ManifestConfigs)
	require.Nil(t, spec.DeleteOption)
}

// TestMoves has an object that has no room any more in its work. It never leaves the cluster.
func TestMoves(t *testing.T) {
	b := newBench(t)
	limited := func(a *Applier) { a.MaxBytes, a.Timeout = 1100, impatience }
	_, err := b.apply([]Object{configMapOf(t, "grows", 400), configMapOf(t, "moves", 400)}, limited)
	require.NoError(t, err)
	require.Equal(t, []string{"app"}, b.where("moves"))
	before := b.works()["app"]

	grown := []Object{configMapOf(t, "grows", 900), configMapOf(t, "moves", 400)}
	differences, err := b.applier(limited).Compare(t.Context(), b.cluster, grown)
	require.NoError(t, err)
	require.Len(t, differences, 2)
	require.Equal(t, "moves from work app to app-2", differences[1].Note)
	for range 2 {
		done, err := b.apply(grown, limited)
		require.ErrorContains(t, err, "has not applied what moves to another work within 300ms: ConfigMap moves is pending")
		require.ErrorContains(t, err, "nothing is lost")
		require.NotContains(t, done, "changed app")
		require.Equal(t, []string{"app", "app-2"}, b.where("moves"), "it stays in both until the agent has it")
		require.Equal(t, before.Generation, b.works()["app"].Generation)
	}
	b.agent()
	_, err = b.apply(append(grown, configMapOf(t, "new", 10)), func(a *Applier) { a.MaxBytes = 1100 })
	require.NoError(t, err)
	require.Equal(t, []string{"app-2"}, b.where("moves"))
	require.Equal(t, []string{"app"}, b.where("grows"))

	done, err := b.apply([]Object{configMapOf(t, "moves", 400)}, func(a *Applier) { a.MaxBytes = 1100 })
	require.NoError(t, err)
	require.Equal(t, []string{"changed app", "deleted app-2"}, done, "the work of the set's own name stays")
	require.Equal(t, []string{"app"}, b.where("moves"))
}

func TestWholeWorks(t *testing.T) {
	b := newBench(t)
	objects, err := parse("f", []byte(`
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: own, namespace: elsewhere, resourceVersion: "7", uid: x, labels: {mine: stays}}
spec:
  workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}]}
  deleteOption: {propagationPolicy: Orphan}
status: {conditions: []}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}`))
	require.NoError(t, err)
	done, err := b.apply(objects)
	require.NoError(t, err)
	require.Equal(t, []string{"created own", "created app"}, done)
	work := b.works()["own"]
	require.Equal(t, "stays", work.Labels["mine"])
	require.Equal(t, workv1.DeletePropagationPolicyTypeOrphan, work.Spec.DeleteOption.PropagationPolicy)
	done, err = b.apply(objects)
	require.NoError(t, err)
	require.Equal(t, []string{"unchanged own", "unchanged app"}, done)
	rendered, err := b.applier().Render("c9", objects)
	require.NoError(t, err)
	require.Len(t, rendered, 2)
	require.Equal(t, "c9", rendered[0].GetNamespace())
}

func TestDryRun(t *testing.T) {
	b := newBench(t)
	done, err := b.apply(chart(t, "huge"), func(a *Applier) { a.DryRun = true })
	require.NoError(t, err)
	require.Len(t, done, 3)
	require.Empty(t, b.works())
}

func TestCompare(t *testing.T) {
	b := newBench(t)
	secret := func(name, value string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s}, stringData: {same: hidden-same, changes: %s}}\n---\n", name, value)
	}
	objects, err := parse("f", []byte(secret("s", "hidden-before")+"{apiVersion: v1, kind: ConfigMap, metadata: {name: goes}}"))
	require.NoError(t, err)
	_, err = b.apply(objects)
	require.NoError(t, err)
	next, err := parse("f", []byte(secret("s", "hidden-after")+"{apiVersion: v1, kind: ConfigMap, metadata: {name: comes}, data: {x: wanted}}"))
	require.NoError(t, err)
	differences, err := b.applier().Compare(t.Context(), b.cluster, next)
	require.NoError(t, err)
	var out bytes.Buffer
	for _, d := range differences {
		require.NoError(t, d.Write(&out))
	}
	for _, want := range []string{
		"diff -u " + b.cluster + "/app: ConfigMap comes\n--- /dev/null\n+++ then\n", "+  x: wanted\n", "diff -u " + b.cluster + "/app: ConfigMap goes\n--- now\n+++ /dev/null\n",
		"-  changes: '*** (before)'\n+  changes: '*** (after)'\n", "   same: '***'\n"} {
		require.Contains(t, out.String(), want)
	}
	require.NotContains(t, out.String(), "hidden")
}

func TestRemove(t *testing.T) {
	b := newBench(t)
	set := Set{b.hub, b.cluster, "app"}
	_, err := set.Remove(t.Context(), false, impatience)
	require.ErrorContains(t, err, "has no work app")
	_, err = b.apply(chart(t, "huge"))
	require.NoError(t, err)
	_, err = Set{b.hub, b.cluster, "app-2"}.Remove(t.Context(), false, impatience)
	require.ErrorContains(t, err, "is a part of app")

	_, err = set.Remove(t.Context(), true, impatience)
	require.ErrorContains(t, err, "nothing was deleted")
	require.Len(t, b.works(), 3, "an agent that does not answer does not know that the objects are to stay")

	held := b.works()["app-3"]
	_, err = b.hub.WorkV1().ManifestWorks(b.cluster).Patch(t.Context(), held.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":["test.dev/holds"]}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	number, err := set.Remove(t.Context(), false, impatience)
	require.NoError(t, err)
	require.Equal(t, 3, number)
	err = set.AwaitGone(t.Context(), impatience)
	require.ErrorContains(t, err, "is not gone after 300ms: work app-3 waits: its agent has not said anything yet; it is held by test.dev/holds")
	_, err = b.apply(chart(t, "small"))
	require.ErrorContains(t, err, "is being deleted")
	_, err = set.Await(t.Context(), patience, func(ManifestStatus) {})
	require.ErrorContains(t, err, "is being deleted")
	_, err = b.hub.WorkV1().ManifestWorks(b.cluster).Patch(t.Context(), held.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, set.AwaitGone(t.Context(), patience))
}

func TestAwait(t *testing.T) {
	b := newBench(t)
	set := Set{b.hub, b.cluster, "app"}
	objects := chart(t, "small")
	_, err := b.apply(objects)
	require.NoError(t, err)
	_, err = set.Await(t.Context(), impatience, func(ManifestStatus) {})
	require.ErrorContains(t, err, "is not applied and available after 300ms: Namespace regatta is pending")
	require.NoError(t, report(t.Context(), b.hub, b.works()["app"], metav1.ConditionFalse, "the cluster says no"))
	_, err = set.Await(t.Context(), impatience, func(ManifestStatus) {})
	require.ErrorContains(t, err, "Namespace regatta is failed: the cluster says no")
	b.agent()
	_, err = b.apply(objects[:2]) // another generation, which the agent has not seen
	require.NoError(t, err)
	states := map[State]int{}
	works, err := set.Await(t.Context(), patience, func(m ManifestStatus) { states[m.State]++ })
	require.NoError(t, err)
	require.Len(t, works, 1)
	require.Equal(t, 2, states[Applied])
}
