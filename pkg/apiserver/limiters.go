package apiserver

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

// limiters are token buckets by key, such as one for each address that somebody comes from. Only so many keys are
// remembered, those that were used last, so that nobody can fill the memory with them.
type limiters struct {
	buckets *lru.Cache
	every   rate.Limit
	burst   int
	clock   clock.PassiveClock
}

func newLimiters(keys int, every time.Duration, burst int, clock clock.PassiveClock) *limiters {
	return &limiters{buckets: lru.New(keys), every: rate.Every(every), burst: burst, clock: clock}
}

func (l *limiters) bucket(key string) *rate.Limiter {
	if found, ok := l.buckets.Get(key); ok {
		return found.(*rate.Limiter)
	}
	made := rate.NewLimiter(l.every, l.burst)
	l.buckets.Add(key, made)
	return made
}

// take takes one from the key's bucket, and tells whether there was one.
func (l *limiters) take(key string) bool { return l.bucket(key).AllowN(l.clock.Now(), 1) }

// wait is how long it takes until there is one in the key's bucket; zero if there is.
func (l *limiters) wait(key string) time.Duration {
	b := l.bucket(key)
	missing := 1 - b.TokensAt(l.clock.Now())
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing / float64(b.Limit()) * float64(time.Second))
}
