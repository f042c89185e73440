package work

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestDriftIsWhatSomebodyElseDid(t *testing.T) {
	relabelled := func(o *metav1.PartialObjectMetadata) { o.Labels = map[string]string{"a": "c"} }
	remade := func(o *metav1.PartialObjectMetadata) { o.UID = types.UID("other") }
	for _, test := range []struct {
		name    string
		seen    *metav1.PartialObjectMetadata
		deleted bool
		want    bool
	}{
		{"our own write", seenAs("10", 1), false, false},
		{"an older event", seenAs("9", 0), false, false},
		{"a change of status", seenAs("11", 1), false, false},
		{"a change of content", seenAs("11", 2), false, true},
		{"a change of labels", seenAs("11", 1, relabelled), false, true},
		{"deleted", seenAs("11", 1), true, true},
		{"deleted and made anew", seenAs("12", 1, remade), false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, calls := watching()
			ours := seenAs("10", 1)
			w.settle(gvr, id, "w", treatment{1}, ours)
			require.NoError(t, (&sink{w, scope{gvr, ""}}).take(test.seen, test.deleted))
			require.Equal(t, test.want, len(*calls) == 1)
			require.Equal(t, test.want, w.works["w"][id].drifted)
		})
	}
}

// watching is a watcher that is never started, and the works that it called.
func watching() (*watcher, *[]string) {
	calls := &[]string{}
	return newWatcher(nil, clocktesting.NewFakePassiveClock(time.Now()), func(work string, _ time.Duration, _ change) { *calls = append(*calls, work) }, func() {}), calls
}

var (
	gvr = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	id  = identity{Group: "apps", Resource: "deployments", Namespace: "n", Name: "d"}
)

func seenAs(version string, generation int64, change ...func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "d", Namespace: "n", UID: "u", ResourceVersion: version, Generation: generation, Labels: map[string]string{"a": "b"}}}
	for _, c := range change {
		c(o)
	}
	return o
}

// TestWorksDoNotUndoEachOther: what one work wrote is no drift to another one that has the same object, and what somebody
// else wrote is to both.
func TestWorksDoNotUndoEachOther(t *testing.T) {
	w, calls := watching()
	sink := &sink{w, scope{gvr, ""}}
	w.settle(gvr, id, "first", treatment{1}, seenAs("10", 1))
	w.settle(gvr, id, "second", treatment{2}, seenAs("11", 2))
	require.NoError(t, sink.Update(seenAs("10", 1)))
	require.NoError(t, sink.Update(seenAs("11", 2)))
	require.Empty(t, *calls)
	require.NoError(t, sink.Update(seenAs("12", 3)))
	require.ElementsMatch(t, []string{"first", "second"}, *calls)
}

// TestWhatHappensBetweenWriteAndNote: an event may come before the answer to our own request has been taken note of.
func TestWhatHappensBetweenWriteAndNote(t *testing.T) {
	for _, test := range []struct {
		name string
		seen *metav1.PartialObjectMetadata
		gone bool
		want bool
	}{
		{"our own write", seenAs("10", 1), false, false},
		{"a change by somebody else", seenAs("11", 2), false, true},
		{"its end", seenAs("11", 1), true, true},
		{"an older change", seenAs("9", 1), false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, calls := watching()
			w.begin(gvr, id, "w")
			require.NoError(t, (&sink{w, scope{gvr, ""}}).take(test.seen, test.gone))
			require.Empty(t, *calls, "the request is not answered yet")
			require.Equal(t, test.want, w.settle(gvr, id, "w", treatment{1}, seenAs("10", 1)))
			require.Equal(t, test.want, w.works["w"][id].drifted)
		})
	}
}

// TestWhatHappensToWhatFailed: an object that could not be written calls for its work when it changes.
func TestWhatHappensToWhatFailed(t *testing.T) {
	w, calls := watching()
	sink := &sink{w, scope{gvr, ""}}
	w.begin(gvr, id, "w")
	require.False(t, w.fail(id, "w"))
	require.NoError(t, sink.Add(seenAs("10", 1)))
	require.Equal(t, []string{"w"}, *calls)
	w.begin(gvr, id, "w")
	require.NoError(t, sink.Update(seenAs("11", 1)))
	require.True(t, w.fail(id, "w"), "it has changed meanwhile")
}

// TestAKindThatComesLater is watched as soon as an object of it was written.
func TestAKindThatComesLater(t *testing.T) {
	w, _ := watching()
	w.streams[scope{gvr, ""}] = &stream{wake: make(chan struct{}, 1)}
	w.begin(gvr, id, "w")
	wake := w.refused(scope{gvr, ""}, true)
	require.True(t, w.blind(gvr, "n"))
	require.Empty(t, wake)
	w.settle(gvr, id, "w", treatment{1}, seenAs("10", 1))
	require.Len(t, wake, 1)
	w.allowed(scope{gvr, ""})
	require.False(t, w.blind(gvr, "n"))
}

// TestNewKinds: whatever happens to a definition may mean that another kind is served.
func TestNewKinds(t *testing.T) {
	for _, test := range []struct {
		gvr  schema.GroupVersionResource
		want int
	}{{definitions, 4}, {gvr, 0}} {
		calls := 0
		w := newWatcher(nil, clocktesting.NewFakePassiveClock(time.Now()), nil, func() { calls++ })
		sink := &sink{w, scope{test.gvr, ""}}
		require.NoError(t, sink.Add(seenAs("1", 1)))
		require.NoError(t, sink.Update(seenAs("2", 1)))
		require.NoError(t, sink.Delete(seenAs("3", 1)))
		require.NoError(t, sink.Replace(nil, "4"))
		require.Equal(t, test.want, calls)
	}
}

// TestWhatIsMissingFromAList is gone, if the list is not older than what is known.
func TestWhatIsMissingFromAList(t *testing.T) {
	for _, test := range []struct {
		name    string
		scope   scope
		listed  []any
		version string
		want    bool
	}{
		{"it is listed", scope{gvr, ""}, []any{seenAs("10", 1)}, "20", false},
		{"it is not", scope{gvr, ""}, nil, "20", true},
		{"it was not, when it was not made yet", scope{gvr, ""}, nil, "9", false},
		{"another namespace was listed", scope{gvr, "other"}, nil, "20", false},
		{"another kind was listed", scope{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}, ""}, nil, "20", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, calls := watching()
			w.settle(gvr, id, "w", treatment{1}, seenAs("10", 1))
			require.NoError(t, (&sink{w, test.scope}).Replace(test.listed, test.version))
			require.Equal(t, test.want, len(*calls) == 1)
		})
	}
}

// TestForget leaves nothing behind of what a work no longer has.
func TestForget(t *testing.T) {
	other := id
	other.Name = "e"
	w, _ := watching()
	w.settle(gvr, id, "w", treatment{1}, seenAs("10", 1))
	w.settle(gvr, other, "w", treatment{1}, seenAs("10", 1))
	w.settle(gvr, id, "v", treatment{1}, seenAs("10", 1))
	w.forget("w", map[identity]bool{id: true})
	require.Len(t, w.objects, 1)
	require.Equal(t, 2, w.users[scope{gvr, ""}])
	w.forget("w", nil)
	w.forget("v", nil)
	require.Empty(t, w.objects)
	require.Empty(t, w.works)
	require.Empty(t, w.users)
}

// TestLooking: an object is looked at again only when it has changed, and as often as its work wants.
func TestLooking(t *testing.T) {
	const every = 10 * time.Second
	for _, test := range []struct {
		name  string
		seen  *metav1.PartialObjectMetadata
		after time.Duration
		rules byte
		known bool // what was found still holds
		wait  time.Duration
	}{
		{"nothing has happened", nil, 0, 1, true, 0},
		{"it has changed just now", seenAs("11", 1), 4 * time.Second, 1, true, 6 * time.Second},
		{"it has changed", seenAs("11", 1), every, 1, false, 0},
		{"other rules", nil, 0, 2, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(time.Now())
			var delay time.Duration = -1
			w := newWatcher(nil, clock, func(_ string, d time.Duration, _ change) { delay = d }, func() {})
			w.streams[scope{gvr, ""}] = &stream{synced: true}
			w.settle(gvr, id, "w", treatment{1}, seenAs("10", 1))
			w.find(id, "w", every, &findings{rules: [32]byte{1}}, seenAs("10", 1))
			clock.SetTime(clock.Now().Add(test.after))
			if test.seen != nil {
				require.NoError(t, (&sink{w, scope{gvr, ""}}).Update(test.seen))
				require.Equal(t, max(0, every-test.after), delay, "the work is called for when it may look again")
			}
			f, wait := w.found(id, "w", [32]byte{test.rules}, every)
			require.Equal(t, test.known, f != nil)
			require.Equal(t, test.wait, wait)
		})
	}
}
