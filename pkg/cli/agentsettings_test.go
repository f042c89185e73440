package cli

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"nave/pkg/settings"
)

func TestAgentSettings(t *testing.T) {
	for _, test := range []struct {
		name      string
		arguments []string
		want      func(*settings.Agent)
		err       string
	}{
		{"nothing said", nil, func(*settings.Agent) {}, ""},
		{"all", []string{"--max-custom-cluster-claims=3", "--reserved-cluster-claim-suffixes=a,b", "--cluster-healthcheck-period=5s",
			"--addon-kubeclient-registration-auth=token", "--addon-token-expiration-seconds=600"}, func(s *settings.Agent) {
			s.MaxCustomClaims, s.ReservedClaimSuffixes, s.HealthCheckPeriod = 3, []string{"a", "b"}, 5*time.Second
			s.AddOnTokens, s.AddOnTokenLifetime = true, 10*time.Minute
		}, ""},
		{"unknown driver", []string{"--addon-kubeclient-registration-auth=grpc"}, nil, "it is csr or token"},
		{"short tokens", []string{"--addon-token-expiration-seconds=599"}, nil, "it is at least 600"},
		{"no pause", []string{"--cluster-healthcheck-period=0s"}, nil, "it is more than 0"},
		{"fewer than none", []string{"--max-custom-cluster-claims=-1"}, nil, "it is at least 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, want := settings.DefaultAgent(), settings.DefaultAgent()
			var f agentSettings
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			f.add(flags, &got)
			require.NoError(t, flags.Parse(test.arguments))
			err := f.apply(&got)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			test.want(&want)
			require.Equal(t, want, got)
		})
	}
}
