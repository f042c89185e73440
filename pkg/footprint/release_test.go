package footprint

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadOnly(t *testing.T) {
	for _, test := range []struct {
		name, line string
		want       bool
	}{
		{"code", "00400000-02e1b000 r-xp 00000000 fe:00 1966101   /usr/local/bin/nave", true},
		{"tables", "02e1b000-06d00000 r--p 02a1b000 fe:00 1966101   /usr/local/bin/nave", true},
		{"data", "06d00000-06e00000 rw-p 06900000 fe:00 1966101   /usr/local/bin/nave", false},
		{"heap", "c000000000-c004000000 rw-p 00000000 00:00 0 ", false},
		{"another file", "7f00-7f10 r-xp 00000000 fe:00 12   /usr/lib/libc.so.6", false},
		{"nothing", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, ok := readOnly(test.line, "/usr/local/bin/nave")
			require.Equal(t, test.want, ok)
		})
	}
}

func TestTheProcessGoesOn(t *testing.T) {
	require.NoError(t, Release())
	require.NoError(t, Release(), "and a second time")
}
