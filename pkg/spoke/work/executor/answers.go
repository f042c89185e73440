package executor

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
)

const (
	// maxAnswers bounds what is remembered, to some 5 MiB. It is enough for all verbs of 3,000 objects; what is more than
	// that is asked again.
	maxAnswers = 16 * 1024

	// watchedAge is how old an answer may get while what RBAC says is watched: other authorizers tell nobody when they change
	// their minds.
	watchedAge = 10 * time.Minute

	// unwatchedAge is how old it may get while that is not so.
	unwatchedAge = time.Minute

	// deniedAge is shorter than the time until the next try, which so is never answered by memory.
	deniedAge = RetryAfter / 2

	// An API server may hear of a change later than we do. For settling after one, answers are used for settlingAge only.
	settling    = 10 * time.Second
	settlingAge = 2 * time.Second
)

// answers remembers what was answered.
type answers struct {
	clock   clock.PassiveClock
	watches int // how many have to run for RBAC to be watched

	mu      sync.Mutex
	known   *cache.LRUExpireCache
	epoch   int // counts changes; what was asked before one is not remembered after it
	changed time.Time
	running map[string]bool // by kind, whether it is watched; a kind that was not tried yet is not in it
}

func newAnswers(c clock.PassiveClock, watches int) *answers {
	return &answers{clock: c, watches: watches, known: cache.NewLRUExpireCacheWithClock(maxAnswers, c), running: map[string]bool{}}
}

// get is the answer to a question, nil if it has to be asked. The epoch goes with the answer to put.
func (a *answers) get(q question) (*answer, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if found, ok := a.known.Get(q); ok {
		known := found.(answer)
		return &known, a.epoch
	}
	return nil, a.epoch
}

// put remembers an answer, unless something has changed since it was asked for.
func (a *answers) put(q question, given answer, epoch int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if epoch == a.epoch {
		a.known.Add(q, given, a.age(given))
	}
}

// age is how long an answer may be used. The caller holds the lock.
func (a *answers) age(given answer) time.Duration {
	age := watchedAge
	if !a.watched() {
		age = unwatchedAge
	}
	if !given.allowed {
		age = min(age, deniedAge)
	}
	if a.clock.Since(a.changed) < settling {
		age = min(age, settlingAge)
	}
	return age
}

// forget drops the answers about some accounts, after a change. Even one that concerns none of those that were asked about may
// concern the next, about whom an API server may still answer as if it had not happened.
func (a *answers) forget(affected []account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed = a.clock.Now()
	if len(affected) > 0 {
		a.known.RemoveAll(func(q any) bool { return slices.Contains(affected, q.(question).account) })
		a.epoch++
	}
}

// forgetAll drops all answers after changes that nobody saw.
func (a *answers) forgetAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known, a.changed = cache.NewLRUExpireCacheWithClock(maxAnswers, a.clock), a.clock.Now()
	a.epoch++
}

// watched tells whether changes would be heard of. The caller holds the lock.
func (a *answers) watched() bool {
	running := 0
	for _, runs := range a.running {
		if runs {
			running++
		}
	}
	return running == a.watches
}

// watching notes whether a kind is watched, and tells whether that is news. Answers that were to live long are dropped when a
// watch ends, since nobody will tell when they get wrong.
func (a *answers) watching(kind string, runs bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, tried := a.running[kind]
	if tried && before == runs {
		return false
	}
	a.running[kind] = runs
	if !runs {
		a.known = cache.NewLRUExpireCacheWithClock(maxAnswers, a.clock)
		a.epoch++
	}
	return true
}
