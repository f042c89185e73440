package reconcile

import (
	"sync"
	"time"
)

// pace leaves an interval between two calls for the same key.
type pace struct {
	interval time.Duration

	mu    sync.Mutex
	begun map[string]time.Time // the last call for a key, as long as the next one has to wait for it
	swept time.Time
}

func newPace(interval time.Duration) *pace {
	return &pace{interval: interval, begun: map[string]time.Time{}}
}

// left is how long a call for a key has to wait. If that is not at all, it begins now.
func (p *pace) left(key string, now time.Time) time.Duration {
	if p.interval <= 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := p.interval - now.Sub(p.begun[key]); left > 0 {
		return left
	}
	p.sweep(now)
	p.begun[key] = now
	return 0
}

// sweep forgets the keys that nobody has to wait for any more, at most once in an interval.
func (p *pace) sweep(now time.Time) {
	if now.Sub(p.swept) < p.interval {
		return
	}
	p.swept = now
	for key, begun := range p.begun {
		if now.Sub(begun) >= p.interval {
			delete(p.begun, key)
		}
	}
}
