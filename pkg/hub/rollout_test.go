package hub

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/replicas"
)

// rolling is a replica set named ledger in its namespace, with clusters that have no agents: the test says for them what
// became of their works.
type rolling struct {
	*administrator
	namespace string
	labels    string // of the set, in YAML
	refs      string // placementRefs, in YAML
}

// release applies the set with a content.
func (r *rolling) release(release string) {
	r.Helper()
	r.apply(fmt.Sprintf(`
apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {name: ledger, namespace: %s, labels: {%s}}
spec:
  placementRefs: [%s]
  manifestWorkTemplate:
    workload:
      manifests:
      - {apiVersion: v1, kind: ConfigMap, metadata: {name: app, namespace: default}, data: {release: %q}}
`, r.namespace, r.labels, r.refs, release))
}

// refOf is a reference to a placement with a rollout strategy.
func refOf(placement, strategy string) string {
	return fmt.Sprintf("{name: %s, rolloutStrategy: {%s}}", placement, strategy)
}

func (r *rolling) all() []workv1.ManifestWork {
	r.Helper()
	list, err := r.works.WorkV1().ManifestWorks("").List(r.ctx, metav1.ListOptions{LabelSelector: replicas.SetLabel + "=" + r.namespace + ".ledger"})
	require.NoError(r, err)
	return list.Items
}

// releases are what clusters have, by their name.
func (r *rolling) releases() map[string]string {
	r.Helper()
	all := map[string]string{}
	for _, work := range r.all() {
		content := &unstructured.Unstructured{}
		require.NoError(r, content.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw))
		release, _, err := unstructured.NestedString(content.Object, "data", "release")
		require.NoError(r, err)
		all[work.Namespace] = strings.TrimSpace(all[work.Namespace] + " " + release)
	}
	return all
}

// have waits until the clusters have what is said, as "one two two" in the order of their names; - is for none.
func (r *rolling) have(want string) {
	r.Helper()
	wanted := map[string]string{}
	for n, release := range strings.Fields(want) {
		if release != "-" {
			wanted[r.nth(n+1)] = release
		}
	}
	eventually(r.T, "clusters have "+want, func() error {
		if is := r.releases(); !maps.Equal(is, wanted) {
			return fmt.Errorf("they have %v", is)
		}
		return nil
	})
}

func (r *rolling) nth(n int) string { return fmt.Sprintf("%s-%d", r.namespace, n) }

// says writes the conditions of the works of a cluster, as Applied=True, as an agent does. behind is how many generations of the work are newer.
func (r *rolling) says(n int, behind int64, conditions ...string) {
	r.Helper()
	works := r.works.WorkV1().ManifestWorks(r.nth(n))
	eventually(r.T, r.nth(n)+" says "+strings.Join(conditions, " "), func() error {
		list, err := works.List(r.ctx, metav1.ListOptions{LabelSelector: replicas.SetLabel + "=" + r.namespace + ".ledger"})
		if err != nil {
			return err
		}
		for i := range list.Items {
			work := &list.Items[i]
			for _, condition := range conditions {
				kind, status, _ := strings.Cut(condition, "=")
				meta.SetStatusCondition(&work.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: "Said", ObservedGeneration: work.Generation - behind})
			}
			if _, err := works.UpdateStatus(r.ctx, work, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *rolling) succeeds(clusters ...int) {
	r.Helper()
	for _, n := range clusters {
		r.says(n, 0, "Applied=True", "Available=True")
	}
}

func (r *rolling) fails(n int) {
	r.Helper()
	r.says(n, 0, "Applied=False", "Available=False")
}

// set waits until the status of the set is as check wants it.
func (r *rolling) set(what string, check func(workv1alpha1.ManifestWorkReplicaSetStatus) bool) {
	r.Helper()
	eventually(r.T, what, func() error {
		set, err := r.works.WorkV1alpha1().ManifestWorkReplicaSets(r.namespace).Get(r.ctx, "ledger", metav1.GetOptions{})
		if err == nil && !check(set.Status) {
			err = fmt.Errorf("it is %+v", set.Status)
		}
		return err
	})
}

// rolledOut waits until the set says how far its rollout is.
func (r *rolling) rolledOut(reason string, texts ...string) {
	r.Helper()
	r.set("rolled out: "+reason+" "+strings.Join(texts, ", "), func(s workv1alpha1.ManifestWorkReplicaSetStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, workv1alpha1.ManifestWorkReplicaSetConditionPlacementRolledOut)
		return c != nil && c.Reason == reason && (c.Status == metav1.ConditionTrue) == (reason == "Complete") &&
			!slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(c.Message, text) })
	})
}

// TestRollouts are what users of replica sets have waited for, each with clusters of its own.
func TestRollouts(t *testing.T) {
	newAdministrator(t).follow(
		step{"one after the other", oneAfterTheOther},
		step{"groups, by time alone", groupsByTime},
		step{"deadline, by time alone", deadlineByTime},
		step{"failures", failures},
		step{"groups by their number", groupsByNumber},
		step{"several placements", severalPlacements},
		step{"clusters come and go", clustersComeAndGo},
	)
}

// A cluster that goes while it is under way holds up nobody, and one that comes waits for its turn.
func clustersComeAndGo(i *administrator) {
	r := &rolling{administrator: i, namespace: "ferry", refs: refOf("everyone", "type: Progressive, progressive: {maxConcurrency: 1}")}
	r.team("ferry", 3)
	r.place("ferry", "everyone", silent)
	r.chooses("ferry", "everyone", "ferry-1", "ferry-2", "ferry-3")
	r.release("one")
	r.have("one - -")
	r.label("ferry-1", "cluster.open-cluster-management.io/clusterset", "default")
	r.have("- one -")
	r.rolledOut("Progressing", "0 of 2 clusters have succeeded", "under way: ferry-2")
	r.succeeds(2)
	r.have("- one one")
	r.label("ferry-1", "cluster.open-cluster-management.io/clusterset", "ferry")
	r.rolledOut("Progressing", "1 of 3 clusters have succeeded", "under way: ferry-3", "waiting: ferry-1")
	r.have("- one one")
	r.succeeds(3)
	r.have("one one one")
	r.succeeds(1)
	r.rolledOut("Complete")
	// One that joins what is complete gets the content, too.
	r.cluster("ferry-4", "ferry", "")
	r.have("one one one one")
	r.succeeds(4)
	r.rolledOut("Complete")
}

// A cluster counts as done when it says so of the new content, not because of what it said of the old one
// (open-cluster-management-io/ocm#1243).
func oneAfterTheOther(i *administrator) {
	const soak = time.Second
	r := &rolling{administrator: i, namespace: "ring", refs: refOf("everyone", "type: Progressive, progressive: {maxConcurrency: 1, minSuccessTime: 1s}")}
	r.team("ring", 4)
	r.place("ring", "everyone", silent)
	r.chooses("ring", "everyone", "ring-1", "ring-2", "ring-3", "ring-4")
	r.release("one")
	for n, have := range []string{"one - - -", "one one - -", "one one one -", "one one one one"} {
		r.have(have)
		r.rolledOut("Progressing")
		r.succeeds(n + 1)
	}
	r.rolledOut("Complete")

	r.release("two")
	r.have("two one one one")
	r.rolledOut("Progressing", "0 of 4 clusters have succeeded", "under way: ring-1", "waiting: ring-2 ring-3 ring-4")
	r.says(1, 1, "Applied=True", "Available=True") // of the generation before
	r.says(1, 0, "Applied=True")                   // and not yet that it is available
	r.rolledOut("Progressing", "under way: ring-1")
	for n, next := range []string{"two two one one", "two two two one", "two two two two"} {
		said := time.Now()
		r.succeeds(n + 1)
		r.rolledOut("Progressing", "succeeded, for minSuccessTime: "+r.nth(n+1))
		r.have(next)
		require.GreaterOrEqual(i, time.Since(said), soak, "before minSuccessTime was over")
	}
	r.rolledOut("Progressing", "3 of 4 clusters have succeeded", "under way: ring-4")
	r.succeeds(4)
	r.rolledOut("Complete")

	// What comes while a release is under way takes the place of it, from the first cluster on.
	r.release("three")
	r.have("three two two two")
	r.release("four")
	r.have("four two two two")
	r.release("two")
	r.have("two two two two")
	r.succeeds(1)
	r.rolledOut("Complete")
}

// The next group begins by time alone (open-cluster-management-io/ocm#337).
func groupsByTime(i *administrator) {
	const soak = 2 * time.Second
	r := &rolling{administrator: i, namespace: "quay", refs: refOf("grouped", "type: ProgressivePerGroup, progressivePerGroup: {minSuccessTime: 2s, mandatoryDecisionGroups: [{groupName: canary}]}")}
	r.team("quay", 5)
	for _, n := range []int{4, 5} {
		r.label(r.nth(n), "ring", "inner")
	}
	r.place("quay", "grouped", silent+`, decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 50%, decisionGroups: [{groupName: canary, groupClusterSelector: {labelSelector: {matchLabels: {ring: inner}}}}]}}`)
	r.chooses("quay", "grouped", "quay-1", "quay-2", "quay-3", "quay-4", "quay-5")
	r.release("one")
	r.have("- - - one one")
	said := time.Now()
	r.succeeds(4, 5)
	r.have("one one one one one")
	require.GreaterOrEqual(i, time.Since(said), soak)
	r.succeeds(1, 2, 3)
	r.rolledOut("Complete")

	r.release("two")
	r.have("one one one two two")
	r.succeeds(4)
	r.rolledOut("Progressing", "under way: quay-5")
	r.have("one one one two two")
	said = time.Now()
	r.succeeds(5)
	r.have("two two two two two")
	require.GreaterOrEqual(i, time.Since(said), soak)
	said = time.Now()
	r.succeeds(1, 2, 3)
	r.rolledOut("Complete")
	require.GreaterOrEqual(i, time.Since(said), soak)
}

// Clusters that do not answer count as failed when their time is over, and nothing else has to happen
// (open-cluster-management-io/ocm#337).
func deadlineByTime(i *administrator) {
	const deadline = 2 * time.Second
	r := &rolling{administrator: i, namespace: "tide", refs: refOf("everyone", "type: Progressive, progressive: {maxConcurrency: 1, progressDeadline: 2s, maxFailures: 1}")}
	r.team("tide", 4)
	r.place("tide", "everyone", silent)
	r.chooses("tide", "everyone", "tide-1", "tide-2", "tide-3", "tide-4")
	begun := time.Now()
	r.release("one")
	r.have("one - - -")
	r.have("one one - -")
	require.GreaterOrEqual(i, time.Since(begun), deadline-time.Second, "content is dated by the second")
	r.rolledOut("Progressing", "not done in time: tide-1 tide-2", "too many have failed", "waiting: tide-3 tide-4")
	r.have("one one - -")
	r.succeeds(1) // late, but it is one failure less
	r.have("one one one -")
	r.succeeds(3)
	r.have("one one one one")
	r.succeeds(4)
	r.rolledOut("Progressing", "3 of 4 clusters have succeeded", "not done in time: tide-2")
	r.succeeds(2)
	r.rolledOut("Complete")
}

// Too many failures end a rollout, and what is mended goes on.
func failures(i *administrator) {
	r := &rolling{administrator: i, namespace: "reef", refs: refOf("everyone", "type: Progressive, progressive: {maxConcurrency: 2, maxFailures: 25%}")}
	r.team("reef", 4)
	r.place("reef", "everyone", silent)
	r.chooses("reef", "everyone", "reef-1", "reef-2", "reef-3", "reef-4")
	r.release("one")
	r.have("one one - -")
	r.fails(1)
	r.succeeds(2)
	r.have("one one one -")
	r.fails(3)
	r.rolledOut("Progressing", "1 of 4 clusters have succeeded", "failed: reef-1 reef-3", "too many have failed")
	r.have("one one one -")
	r.release("two")
	r.have("two two one -")
	r.succeeds(1, 2)
	r.have("two two two two")
	r.succeeds(3, 4)
	r.rolledOut("Complete")
}

// Groups that come first may be named by their number, and without a further one the rest comes all at a time.
func groupsByNumber(i *administrator) {
	r := &rolling{administrator: i, namespace: "pier", refs: refOf("pairs", "type: Progressive, progressive: {mandatoryDecisionGroups: [{groupIndex: 1}]}")}
	r.team("pier", 6)
	r.place("pier", "pairs", silent+`, decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 2}}`)
	r.chooses("pier", "pairs", "pier-1", "pier-2", "pier-3", "pier-4", "pier-5", "pier-6")
	r.release("one")
	r.have("- - one one - -")
	r.fails(3)
	r.succeeds(4)
	r.rolledOut("Progressing", "failed: pier-3", "too many have failed")
	r.have("- - one one - -")
	r.succeeds(3)
	r.have("one one one one one one")
	r.succeeds(1, 2, 5, 6)
	r.rolledOut("Complete")
}

// Each placement of a set has its own strategy, and its own works: a cluster that two select has two.
func severalPlacements(i *administrator) {
	r := &rolling{administrator: i, namespace: "twin", refs: refOf("slow", "type: Progressive, progressive: {maxConcurrency: 1}") + ", {name: fast}"}
	r.team("twin", 4)
	for n, ring := range []string{"inner", "both", "outer", "outer"} {
		r.label(r.nth(n+1), "ring", ring)
	}
	for name, rings := range map[string]string{"slow": "inner, both", "fast": "outer, both"} {
		r.place("twin", name, silent+`, predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: ring, operator: In, values: [`+rings+`]}]}}}]`)
	}
	r.chooses("twin", "slow", "twin-1", "twin-2")
	r.chooses("twin", "fast", "twin-2", "twin-3", "twin-4")
	r.release("one")
	r.counts("slow 1/1/2 0 0 0 0", "fast 3/3/3 0 0 0 0")
	r.succeeds(2)
	r.counts("slow 1/1/2 0 0 0 0", "fast 3/3/3 1 1 0 0")
	r.succeeds(1)
	r.counts("slow 2/2/2 1 1 0 0", "fast 3/3/3 1 1 0 0")
	r.succeeds(2, 3)
	r.fails(4)
	r.counts("slow 2/2/2 2 2 0 0", "fast 3/3/3 2 2 0 0")
	r.says(4, 0, "Applied=True", "Progressing=True", "Degraded=True")
	r.counts("slow 2/2/2 2 2 0 0", "fast 3/3/3 3 2 1 1")
	r.says(4, 0, "Available=True", "Progressing=False", "Degraded=False")
	r.counts("slow 2/2/2 2 2 0 0", "fast 3/3/3 3 3 0 0")
	r.rolledOut("Complete")

	r.release("two")
	r.counts("slow 1/1/2 0 0 0 0", "fast 3/3/3 0 0 0 0")
	r.label("twin-2", "ring", "outer") // where slow has not come yet
	r.counts("slow 1/1/1 0 0 0 0", "fast 3/3/3 0 0 0 0")
	r.have("two two two two")
	r.label("twin-3", "ring", "inner")
	r.counts("slow 1/1/2 0 0 0 0", "fast 2/2/2 0 0 0 0")
	r.refs = "{name: fast}"
	r.release("two")
	r.counts("fast 2/2/2 0 0 0 0")
	r.have("- two - two")
}

// counts waits until the status counts works so: for each placement total/updated/desired, applied, available, progressing
// and degraded ones, and their sums.
func (r *rolling) counts(want ...string) {
	r.Helper()
	text := func(s workv1alpha1.ManifestWorkReplicaSetSummary) string {
		return fmt.Sprintf("%d/%d/%d %d %d %d %d", s.Total, s.Updated, s.DesiredTotal, s.Applied, s.Available, s.Progressing, s.Degraded)
	}
	r.set("counts "+strings.Join(want, ", "), func(s workv1alpha1.ManifestWorkReplicaSetStatus) bool {
		var is []string
		var sum workv1alpha1.ManifestWorkReplicaSetSummary
		for _, p := range s.PlacementsSummary {
			is = append(is, p.Name+" "+text(p.Summary))
			sum.Total, sum.Updated, sum.DesiredTotal = sum.Total+p.Summary.Total, sum.Updated+p.Summary.Updated, sum.DesiredTotal+p.Summary.DesiredTotal
			sum.Applied, sum.Available = sum.Applied+p.Summary.Applied, sum.Available+p.Summary.Available
			sum.Progressing, sum.Degraded = sum.Progressing+p.Summary.Progressing, sum.Degraded+p.Summary.Degraded
		}
		return slices.Equal(is, want) && s.Summary == sum
	})
}
