package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"open-cluster-management.io/api/feature"

	"nave/pkg/settings"
)

func agentSettingsOf(t *testing.T, hubs int, arguments string) (settings.Agent, error) {
	t.Helper()
	s := settings.DefaultAgent()
	var set agentSettings
	flags := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	set.add(flags, &s)
	require.NoError(t, flags.Parse(strings.Fields(arguments)))
	return s, set.fill(&s, hubs)
}

func TestAgentSettings(t *testing.T) {
	unset, err := agentSettingsOf(t, 1, "")
	require.NoError(t, err)
	want := settings.DefaultAgent()
	want.Features = settings.Features{}
	require.Equal(t, want, unset, "without flags it is upstream's defaults")

	all, err := agentSettingsOf(t, 2, "--cluster-labels a=b --cluster-annotations agent.open-cluster-management.io/x=y --external-server-urls https://[2001:db8::1]:6443,https://api "+
		"--client-cert-expiration-seconds 3600 --cluster-healthcheck-period 5s --max-custom-cluster-claims 0 --reserved-cluster-claim-suffixes x.io,y.io "+
		"--addon-kubeclient-registration-auth token --addon-token-expiration-seconds 600 --hub-connection-timeout-seconds 180 --appliedmanifestwork-eviction-grace-period 2m --status-sync-interval 3s --max-json-raw-length 99 --feature-gates ClusterProperty=true")
	require.NoError(t, err)
	require.Equal(t, settings.Agent{
		Features:            settings.Features{feature.ClusterProperty: true, feature.MultipleHubs: true},
		ClusterLabels:       map[string]string{"a": "b"},
		ClusterAnnotations:  map[string]string{"agent.open-cluster-management.io/x": "y"},
		ExternalServerURLs:  []settings.ServerURL{{URL: "https://[2001:db8::1]:6443"}, {URL: "https://api"}},
		CertificateLifetime: time.Hour, HealthCheckPeriod: 5 * time.Second, ReservedClaimSuffixes: []string{"x.io", "y.io"},
		AddOnTokens: true, AddOnTokenLifetime: 10 * time.Minute, HubTimeout: 3 * time.Minute, EvictionGrace: 2 * time.Minute,
		StatusSyncInterval: 3 * time.Second, MaxFeedbackBytes: 99,
	}, all)
}

func TestAgentSettingsRefused(t *testing.T) {
	for _, test := range []struct {
		name, arguments string
		hubs            int
		want            string
	}{
		{"short certificate", "--client-cert-expiration-seconds 3599", 1, "at least 3600"},
		{"short token", "--addon-token-expiration-seconds 599", 1, "at least 600"},
		{"impatient", "--hub-connection-timeout-seconds 179", 1, "at least 180"},
		{"never looks", "--cluster-healthcheck-period 0s", 1, "more than 0"},
		{"never reports", "--status-sync-interval 0s", 1, "more than 0"},
		{"no room for feedback", "--max-json-raw-length 0", 1, "more than 0"},
		{"fewer than no claims", "--max-custom-cluster-claims -1", 1, "not negative"},
		{"not https", "--external-server-urls http://api", 1, "no https URL"},
		{"no URL", "--external-server-urls api:6443", 1, "no https URL"},
		{"strange label", "--cluster-labels a/b/c=d", 1, "--cluster-labels"},
		{"strange annotation", "--cluster-annotations /=d", 1, "--cluster-annotations"},
		{"gate of the hub", "--feature-gates ManagedClusterAutoApproval=true", 1, "no feature gate"},
		{"several hubs without the gate", "--feature-gates MultipleHubs=false", 2, "switched off"},
		{"the gate without several hubs", "--feature-gates MultipleHubs=true", 1, "at least two"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := agentSettingsOf(t, test.hubs, test.arguments)
			require.ErrorContains(t, err, test.want)
			require.ErrorAs(t, err, new(usageError))
		})
	}
}
