// Package reconcile runs one keyed, rate-limited work queue: the shape that every controller of the hub and every loop of
// the agent has in common. What to decide for a key is the caller's; this package owns workers, retries and stopping.
package reconcile

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"

	"nave/pkg/log"
)

const (
	// firstRetry and lastRetry bound the back-off of one failing key. The first retry is short because most failures are
	// conflicts and objects that are about to appear; the last one keeps a key that can never succeed cheap.
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Minute
)

// Func brings the world in line with the object named by key. A returned error is logged and retried with back-off; a
// positive duration asks to be called again after it, which is not an error.
type Func func(ctx context.Context, key string) (again time.Duration, err error)

// Loop is a queue of keys and the workers that empty it. The same key is never handled by two workers at a time.
type Loop struct {
	log     logrus.FieldLogger
	name    string
	workers int
	fn      Func
	queue   workqueue.TypedRateLimitingInterface[string]
	pace    *pace
}

// New returns a loop that calls fn with the given number of workers once Run is called. Keys may be added before.
func New(name string, logger logrus.FieldLogger, workers int, fn Func) *Loop {
	return NewPaced(name, logger, workers, 0, fn)
}

// NewPaced returns a loop that leaves at least an interval between two calls for the same key. The first change is acted on
// at once; of a thousand that follow in a second, each is in one of a few calls.
func NewPaced(name string, logger logrus.FieldLogger, workers int, interval time.Duration, fn Func) *Loop {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)
	return &Loop{
		log:     logger.WithField(log.FieldLoop, name),
		name:    name,
		workers: workers,
		fn:      fn,
		queue:   workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[string]{Name: name}),
		pace:    newPace(interval),
	}
}

// Add asks for key to be handled as soon as a worker is free. A new event also ends the back-off of a failing key.
func (l *Loop) Add(key string) {
	l.queue.Forget(key)
	l.queue.Add(key)
}

// AddAfter asks for key to be handled once the duration is over.
func (l *Loop) AddAfter(key string, d time.Duration) { l.queue.AddAfter(key, d) }

// Waiting is how many keys wait for a worker.
func (l *Loop) Waiting() int { return l.queue.Len() }

// Run works until ctx ends and returns when every worker has stopped.
func (l *Loop) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, l.queue.ShutDown)
	defer stop()
	var workers sync.WaitGroup
	for range l.workers {
		workers.Go(func() {
			for l.next(ctx) {
			}
		})
	}
	workers.Wait()
	return nil
}

func (l *Loop) next(ctx context.Context) bool {
	key, down := l.queue.Get()
	if down {
		return false
	}
	defer l.queue.Done(key)
	if left := l.pace.left(key, time.Now()); left > 0 {
		l.queue.AddAfter(key, left)
		return true
	}
	again, err := l.call(ctx, key)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		l.log.WithField(log.FieldKey, key).WithError(err).Debug("will try again")
		l.queue.AddRateLimited(key)
	case again > 0:
		l.queue.Forget(key)
		l.queue.AddAfter(key, again)
	default:
		l.queue.Forget(key)
	}
	return true
}

// call turns a panic into an error, so that one bad object cannot end the process.
func (l *Loop) call(ctx context.Context, key string) (again time.Duration, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic in loop %s on %q: %v", l.name, key, r)
			l.log.WithField(log.FieldKey, key).WithField("stack", string(debug.Stack())).Error(err)
		}
	}()
	return l.fn(ctx, key)
}

// Jitter spreads d by up to a quarter, so that a thousand loops do not wake in the same instant.
func Jitter(d time.Duration) time.Duration { return wait.Jitter(d, 0.25) }
