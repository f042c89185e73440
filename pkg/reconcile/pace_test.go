package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
)

func TestPace(t *testing.T) {
	p, start := newPace(time.Second), time.Now()
	for _, test := range []struct {
		name string
		key  string
		at   time.Duration
		left time.Duration
	}{
		{"the first one does not wait", "a", 0, 0},
		{"the next one waits for what is left", "a", 300 * time.Millisecond, 700 * time.Millisecond},
		{"another key does not", "b", 300 * time.Millisecond, 0},
		{"one that waited counts from when it began", "a", time.Second, 0},
		{"and the next one from then", "a", 1500 * time.Millisecond, 500 * time.Millisecond},
		{"late ones do not wait", "b", time.Hour, 0},
	} {
		require.Equal(t, test.left, p.left(test.key, start.Add(test.at)), test.name)
	}
	require.Len(t, p.begun, 1, "what nobody waits for any more is forgotten")
}

// A pace must not end the back-off of a key that fails: each call would then be a first failure.
func TestPacedLoopBacksOff(t *testing.T) {
	logger := logrus.New()
	logger.SetLevel(logrus.PanicLevel)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var loop *Loop
	calls := 0
	loop = NewPaced("test", logger, 1, 30*time.Millisecond, func(_ context.Context, key string) (time.Duration, error) {
		require.Equal(t, calls, loop.queue.NumRequeues(key))
		if calls++; calls == 6 {
			cancel()
		}
		return 0, errors.New("not yet")
	})
	loop.Add("key")
	require.NoError(t, loop.Run(ctx))
	require.Equal(t, 6, calls)
}
