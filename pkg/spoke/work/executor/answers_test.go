package executor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestAnswersAge(t *testing.T) {
	for _, test := range []struct {
		name    string
		watched bool // every kind that decides
		changed bool // something, just before the answer
		given   answer
		lives   time.Duration
	}{
		{"allowed", true, false, answer{allowed: true}, watchedAge},
		{"allowed, and nobody tells of changes", false, false, answer{allowed: true}, unwatchedAge},
		{"denied", true, false, answer{}, deniedAge},
		{"denied, and nobody tells of changes", false, false, answer{}, deniedAge},
		{"just after a change", true, true, answer{allowed: true}, settlingAge},
		{"denied just after a change", true, true, answer{}, settlingAge},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(time.Now())
			a := newAnswers(clock, len(deciding))
			for i, kind := range deciding {
				a.watching(kind, i > 0 || test.watched)
			}
			if test.changed {
				a.forget(nil)
			}
			_, epoch := a.get(question{})
			a.put(question{}, test.given, epoch)
			clock.SetTime(clock.Now().Add(test.lives - time.Millisecond))
			known, _ := a.get(question{})
			require.Equal(t, &test.given, known)
			clock.SetTime(clock.Now().Add(2 * time.Millisecond))
			known, _ = a.get(question{})
			require.Nil(t, known)
		})
	}
}

func TestAnswersAreForgotten(t *testing.T) {
	for _, test := range []struct {
		name   string
		event  func(*answers)
		stands bool
	}{
		{"nothing", func(*answers) {}, true},
		{"a change", func(a *answers) { a.forget([]account{{"d", "other"}, {"d", "errand"}}) }, false},
		{"changes that nobody saw", (*answers).forgetAll, false},
		{"a watch that ends", func(a *answers) { a.watching("roles", false) }, false},
		{"a watch that still runs", func(a *answers) { a.watching("roles", true) }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAnswers(clocktesting.NewFakePassiveClock(time.Now()), 1)
			a.watching("roles", true)
			before, during := question{account: account{"d", "errand"}, verb: "get"}, question{account: account{"d", "errand"}, verb: "patch"}
			_, epoch := a.get(before)
			a.put(before, answer{allowed: true}, epoch)
			_, epoch = a.get(during)
			test.event(a)
			a.put(during, answer{allowed: true}, epoch) // the API server answered before it
			for _, q := range []question{before, during} {
				known, _ := a.get(q)
				require.Equal(t, test.stands, known != nil, q.verb)
			}
		})
	}
}

func TestAnswersAreBounded(t *testing.T) {
	a := newAnswers(clocktesting.NewFakePassiveClock(time.Now()), 1)
	for i := range maxAnswers + 100 {
		a.put(question{name: fmt.Sprint(i), gvr: schema.GroupVersionResource{Resource: "configmaps"}}, answer{}, 0)
	}
	require.Len(t, a.known.Keys(), maxAnswers)
}
