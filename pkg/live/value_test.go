package live

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWatch(t *testing.T) {
	v := New([]string{"a"})
	before, changed := v.Watch()
	require.Equal(t, []string{"a"}, before)

	v.Update(func([]string) []string { return []string{"a"} })
	select {
	case <-changed:
		t.Fatal("told of a change that changes nothing")
	default:
	}

	v.Update(func(s []string) []string { return append(s[:1:1], "b") })
	<-changed
	require.Equal(t, []string{"a", "b"}, v.Get())
	require.Equal(t, []string{"a"}, before, "what was read stays as it was")
}

func TestUpdateByMany(t *testing.T) {
	const writers = 50
	v := New(0)
	var done sync.WaitGroup
	for range writers {
		done.Go(func() { v.Update(func(n int) int { return n + 1 }) })
	}
	done.Wait()
	require.Equal(t, writers, v.Get())
}
