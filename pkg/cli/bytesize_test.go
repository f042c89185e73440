package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestByteSize(t *testing.T) {
	for _, test := range []struct {
		text string
		want int // -1 is refused
		back string
	}{
		{"500KiB", 500 << 10, "500KiB"},
		{"500Ki", 500 << 10, "500KiB"},
		{"1MiB", 1 << 20, "1MiB"},
		{"512001", 512001, "512001"},
		{"0", 0, "0"},
		{"-1", -1, ""},
		{"8Gi", -1, ""},
		{"much", -1, ""},
		{"", -1, ""},
	} {
		t.Run(test.text, func(t *testing.T) {
			var s byteSize
			err := s.Set(test.text)
			if test.want < 0 {
				require.ErrorContains(t, err, "no size such as 500KiB")
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, int(s))
			require.Equal(t, test.back, s.String())
		})
	}
}
