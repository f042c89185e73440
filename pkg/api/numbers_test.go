package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func TestCheckNumbers(t *testing.T) {
	for _, test := range []struct {
		name, text string
		ok         bool
	}{
		{"none", `{"a":"b"}`, true},
		{"usual ones", `{"a":[0,-1,1.5,9007199254740993,1e3,2E-7,-0.0]}`, true},
		{"an integer of more than 64 bits", `[123456789012345678901234567890]`, true},
		{"nearly nothing", `1e-999999`, true},
		{"the largest float", `1.7976931348623157e308`, true},
		{"out of range", `{"a":{"b":[1,1e999]}}`, false},
		{"out of range below", `-1E+400`, false},
		{"out of range by its digits", `{"a":` + strings.Repeat("9", 400) + `}`, false},
		{"many digits behind the point", `{"a":0.` + strings.Repeat("1", 400) + `}`, true},
		{"in a string", `{"a":"1e999","\\\"1e999":"\""}`, true},
		{"behind a string with quotes", `{"a":"\"","b":1e999}`, false},
		{"behind a backslash", `{"a":"\\","b":1e999}`, false},
		{"no JSON", `{"a":"1e999`, true},
		{"at the end of what is no JSON", `"a\`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := checkNumbers([]byte(test.text))
			if test.ok {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "out of range")
			require.Less(t, len(err.Error()), 100)
		})
	}
}

// FuzzCheckNumbers holds the check against the decoder whose failure it foresees.
func FuzzCheckNumbers(f *testing.F) {
	for _, seed := range []string{`{"a":[1e999,"1e999",-0.5e+3]}`, `1` + strings.Repeat("0", 400), `{"\\":"\""}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		err := checkNumbers(text)
		if !json.Valid(text) {
			return // some decoder says so
		}
		var value any
		require.Equal(t, utiljson.Unmarshal(text, &value) == nil, err == nil)
	})
}
