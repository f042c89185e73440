package cli

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"nave/pkg/settings"
)

// minTokenLifetime is the shortest life of a service account's token that a Kubernetes API grants.
const minTokenLifetime = 10 * time.Minute

// agentSettings are the flags that set what can also be set while an agent runs, under upstream's names (spec 2.1).
type agentSettings struct {
	addOnAuth         string
	addOnTokenSeconds int64
}

func (f *agentSettings) add(flags *pflag.FlagSet, s *settings.Agent) {
	flags.IntVar(&s.MaxCustomClaims, "max-custom-cluster-claims", s.MaxCustomClaims, "how many claims are reported besides those with reserved names")
	flags.StringSliceVar(&s.ReservedClaimSuffixes, "reserved-cluster-claim-suffixes", nil, "endings of names of claims that are always reported")
	flags.DurationVar(&s.HealthCheckPeriod, "cluster-healthcheck-period", s.HealthCheckPeriod, "how often the cluster's health is looked at when nothing happens")
	flags.StringVar(&f.addOnAuth, "addon-kubeclient-registration-auth", "csr", "how add-ons log on at the hub: csr, with certificates, or token")
	flags.Int64Var(&f.addOnTokenSeconds, "addon-token-expiration-seconds", int64(s.AddOnTokenLifetime/time.Second), "how long tokens of add-ons are to be good for; the hub may give less")
}

// apply puts into the settings what flags cannot by themselves, and says which values cannot be.
func (f *agentSettings) apply(s *settings.Agent) error {
	s.AddOnTokens = f.addOnAuth == "token"
	s.AddOnTokenLifetime = time.Duration(f.addOnTokenSeconds) * time.Second
	switch {
	case f.addOnAuth != "token" && f.addOnAuth != "csr":
		return usageError{fmt.Errorf("--addon-kubeclient-registration-auth %q: it is csr or token", f.addOnAuth)}
	case s.AddOnTokenLifetime < minTokenLifetime:
		return usageError{fmt.Errorf("--addon-token-expiration-seconds %d: it is at least %d", f.addOnTokenSeconds, minTokenLifetime/time.Second)}
	case s.HealthCheckPeriod <= 0:
		return usageError{fmt.Errorf("--cluster-healthcheck-period %s: it is more than 0", s.HealthCheckPeriod)}
	case s.MaxCustomClaims < 0:
		return usageError{fmt.Errorf("--max-custom-cluster-claims %d: it is at least 0", s.MaxCustomClaims)}
	}
	return nil
}
