package workload

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/rollout"
)

// breached and goesOn are what works may say.
var (
	breached = []Progress{{Whole: true, Result: &rollout.Result{Failed: []string{"a"}, Waiting: []string{"b", "c"}, Breached: true}}}
	goesOn   = []Progress{{Whole: true, Result: &rollout.Result{Underway: []string{"a"}, Waiting: []string{"b", "c"}}}}
)

// theater is a hub of which a test says what it answers.
type theater struct {
	follower
	at       time.Time
	set      *workv1alpha1.ManifestWorkReplicaSet
	answers  error // to whoever asks for the set
	progress []Progress
	read     int // how often the works were read
	told     []string
}

func newTheater() *theater {
	th := &theater{at: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), set: &workv1alpha1.ManifestWorkReplicaSet{}}
	th.set.Generation = 1
	th.follower = follower{
		set: ReplicaSet{Namespace: "shops", Name: "till"},
		now: func() time.Time { return th.at },
		head: func(context.Context) (*metav1.PartialObjectMetadata, error) {
			return &metav1.PartialObjectMetadata{ObjectMeta: th.set.ObjectMeta}, th.answers
		},
		get: func(context.Context) (*workv1alpha1.ManifestWorkReplicaSet, error) {
			return th.set.DeepCopy(), th.answers
		},
		progress: func(context.Context, *workv1alpha1.ManifestWorkReplicaSet) ([]Progress, error) {
			th.read++
			return th.progress, nil
		},
		tell: func(text string) { th.told = append(th.told, text) },
	}
	return th
}

// says makes the hub say something of the rollout.
func (th *theater) says(status metav1.ConditionStatus, message string) {
	version, _ := strconv.Atoi(th.set.ResourceVersion)
	th.set.ResourceVersion = strconv.Itoa(version + 1)
	th.set.Status.Conditions = []metav1.Condition{{
		Type: workv1alpha1.ManifestWorkReplicaSetConditionPlacementRolledOut, Status: status, Message: message, ObservedGeneration: th.set.Generation,
	}}
}

// pass lets seconds pass, with a look in each.
func (th *theater) pass(seconds int) (over bool, err error) {
	for range seconds {
		th.at = th.at.Add(time.Second)
		if over, err = th.look(context.Background()); over || err != nil {
			return over, err
		}
	}
	return false, nil
}

const still = int(stillness / time.Second)

func TestFollow(t *testing.T) {
	away := apierrors.NewServiceUnavailable("starting")
	for _, test := range []struct {
		name string
		play func(*theater) (bool, error)
		over bool
		err  string // what it ends with
		read int
		told string
	}{
		{name: "complete", over: true, told: "1 of 2|done", play: func(th *theater) (bool, error) {
			th.says(metav1.ConditionFalse, "1 of 2")
			if over, err := th.pass(3); over || err != nil {
				return over, err
			}
			th.says(metav1.ConditionTrue, "done")
			return th.pass(1)
		}},
		{name: "of an earlier generation", told: "", play: func(th *theater) (bool, error) {
			th.says(metav1.ConditionTrue, "done")
			th.set.Generation++
			return th.pass(2 * still)
		}},
		{name: "too many have failed", err: "has stopped, failed clusters: 1, waiting: 2; nave work rollout status till -n shops", read: 1, told: "stuck",
			play: func(th *theater) (bool, error) {
				th.says(metav1.ConditionFalse, "stuck")
				th.progress = breached
				return th.pass(2 * still)
			}},
		{name: "too many have failed, but not for long", over: true, told: "stuck|goes on|done", play: func(th *theater) (bool, error) {
			th.says(metav1.ConditionFalse, "stuck")
			th.progress = breached
			if over, err := th.pass(still); over || err != nil {
				return over, err
			}
			th.says(metav1.ConditionFalse, "goes on")
			if over, err := th.pass(still); over || err != nil {
				return over, err
			}
			th.says(metav1.ConditionTrue, "done")
			return th.pass(1)
		}},
		{name: "slow: the works are read once while nothing happens", read: 1, told: "1 of 3", play: func(th *theater) (bool, error) {
			th.says(metav1.ConditionFalse, "1 of 3")
			th.progress = goesOn
			return th.pass(10 * still)
		}},
		{name: "slow, then too many fail", err: "has stopped", read: 2, told: "1 of 3|stuck", play: func(th *theater) (bool, error) {
			th.says(metav1.ConditionFalse, "1 of 3")
			th.progress = goesOn
			if over, err := th.pass(2 * still); over || err != nil {
				return over, err
			}
			th.says(metav1.ConditionFalse, "stuck")
			th.progress = breached
			return th.pass(2 * still)
		}},
		{name: "paused", err: "is paused; nave work rollout resume till -n shops", told: "1 of 2", play: func(th *theater) (bool, error) {
			th.says(metav1.ConditionFalse, "1 of 2")
			th.set.Annotations = map[string]string{rollout.PausedAnnotation: "true"}
			return th.pass(1)
		}},
		{name: "the hub starts again", over: true, told: "1 of 2|the hub cannot be asked, which is tried again: starting|done", play: func(th *theater) (bool, error) {
			th.says(metav1.ConditionFalse, "1 of 2")
			th.progress = breached
			if over, err := th.pass(still - 1); over || err != nil {
				return over, err
			}
			th.answers = away
			if over, err := th.pass(10 * still); over || err != nil {
				return over, err
			}
			th.answers = nil
			if over, err := th.pass(still - 1); over || err != nil {
				return over, err // nothing can happen while the hub is away
			}
			th.says(metav1.ConditionTrue, "done")
			return th.pass(1)
		}},
		{name: "no hub", err: "starting", play: func(th *theater) (bool, error) {
			th.answers = away
			return th.pass(1)
		}},
		{name: "deleted meanwhile", err: "namespace shops has no replica set till", told: "1 of 2", play: func(th *theater) (bool, error) {
			th.says(metav1.ConditionFalse, "1 of 2")
			if over, err := th.pass(1); over || err != nil {
				return over, err
			}
			th.answers = MissingError{th.follower.set}
			return th.pass(1)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			th := newTheater()
			over, err := test.play(th)
			require.Equal(t, test.over, over)
			if test.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.err)
			}
			require.Equal(t, test.read, th.read)
			require.Equal(t, test.told, strings.Join(th.told, "|"))
		})
	}
}

func TestExpired(t *testing.T) {
	th := newTheater()
	_, err := th.pass(1)
	require.NoError(t, err)
	require.ErrorContains(t, th.expired(context.DeadlineExceeded), "not complete in time: the hub has not said anything about it")
	th.says(metav1.ConditionFalse, "1 of 2")
	_, err = th.pass(1)
	require.NoError(t, err)
	require.ErrorContains(t, th.expired(context.DeadlineExceeded), "rollout of replica set till of namespace shops is not complete in time: 1 of 2; it goes on")
	th.answers = errors.New("connection refused")
	_, err = th.pass(1)
	require.NoError(t, err)
	require.ErrorContains(t, th.expired(context.DeadlineExceeded), "1 of 2; then the hub could not be asked: connection refused; it goes on")
	th.progress = breached
	over, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	require.Equal(t, breached, th.left(over), "what has failed is told at the end")
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	require.Nil(t, th.left(interrupted))
	require.Equal(t, context.Canceled, th.expired(context.Canceled), "whoever interrupts knows why")
}

func TestStopped(t *testing.T) {
	of := func(r rollout.Result) Progress { return Progress{Whole: true, Result: &r} }
	a, b := []string{"a"}, []string{"b"}
	done := of(rollout.Result{Done: 3})
	late := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name     string
		progress []Progress
		want     string
		patient  string // the same for who waits for some time
	}{
		{"all is done", []Progress{done}, "", ""},
		{"too many have failed", []Progress{of(rollout.Result{Failed: a, TimedOut: b, Waiting: []string{"c"}, Breached: true})}, "failed clusters: 2, waiting: 1", "failed clusters: 2, waiting: 1"},
		{"and others are under way", []Progress{of(rollout.Result{Failed: a, Underway: b, Breached: true})}, "", ""},
		{"and others have to stay well", []Progress{of(rollout.Result{Failed: a, Soaking: b, Breached: true})}, "", ""},
		{"the tolerated failures hold all places", []Progress{of(rollout.Result{Failed: a, Waiting: b, Stalled: true})}, "which keep their places; waiting for one: 1", "which keep their places; waiting for one: 1"},
		{"until their deadline", []Progress{of(rollout.Result{Failed: a, Waiting: b, Next: late})}, "", ""},
		{"only failures are left, and may recover", []Progress{of(rollout.Result{Failed: a, Done: 5})}, "failed clusters: 1, waiting: 0", ""},
		{"only those are left that were given their time", []Progress{of(rollout.Result{TimedOut: a, Done: 5})}, "failed clusters: 1, waiting: 0", "failed clusters: 1, waiting: 0"},
		{"the hub is about to write", []Progress{of(rollout.Result{Failed: a, Apply: b})}, "", ""},
		{"one placement of two has stopped", []Progress{done, of(rollout.Result{Failed: a, Breached: true})}, "failed clusters: 1, waiting: 0", "failed clusters: 1, waiting: 0"},
		{"and the other goes on", []Progress{of(rollout.Result{Underway: b}), of(rollout.Result{Failed: a, Breached: true})}, "", ""},
		{"no such placement", []Progress{{Missing: true, Result: &rollout.Result{}}}, "", ""},
		{"decisions are still to come", []Progress{{Result: &rollout.Result{Failed: a, Breached: true}}}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			for patient, want := range map[bool]string{false: test.want, true: test.patient} {
				if want == "" {
					require.Empty(t, stopped(test.progress, patient))
				} else {
					require.Contains(t, stopped(test.progress, patient), want)
				}
			}
		})
	}
}

// TestMissing tells an object that is not there from a hub that does not know its kinds yet.
func TestMissing(t *testing.T) {
	kind := schema.GroupResource{Group: workv1alpha1.GroupName, Resource: "manifestworkreplicasets"}
	require.True(t, missing(apierrors.NewNotFound(kind, "till")))
	require.False(t, missing(apierrors.NewGenericServerResponse(404, "get", kind, "till", "404 page not found", 0, true)))
	require.False(t, missing(apierrors.NewServiceUnavailable("starting")))
	require.False(t, missing(nil))
}

// TestSaid: what is wrong with the placement goes before what is said of the rollout.
func TestSaid(t *testing.T) {
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	set.Generation = 2
	require.Empty(t, saidOf(set))
	set.Status.Conditions = []metav1.Condition{
		{Type: "PlacementRolledOut", Status: metav1.ConditionFalse, Message: "0 of\n0", ObservedGeneration: 2},
		{Type: "PlacementVerified", Status: metav1.ConditionFalse, Message: "no such placement", ObservedGeneration: 2},
	}
	require.Equal(t, "no such placement; 0 of 0", saidOf(set))
	set.Status.Conditions[1].Status = metav1.ConditionTrue
	require.Equal(t, "0 of 0", saidOf(set))
	set.Generation = 3
	require.Empty(t, saidOf(set))
}
