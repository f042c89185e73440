package workload

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"nave/pkg/hub"
	"nave/test/hubtest"
)

// TestLimitsOfHubs applies the same chart to hubs whose limits somebody has changed.
func TestLimitsOfHubs(t *testing.T) {
	for _, test := range []struct {
		name  string
		limit int
		size  string
		works int // at least; exactly one if 1
	}{
		{"a larger one is made use of", 2 << 20, "huge", 1},
		{"a smaller one is learned from a refusal", 40 << 10, "medium", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, err := hubtest.Start(hub.Config{WorkLimitBytes: test.limit})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, h.Stop()) })
			b := benchOf(t, h, "c1")
			objects := chart(t, test.size)
			_, err = b.apply(objects)
			require.NoError(t, err)
			works := b.works()
			if test.works == 1 {
				require.Len(t, works, 1)
			}
			require.GreaterOrEqual(t, len(works), test.works)
			total := 0
			for _, w := range works {
				held := objectsIn(w)
				size := 0
				for _, o := range held {
					size += o.size()
				}
				require.LessOrEqual(t, size, test.limit)
				total += len(held)
			}
			require.Equal(t, len(objects), total)
		})
	}
}

func TestLimitIn(t *testing.T) {
	for text, want := range map[string]int{
		"the size of manifests is 9 bytes which exceeds the 8 limit":                                                     8,
		`admission webhook "x" denied the request: the size of manifests is 600000 bytes which exceeds the 512000 limit`: 512000,
		"the size of manifests is 9 bytes which exceeds the 99999999999999999999999 limit":                               0,
		"forbidden": 0,
	} {
		require.Equal(t, want, limitIn(errors.New(text)), text)
	}
	require.Zero(t, limitIn(nil))
}
