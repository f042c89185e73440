package cli

import (
	"errors"

	"github.com/spf13/pflag"

	"nave/pkg/settings"
)

// addAddOnSettings are the flags that say how an agent serves add-ons.
func addAddOnSettings(flags *pflag.FlagSet, s *settings.Agent) {
	flags.Var(&driverFlag{&s.AddOnTokens}, "addon-driver", "how the agents of add-ons log on at the hub: csr, with certificates, or token")
	flags.DurationVar(&s.AddOnTokenLifetime, "addon-token-lifetime", s.AddOnTokenLifetime, "how long tokens of add-ons are to be good for; the hub may give less")
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
