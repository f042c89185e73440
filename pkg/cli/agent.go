package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nave/pkg/agent"
	"nave/pkg/config"
	"nave/pkg/identity"
	"nave/pkg/settings"
)

func (g *global) agentCommand() *cobra.Command {
	c := agent.Config{Settings: settings.DefaultAgent()}
	var set agentSettings
	var tokenFile string
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run the agent of a cluster: join it to a hub, pull and apply its work",
		Long: "Run the agent of a cluster: join it to a hub, pull and apply its work.\n\n" +
			"The object Klusterlet klusterlet on the cluster can change settings while the agent runs. What it sets wins over flags\n" +
			"and the configuration file; what it leaves out is as they say. Deleting it detaches the cluster from its hub: the agent\n" +
			"removes its credentials and ends, and what was applied stays.",
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			origins, err := g.load(cmd, hubFlags())
			if err != nil {
				return err
			}
			// What is given closer to the command wins, as it does between the places of one flag.
			both := origins.Given("token") && origins.Given("token-file")
			if both && origins["token"].Source == origins["token-file"].Source {
				return usageError{fmt.Errorf("both a token (%s) and a file with one (%s) are given; give one", origins["token"], origins["token-file"])}
			}
			if tokenFile != "" && (!both || origins["token-file"].Source == config.CommandLine) {
				c.Hub.Token, c.Hub.TokenFile = "", tokenFile
			}
			if c.Hub.Server == "" && (c.Hub.Token != "" || c.Hub.TokenFile != "") {
				return usageError{errors.New("a token needs the hub's address; give it with --server https://HOST:7443")}
			}
			if err := set.fill(&c.Settings, len(c.Hub.Kubeconfigs)); err != nil {
				return err
			}
			if c.Log, err = g.logger(); err != nil {
				return err
			}
			a, err := agent.New(c)
			if err != nil {
				return err
			}
			return a.Run(cmd.Context())
		},
	}
	addDataDir(cmd.Flags(), &c.DataDir)
	cmd.Flags().StringVar(&c.Hub.Server, "server", "", "address of the hub, https://HOST:7443")
	cmd.Flags().StringVar(&c.Hub.Token, "token", "", "join token; others on this machine can see it here, NAVE_TOKEN or --token-file keep it to you")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "file that holds the join token")
	cmd.Flags().StringArrayVar(&c.Hub.Kubeconfigs, "bootstrap-kubeconfig", nil, "file with a kubeconfig that may join a hub, instead of a token; several are several hubs to choose from")
	cmd.Flags().StringVar(&c.Hub.Cluster, "cluster-name", hostClusterName(), "name of the cluster on the hub")
	cmd.Flags().StringVar(&c.Kubeconfig, "kubeconfig", "", "access to the cluster; in-cluster, k3s's and ~/.kube/config are found by themselves")
	cmd.Flags().StringVar(&c.Metrics, "metrics-listen", "", "HOST:PORT to serve metrics for Prometheus at, over plain HTTP to whoever reaches it: better a loopback address; nowhere if empty")
	set.add(cmd.Flags(), &c.Settings)
	cmd.Flags().String("config", "", "YAML file with flags as keys")
	g.refuseForeign(cmd, hubFlags())
	cmd.AddCommand(g.agentStatusCommand())
	return cmd
}

// hostClusterName makes a cluster's name of this host's: lower case, and dashes for what a name may not have.
func hostClusterName() string {
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, host)
	name = strings.Trim(name[:min(len(name), 63)], "-")
	if !identity.ValidClusterName(name) {
		return ""
	}
	return name
}

// refuseForeign answers flags of the other mode with the mode that has them.
func (g *global) refuseForeign(cmd *cobra.Command, foreign map[string]string) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var missing *pflag.NotExistError
		if errors.As(err, &missing) {
			if other, ok := foreign[missing.GetSpecifiedName()]; ok {
				return usageError{fmt.Errorf("flag --%s belongs to %q, not to %q", missing.GetSpecifiedName(), other, cmd.CommandPath())}
			}
		}
		return usageError{fmt.Errorf("%w; see %s --help", misspelt(cmd, err), cmd.CommandPath())}
	})
}
