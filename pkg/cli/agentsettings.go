package cli

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"open-cluster-management.io/api/feature"

	"nave/pkg/settings"
)

const (
	// Bounds of what flags ask a hub for, in seconds, as upstream has them (spec 2.1).
	minCertificateSeconds = 3600
	minTokenSeconds       = 600
	minHubTimeoutSeconds  = 180
)

// agentSettings are flags of an agent's settings, in the form that upstream's agent has them. fill turns them into settings.
type agentSettings struct {
	gates              boolMap
	urls               []string
	certificateSeconds int
	tokenSeconds       int
	hubTimeoutSeconds  int
}

// add adds the flags. Those whose form is that of the setting are written to s at once.
func (f *agentSettings) add(flags *pflag.FlagSet, s *settings.Agent) {
	f.gates = boolMap{}
	flags.Var(f.gates, "feature-gates", "feature gates of Open Cluster Management to switch on or off")
	flags.StringToStringVar(&s.ClusterLabels, "cluster-labels", nil, "labels of the cluster on the hub, if the agent creates it there")
	flags.StringToStringVar(&s.ClusterAnnotations, "cluster-annotations", nil, "annotations of the cluster on the hub, likewise; only those of agent.open-cluster-management.io count")
	flags.StringSliceVar(&f.urls, "external-server-urls", nil, "https addresses under which others reach the cluster's API")
	flags.IntVar(&f.certificateSeconds, "client-cert-expiration-seconds", 0, "how long certificates are to be good for; 0 leaves it to the hub")
	flags.DurationVar(&s.HealthCheckPeriod, "cluster-healthcheck-period", s.HealthCheckPeriod, "how often the cluster is looked at when nothing happens")
	flags.IntVar(&s.MaxCustomClaims, "max-custom-cluster-claims", s.MaxCustomClaims, "how many claims are reported besides the reserved ones")
	flags.StringSliceVar(&s.ReservedClaimSuffixes, "reserved-cluster-claim-suffixes", nil, "endings of names of claims that are always reported")
	flags.Var(&driverFlag{&s.AddOnTokens}, "addon-kubeclient-registration-auth", "how the agents of add-ons log on at the hub: csr, with certificates, or token")
	flags.IntVar(&f.tokenSeconds, "addon-token-expiration-seconds", int(s.AddOnTokenLifetime/time.Second), "how long tokens of add-ons are to be good for; the hub may give less")
	flags.DurationVar(&s.EvictionGrace, "appliedmanifestwork-eviction-grace-period", s.EvictionGrace, "how long what was applied stays when its work is missing on the hub and nobody saw it deleted")
	flags.DurationVar(&s.StatusSyncInterval, "status-sync-interval", s.StatusSyncInterval, "how often, at most, the state of an applied object that changes all the time is reported")
	flags.IntVar(&s.MaxFeedbackBytes, "max-json-raw-length", s.MaxFeedbackBytes, "how many bytes a value may have that is reported as JSON (feature gate RawFeedbackJsonString)")
	flags.IntVar(&f.hubTimeoutSeconds, "hub-connection-timeout-seconds", int(s.HubTimeout/time.Second), "how long one of several hubs may be away before another one is tried")
}

// fill checks the flags and completes the settings. hubs is how many bootstrap kubeconfigs there are.
func (f *agentSettings) fill(s *settings.Agent, hubs int) error {
	var err error
	if s.Features, err = featureGates(f.gates, feature.DefaultSpokeRegistrationFeatureGates, feature.DefaultSpokeWorkFeatureGates); err != nil {
		return err
	}
	for _, bad := range []struct {
		is  bool
		why string
	}{
		{f.certificateSeconds != 0 && f.certificateSeconds < minCertificateSeconds, fmt.Sprintf("--client-cert-expiration-seconds is 0 or at least %d", minCertificateSeconds)},
		{f.tokenSeconds < minTokenSeconds, fmt.Sprintf("--addon-token-expiration-seconds is at least %d", minTokenSeconds)},
		{f.hubTimeoutSeconds < minHubTimeoutSeconds, fmt.Sprintf("--hub-connection-timeout-seconds is at least %d", minHubTimeoutSeconds)},
		{s.HealthCheckPeriod <= 0, "--cluster-healthcheck-period is more than 0"},
		{s.EvictionGrace < 0, "--appliedmanifestwork-eviction-grace-period is not negative"},
		{s.StatusSyncInterval <= 0, "--status-sync-interval is more than 0"},
		{s.MaxFeedbackBytes <= 0, "--max-json-raw-length is more than 0"},
		{s.MaxCustomClaims < 0, "--max-custom-cluster-claims is not negative"},
	} {
		if bad.is {
			return usageError{errors.New(bad.why)}
		}
	}
	s.CertificateLifetime = time.Duration(f.certificateSeconds) * time.Second
	s.AddOnTokenLifetime = time.Duration(f.tokenSeconds) * time.Second
	s.HubTimeout = time.Duration(f.hubTimeoutSeconds) * time.Second
	if err := checkMetadata(s); err != nil {
		return usageError{err}
	}
	if s.ExternalServerURLs, err = serverURLs(f.urls); err != nil {
		return usageError{err}
	}
	return severalHubs(s, hubs)
}

// severalHubs switches the gate on for whoever names several hubs, unless they have switched it off.
func severalHubs(s *settings.Agent, hubs int) error {
	on, switched := s.Features[feature.MultipleHubs]
	switch {
	case hubs > 1 && switched && !on:
		return usageError{fmt.Errorf("%d bootstrap kubeconfigs need the feature gate %s, which is switched off", hubs, feature.MultipleHubs)}
	case hubs < 2 && on:
		return usageError{fmt.Errorf("the feature gate %s needs at least two --bootstrap-kubeconfig", feature.MultipleHubs)}
	case hubs > 1:
		s.Features[feature.MultipleHubs] = true
	}
	return nil
}

func checkMetadata(s *settings.Agent) error {
	if errs := metav1validation.ValidateLabels(s.ClusterLabels, field.NewPath("--cluster-labels")); len(errs) > 0 {
		return errs[0]
	}
	if errs := validation.ValidateAnnotations(s.ClusterAnnotations, field.NewPath("--cluster-annotations")); len(errs) > 0 {
		return errs[0]
	}
	return nil
}

func serverURLs(texts []string) ([]settings.ServerURL, error) {
	var all []settings.ServerURL
	for _, text := range texts {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" {
			return nil, fmt.Errorf("--external-server-urls %s is no https URL", text)
		}
		all = append(all, settings.ServerURL{URL: text})
	}
	return all, nil
}

// driverFlag is the driver of add-ons by its name on the wire.
type driverFlag struct{ tokens *bool }

// String implements pflag.Value.
func (d *driverFlag) String() string {
	if d.tokens != nil && *d.tokens {
		return "token"
	}
	return "csr"
}

// Set implements pflag.Value.
func (d *driverFlag) Set(text string) error {
	if text != "csr" && text != "token" {
		return errors.New("it is csr or token")
	}
	*d.tokens = text == "token"
	return nil
}

// Type implements pflag.Value.
func (d *driverFlag) Type() string { return "driver" }
