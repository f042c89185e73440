package footprint

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const mb = 1 << 20

func TestPercent(t *testing.T) {
	for _, test := range []struct {
		name string
		heap heap
		most int
		want int
	}{
		{"everything holds pointers", heap{live: 100 * mb, walked: 100 * mb, roots: 10 * mb}, 100, 100},
		{"half are bytes", heap{live: 400 * mb, walked: 200 * mb}, 100, 50},
		{"a small heap of bytes", heap{live: 100 * mb, walked: 1 * mb}, 100, 100},
		{"a larger one", heap{live: 256 * mb, walked: 10 * mb}, 100, 50},
		{"nearly all are bytes", heap{live: 1000 * mb, walked: 10 * mb}, 100, leastPercent},
		{"somebody wants less", heap{live: 100 * mb, walked: 100 * mb}, 40, 40},
		{"nothing was collected yet", heap{}, 100, 100},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, percent(test.heap, test.most))
		})
	}
}

// TestPace fills the heap with bytes, and waits until the collector is told.
func TestPace(t *testing.T) {
	before, on := gcPercent()
	require.True(t, on)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- Pace(ctx) }()
	manifests := make([][]byte, 320)
	for i := range manifests {
		manifests[i] = make([]byte, mb)
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		now, _ := gcPercent()
		return now < before/2
	}, time.Minute, 10*time.Millisecond)
	runtime.KeepAlive(manifests)
	cancel()
	require.NoError(t, <-done)
	after, _ := gcPercent()
	require.Equal(t, before, after, "who comes after has what was set before")
}

func TestPaceLeavesOffOff(t *testing.T) {
	before := debug.SetGCPercent(-1)
	defer debug.SetGCPercent(before)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, Pace(ctx))
	_, on := gcPercent()
	require.False(t, on)
}
