package footprint

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBurst(t *testing.T) {
	const little, much = mb, 2 * burstBytes
	for _, test := range []struct {
		name  string
		steps []uint64 // bytes that are allocated from look to look
		over  []bool
	}{
		{"idle", []uint64{little, little, little}, []bool{false, false, false}},
		{"a burst", []uint64{little, much, little, little}, []bool{false, false, true, false}},
		{"a long one", []uint64{much, much, much, little}, []bool{false, false, false, true}},
		{"two", []uint64{much, little, much, little}, []bool{false, true, false, true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := burst{before: 5 * mb}
			total := b.before
			var over []bool
			for _, bytes := range test.steps {
				total += bytes
				over = append(over, b.over(total))
			}
			require.Equal(t, test.over, over)
		})
	}
}

var kept []byte

func TestAllocated(t *testing.T) {
	before := allocated()
	require.NotZero(t, before)
	kept = make([]byte, burstBytes)
	require.True(t, (&burst{before: before, hard: true}).over(before))
	require.GreaterOrEqual(t, allocated()-before, uint64(burstBytes))
	kept = nil
}
