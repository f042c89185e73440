package work

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"nave/pkg/reconcile"
)

const (
	// driftBurst repairs of one work come at once, further ones at driftEvery: two writers that each want their own would
	// otherwise keep an API server busy with nothing else.
	driftBurst = 20
	driftEvery = time.Second

	// A manifest that failed in a way that only a person can mend is tried again after firstFailed, then after twice as long
	// each time, up to lastFailed. What a watch can see, such as a right that was granted to an executor, ends the wait.
	firstFailed = 4 * time.Second
	lastFailed  = 45 * time.Second

	// One that waits for something that is about to be there is tried again much sooner, since most often it is another
	// manifest of the same work.
	firstSoon = 20 * time.Millisecond
	lastSoon  = 10 * time.Second

	// patience is how many tries of that sort are made before anything is said about it: some 150 milliseconds.
	patience = 3

	// blindEvery is how often objects are looked at whose changes the agent cannot watch.
	blindEvery = 20 * time.Second
)

// pace says how soon works are looked at again.
type pace struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	repairs  map[string]*rate.Limiter // by work
	failures map[string]int           // in a row, by work
}

func newPace(clock clock.PassiveClock) *pace {
	return &pace{clock: clock, repairs: map[string]*rate.Limiter{}, failures: map[string]int{}}
}

// drift is how long the repair of a work has to wait.
func (p *pace) drift(work string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.repairs[work] == nil {
		p.repairs[work] = rate.NewLimiter(rate.Every(driftEvery), driftBurst)
	}
	now := p.clock.Now()
	return p.repairs[work].ReserveN(now, 1).DelayFrom(now)
}

// failed is after how long a work that failed once more is tried again. soon is for what may pass by itself.
func (p *pace) failed(work string, soon bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	first, last := firstFailed, lastFailed
	if soon {
		first, last = firstSoon, lastSoon
	}
	n := min(p.failures[work], 16) // twice as long so often is longer than any of the limits
	p.failures[work]++
	return reconcile.Jitter(min(first<<n, last))
}

// inARow is how often a work has failed since it succeeded last.
func (p *pace) inARow(work string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures[work]
}

// succeeded ends a row of failures.
func (p *pace) succeeded(work string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.failures, work)
}

// forget drops what is known of a work that is no more.
func (p *pace) forget(work string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.repairs, work)
	delete(p.failures, work)
}
