package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	"sigs.k8s.io/yaml"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// statuses reads states as letters: t to apply, p progressing, s succeeded, f failed; after one, seconds that it is so.
func statuses(t *testing.T, text string) map[string]Status {
	t.Helper()
	all := map[string]Status{}
	for _, word := range strings.Fields(text) {
		name, state, _ := strings.Cut(word, "=")
		ago := 1000
		if len(state) > 1 {
			_, err := fmt.Sscan(state[1:], &ago)
			require.NoError(t, err)
		}
		all[name] = Status{map[byte]State{'t': ToApply, 'p': Progressing, 's': Succeeded, 'f': Failed}[state[0]], now.Add(-time.Duration(ago) * time.Second)}
	}
	return all
}

func group(index int32, name string, clusters ...string) Group { return Group{index, name, clusters} }

func strategyOf(t *testing.T, text string) clusterv1alpha1.RolloutStrategy {
	t.Helper()
	var s clusterv1alpha1.RolloutStrategy
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &s))
	return s
}

func TestDecide(t *testing.T) {
	one := []Group{group(0, "", "a", "b", "c", "d", "e", "f")}
	three := []Group{group(2, "", "e", "f"), group(0, "canary", "a"), group(1, "", "b", "c", "d")}
	for _, test := range []struct {
		name, strategy string
		groups         []Group
		statuses       string
		apply          string
		breached       bool
		complete       bool
		next           int // seconds from now; 0: never
	}{
		{"all", `{}`, one, "a=s b=f c=p", "d e f", false, false, 0},
		{"all: a soak is for the others", `{type: All, all: {minSuccessTime: 1h}}`, one, "a=s1 b=s c=s d=s e=s f=s", "", false, true, 0},
		{"all: a deadline wakes", `{type: All, all: {progressDeadline: 10s}}`, one, "a=p3 b=p4 c=p11 d=s e=s f=s", "", false, false, 6},
		{"nobody", `{type: Progressive}`, nil, "", "", false, true, 0},

		{"no limit is all at once", `{type: Progressive}`, one, "", "a b c d e f", false, false, 0},
		{"the first two", `{type: Progressive, progressive: {maxConcurrency: 2}}`, one, "", "a b", false, false, 0},
		{"two in flight", `{type: Progressive, progressive: {maxConcurrency: 2}}`, one, "a=p b=p", "", false, false, 0},
		{"one of them is done", `{type: Progressive, progressive: {maxConcurrency: 2}}`, one, "a=p b=s", "c", false, false, 0},
		{"a third, rounded up", `{type: Progressive, progressive: {maxConcurrency: 30%}}`, one, "", "a b", false, false, 0},
		{"one percent is one", `{type: Progressive, progressive: {maxConcurrency: 1%}}`, one, "", "a", false, false, 0},
		{"more than there are", `{type: Progressive, progressive: {maxConcurrency: 10}}`, one, "", "a b c d e f", false, false, 0},
		{"a soak keeps its place", `{type: Progressive, progressive: {maxConcurrency: 2, minSuccessTime: 20s}}`, one, "a=s5 b=s25", "c", false, false, 15},
		{"the last one soaks", `{type: Progressive, progressive: {minSuccessTime: 20s}}`, one, "a=s b=s c=s d=s e=s f=s5", "", false, false, 15},
		{"one failure is too many", `{type: Progressive, progressive: {maxConcurrency: 2}}`, one, "a=f b=s", "", true, false, 0},
		{"one failure is tolerated, and keeps its place", `{type: Progressive, progressive: {maxConcurrency: 2, maxFailures: 1}}`, one, "a=f b=s", "c", false, false, 0},
		{"two are not", `{type: Progressive, progressive: {maxConcurrency: 2, maxFailures: 1}}`, one, "a=f b=f", "", true, false, 0},
		{"more failures than clusters are tolerated", `{type: Progressive, progressive: {maxConcurrency: 4, maxFailures: 10}}`, one, "a=f b=f c=f", "d", false, false, 0},
		{"one percent of failures is one", `{type: Progressive, progressive: {maxConcurrency: 4, maxFailures: 1%}}`, one, "a=f", "b c d", false, false, 0},
		{"no percent is none", `{type: Progressive, progressive: {maxConcurrency: 4, maxFailures: 0%}}`, one, "a=f", "", true, false, 0},
		{"a deadline is a failure", `{type: Progressive, progressive: {maxConcurrency: 1, progressDeadline: 5s}}`, one, "a=p6", "", true, false, 0},
		{"and gives its place away if that is tolerated", `{type: Progressive, progressive: {maxConcurrency: 1, maxFailures: 1, progressDeadline: 5s}}`, one, "a=p6", "b", false, false, 0},
		{"not earlier", `{type: Progressive, progressive: {maxConcurrency: 1, maxFailures: 1, progressDeadline: 5s}}`, one, "a=p3", "", false, false, 2},
		{"a failure may recover until then", `{type: Progressive, progressive: {maxConcurrency: 1, maxFailures: 1, progressDeadline: 5s}}`, one, "a=f3", "", false, false, 2},
		{"no time at all is too late at once", `{type: Progressive, progressive: {maxConcurrency: 1, maxFailures: 1, progressDeadline: 0s}}`, one, "a=p0", "b", false, false, 0},
		{"and a success after it counts", `{type: Progressive, progressive: {maxConcurrency: 1, progressDeadline: 0s}}`, one, "a=s", "b", false, false, 0},
		{"less than no clusters is no limit", `{type: Progressive, progressive: {maxConcurrency: -1}}`, one, "", "a b c d e f", false, false, 0},
		{"less than no failures is none", `{type: Progressive, progressive: {maxFailures: -1}}`, one, "a=f", "", true, false, 0},
		{"less than no soak is none", `{type: Progressive, progressive: {maxConcurrency: 1, minSuccessTime: -5s}}`, one, "a=s0", "b", false, false, 0},
		{"new clusters of a complete rollout", `{type: Progressive, progressive: {maxConcurrency: 1}}`, one, "a=s b=s c=s d=s", "e", false, false, 0},

		{"mandatory first, as many as it has", `{type: Progressive, progressive: {maxConcurrency: 1, mandatoryDecisionGroups: [{groupIndex: 1}]}}`, three, "", "b c d", false, false, 0},
		{"mandatory under way", `{type: Progressive, progressive: {mandatoryDecisionGroups: [{groupName: canary}]}}`, three, "a=p", "", false, false, 0},
		{"mandatory soaks", `{type: Progressive, progressive: {minSuccessTime: 10s, mandatoryDecisionGroups: [{groupName: canary}]}}`, three, "a=s1", "", false, false, 9},
		{"mandatory done", `{type: Progressive, progressive: {maxConcurrency: 2, mandatoryDecisionGroups: [{groupName: canary}]}}`, three, "a=s", "b c", false, false, 0},
		{"mandatory failed, whatever is tolerated", `{type: Progressive, progressive: {maxFailures: 100%, mandatoryDecisionGroups: [{groupName: canary}]}}`, three, "a=f", "", true, false, 0},
		{"mandatory too late", `{type: Progressive, progressive: {maxFailures: 5, progressDeadline: 1s, mandatoryDecisionGroups: [{groupName: canary}]}}`, three, "a=p2", "", true, false, 0},
		{"in the order of the list", `{type: ProgressivePerGroup, progressivePerGroup: {mandatoryDecisionGroups: [{groupIndex: 2}, {groupName: canary}]}}`, three, "", "e f", false, false, 0},
		{"the second of the list", `{type: ProgressivePerGroup, progressivePerGroup: {mandatoryDecisionGroups: [{groupIndex: 2}, {groupName: canary}]}}`, three, "e=s f=s", "a", false, false, 0},
		{"a name goes before an index", `{type: Progressive, progressive: {mandatoryDecisionGroups: [{groupName: canary, groupIndex: 2}]}}`, three, "", "a", false, false, 0},

		{"per group: the first", `{type: ProgressivePerGroup}`, three, "", "a", false, false, 0},
		{"per group: the next", `{type: ProgressivePerGroup}`, three, "a=s", "b c d", false, false, 0},
		{"per group: not before it is over", `{type: ProgressivePerGroup}`, three, "a=s b=s c=p d=s", "", false, false, 0},
		{"per group: a failure stops it", `{type: ProgressivePerGroup}`, three, "a=s b=f c=s d=s", "", true, false, 0},
		{"per group: a third may fail", `{type: ProgressivePerGroup, progressivePerGroup: {maxFailures: 33%}}`, three, "a=s b=f c=s d=s", "e f", false, false, 0},
		{"per group: what is left of a group", `{type: ProgressivePerGroup, progressivePerGroup: {maxFailures: 1}}`, three, "a=s b=f c=s", "d", false, false, 0},
		{"per group: done", `{type: ProgressivePerGroup}`, three, "a=s b=s c=s d=s e=s f=s", "", false, true, 0},
		{"a cluster in two groups", `{type: ProgressivePerGroup}`, []Group{group(0, "", "a"), group(1, "", "a", "b")}, "a=s", "b", false, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := Decide(strategyOf(t, test.strategy), test.groups, statuses(t, test.statuses), now)
			require.NoError(t, err)
			require.Equal(t, test.apply, strings.Join(r.Apply, " "))
			require.Equal(t, test.breached, r.Breached)
			require.Equal(t, test.complete, r.Complete())
			next := 0
			if !r.Next.IsZero() {
				next = int(r.Next.Sub(now).Seconds())
			}
			require.Equal(t, test.next, next)
		})
	}
}

func TestWhatIsTold(t *testing.T) {
	groups := []Group{group(0, "canary", "a"), group(1, "", "b", "c", "d", "e")}
	r, err := Decide(strategyOf(t, `{type: ProgressivePerGroup, progressivePerGroup: {minSuccessTime: 10s, progressDeadline: 20s, maxFailures: 4}}`),
		groups, statuses(t, "a=s b=s3 c=p4 d=f5 e=p30 gone=s"), now)
	require.NoError(t, err)
	require.Equal(t, &Result{
		Underway: []string{"c"}, Soaking: []string{"b"}, Failed: []string{"d"}, TimedOut: []string{"e"}, Removed: []string{"gone"}, Done: 1,
		Next: now.Add(7 * time.Second),
	}, r)
	require.Equal(t, 5, r.Begun())
}

// TestStalled: failures that are tolerated, but keep their places for ever.
func TestStalled(t *testing.T) {
	one := []Group{group(0, "", "a", "b", "c", "d")}
	for _, test := range []struct {
		name, strategy, statuses string
		want                     bool
	}{
		{"the only place", `{type: Progressive, progressive: {maxConcurrency: 1, maxFailures: 2}}`, "a=f", true},
		{"all places", `{type: Progressive, progressive: {maxConcurrency: 2, maxFailures: 2}}`, "a=f b=f", true},
		{"one of two places", `{type: Progressive, progressive: {maxConcurrency: 2, maxFailures: 2}}`, "a=f b=s", false},
		{"another is under way", `{type: Progressive, progressive: {maxConcurrency: 2, maxFailures: 2}}`, "a=f b=p", false},
		{"another soaks", `{type: Progressive, progressive: {maxConcurrency: 2, maxFailures: 2, minSuccessTime: 9s}}`, "a=f b=s1", false},
		{"a deadline takes it away", `{type: Progressive, progressive: {maxConcurrency: 1, maxFailures: 2, progressDeadline: 9s}}`, "a=f1", false},
		{"nobody waits", `{type: Progressive, progressive: {maxConcurrency: 1, maxFailures: 2}}`, "a=f b=s c=s d=s", false},
		{"too many have failed", `{type: Progressive, progressive: {maxConcurrency: 1}}`, "a=f", false},
		{"all at once", `{}`, "a=f b=f c=f d=f", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := Decide(strategyOf(t, test.strategy), one, statuses(t, test.statuses), now)
			require.NoError(t, err)
			require.Equal(t, test.want, r.Stalled)
		})
	}
}

func TestStrategiesThatAreWrong(t *testing.T) {
	for _, test := range []struct{ strategy, want string }{
		{`{type: Sometimes}`, `rollout strategy: type "Sometimes" is none of All, Progressive, ProgressivePerGroup`},
		{`{type: Progressive, progressive: {maxConcurrency: many}}`, `rollout strategy: maxConcurrency "many" is neither a number nor a percentage`},
		{`{type: ProgressivePerGroup, progressivePerGroup: {maxFailures: 101%}}`, `rollout strategy: maxFailures "101%" is neither a number nor a percentage`},
		{`{type: All, all: {progressDeadline: soon}}`, `rollout strategy: progressDeadline "soon" is neither None nor a time such as 90s, 10m or 2h`},
		{`{type: All, all: {progressDeadline: -5s}}`, `rollout strategy: progressDeadline "-5s" is neither None nor a time such as 90s, 10m or 2h`},
	} {
		require.EqualError(t, Check(strategyOf(t, test.strategy)), test.want)
	}
	require.NoError(t, Check(strategyOf(t, `{type: Progressive, progressive: {maxConcurrency: "5", progressDeadline: None, minSuccessTime: 1m}}`)))
}

// TestRolloutsEnd plays rollouts at random, to their end: never more in flight than may be, no group before the one in front
// of it is over, and without failures everything is done.
func TestRolloutsEnd(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		var groups []Group
		total := 0
		for i := range 1 + random.IntN(4) {
			var clusters []string
			for range random.IntN(5) {
				clusters = append(clusters, fmt.Sprintf("c%02d", total))
				total++
			}
			groups = append(groups, group(int32(i), "", clusters...))
		}
		limit, perGroup := 1+random.IntN(4), random.IntN(2) == 0
		strategy := strategyOf(t, fmt.Sprintf(`{type: Progressive, progressive: {maxConcurrency: %d, minSuccessTime: 5s}}`, limit))
		if perGroup {
			strategy = strategyOf(t, `{type: ProgressivePerGroup, progressivePerGroup: {minSuccessTime: 5s}}`)
		}
		state, at := map[string]Status{}, now
		for round := 0; ; round++ {
			require.Less(t, round, 200, "it does not end: %v", state)
			r, err := Decide(strategy, groups, state, at)
			require.NoError(t, err)
			if r.Complete() {
				break
			}
			require.True(t, perGroup || len(r.Apply)+len(r.Underway)+len(r.Soaking) <= limit)
			for _, name := range r.Apply {
				require.True(t, !perGroup || earlierDone(groups, name, state), "%s begins too early", name)
				state[name] = Status{Progressing, at}
			}
			for _, name := range slices.Concat(r.Underway, r.Apply) {
				if random.IntN(2) == 0 {
					state[name] = Status{Succeeded, at}
				}
			}
			at = at.Add(time.Second)
		}
		require.Len(t, state, total)
	}
}

// earlierDone tells whether all clusters of groups in front of a cluster's have succeeded.
func earlierDone(groups []Group, name string, state map[string]Status) bool {
	for _, g := range groups {
		if slices.Contains(g.Clusters, name) {
			return true
		}
		for _, other := range g.Clusters {
			if state[other].State != Succeeded {
				return false
			}
		}
	}
	return false
}
