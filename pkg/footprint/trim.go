package footprint

import (
	"context"
	"runtime/metrics"
	"time"

	"github.com/sirupsen/logrus"
)

const (
	// settling is how long after readiness start-up still goes on: caches fill, and the first garbage collections walk
	// through tables of everything.
	settling = 10 * time.Second
	settled  = 25 * time.Second
	// look is how often a process that has settled is looked at. That costs a few microseconds.
	look = 10 * time.Second
	// every is how often it gives memory back if it never had a burst of work. It costs a tenth of a second.
	every = 10 * time.Minute

	// burstBytes is what a process allocates between two looks when it works hard. An idle one allocates a tenth of it.
	burstBytes = 64 << 20
)

// Trim releases memory while a process settles, after each burst of work and from time to time, until ctx ends. What cannot
// be given back is only kept.
func Trim(ctx context.Context, log logrus.FieldLogger) error {
	for _, d := range []time.Duration{settling, settled - settling} {
		if !pause(ctx, d) {
			return nil
		}
		release(log)
	}
	work := burst{before: allocated()}
	last := time.Now()
	for pause(ctx, look) {
		if work.over(allocated()) || time.Since(last) >= every {
			release(log)
			last = time.Now()
		}
	}
	return nil
}

// burst notices when a process that worked hard does so no more. While it does, its garbage is of use: it will be memory
// again in a moment.
type burst struct {
	before uint64 // bytes that the process had allocated at the last look
	hard   bool   // whether it worked hard then
}

func (b *burst) over(allocated uint64) bool {
	hard := allocated-b.before >= burstBytes
	over := b.hard && !hard
	b.before, b.hard = allocated, hard
	return over
}

// allocated is how many bytes the process has allocated since it started, whatever became of them.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// pause tells whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func release(log logrus.FieldLogger) {
	if err := Release(); err != nil {
		log.WithError(err).Debug("memory is not given back")
	}
}
