package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

func TestFirstOf(t *testing.T) {
	broken := errors.New("broken")
	absent := func() (*rest.Config, error) { return nil, errAbsent }
	there := func() (*rest.Config, error) { return &rest.Config{Host: "there"}, nil }
	for _, test := range []struct {
		name    string
		sources []source
		want    string // of the error
	}{
		{"the first that is there", []source{{"a", absent}, {"b", there}}, ""},
		{"one that is broken is not passed over", []source{{"a", func() (*rest.Config, error) { return nil, broken }}, {"b", there}}, "broken"},
		{"none", []source{{"a", absent}, {"b", absent}}, "tried a, b; name a kubeconfig with --kubeconfig"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config, err := firstOf(test.sources)
			if test.want == "" {
				require.NoError(t, err)
				require.Equal(t, "there", config.Host)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestFromFile(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "names no cluster"},
		{"not YAML", "\t{", "cannot be used"},
		{"something else", "[1, 2]", "cannot be used"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(dir, test.name)
			require.NoError(t, os.WriteFile(file, []byte(test.text), 0o600))
			_, err := fromFile(file)
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, file)
		})
	}
	_, err := SpokeConfig(filepath.Join(dir, "absent"))
	require.ErrorContains(t, err, "is not there")
}
