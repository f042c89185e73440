package cli

import (
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"open-cluster-management.io/api/feature"

	"nave/pkg/hub"
	"nave/pkg/live"
	"nave/pkg/log"
	"nave/pkg/settings"
)

const (
	// agentCertificate is a year, as Kubernetes has it: an agent that was off for some months still gets in by itself.
	agentCertificate = 365 * 24 * time.Hour
	// standardWorkLimit is upstream's.
	standardWorkLimit = 500 << 10
	// leastAgentCertificate is the shortest life that a signing request can name.
	leastAgentCertificate = 10 * time.Minute
)

// agentFlags and hubFlags tell a key of the wrong mode apart from a misspelt one.
func agentFlags() map[string]string {
	foreign := map[string]string{}
	for _, name := range []string{"server", "token", "token-file", "bootstrap-kubeconfig", "cluster-name", "kubeconfig", "cluster-labels",
		"cluster-annotations", "external-server-urls", "client-cert-expiration-seconds", "cluster-healthcheck-period", "max-custom-cluster-claims",
		"reserved-cluster-claim-suffixes", "addon-kubeclient-registration-auth", "addon-token-expiration-seconds", "hub-connection-timeout-seconds", "metrics-listen"} {
		foreign[name] = "nave agent"
	}
	return foreign
}

func hubFlags() map[string]string {
	return map[string]string{"listen": "nave hub", "audit-log": "nave hub", "advertise": "nave hub", "auto-approved-users": "nave hub", "labels": "nave hub", "removal-timeout": "nave hub",
		"agent-certificate-lifetime": "nave hub", "work-size-limit": "nave hub"}
}

func (g *global) hubCommand() *cobra.Command {
	var c hub.Config
	var set settings.Hub
	gates := boolMap{}
	workLimit := byteSize(standardWorkLimit)
	cmd := &cobra.Command{
		Use:   "hub",
		Short: "Run the hub: database, API server and controllers in this process",
		Long: "Run the hub: database, API server and controllers in this process.\n\n" +
			"The object ClusterManager cluster-manager can change settings while the hub runs. What it sets wins over flags and the\n" +
			"configuration file; what it leaves out is as they say.",
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := g.load(cmd, agentFlags()); err != nil {
				return err
			}
			logger, err := g.logger()
			if err != nil {
				return err
			}
			if c.AgentCertificateLife < leastAgentCertificate {
				return usageError{fmt.Errorf("--agent-certificate-lifetime %s is less than %s, the shortest that can be asked for", c.AgentCertificateLife, leastAgentCertificate)}
			}
			if err := hub.CheckWorkLimit(int(workLimit)); err != nil {
				return usageError{fmt.Errorf("--work-size-limit: %w", err)}
			}
			c.WorkLimitBytes = int(workLimit)
			c.Log = logger
			if set.Features, err = featureGates(gates, feature.DefaultHubRegistrationFeatureGates, feature.DefaultHubWorkFeatureGates,
				feature.DefaultHubPlacementFeatureGates, feature.DefaultHubAddonManagerFeatureGates); err != nil {
				return err
			}
			c.Settings = live.New(set)
			h, err := hub.New(c)
			if err != nil {
				return err
			}
			logger.WithFields(logrus.Fields{log.FieldAddress: h.Server(), log.FieldPath: hub.AdminKubeconfig(c.DataDir)}).
				Info("hub starts; its administrator's kubeconfig is written")
			return h.Run(cmd.Context())
		},
	}
	addDataDir(cmd.Flags(), &c.DataDir)
	cmd.Flags().StringSliceVar(&c.Listen, "listen", []string{":7443"}, "addresses and ports to serve on; clusters are told the first")
	cmd.Flags().StringSliceVar(&c.Advertise, "advertise", nil, "addresses and names that clusters reach this hub by, best first")
	cmd.Flags().StringVar(&c.AuditLog, "audit-log", "", "file of the audit log, or none; audit.log in the data directory if not set")
	cmd.Flags().Var(gates, "feature-gates", "feature gates of Open Cluster Management to switch on or off")
	cmd.Flags().StringSliceVar(&set.AutoApprovedUsers, "auto-approved-users", nil,
		"users whose clusters are accepted without a person, while the gate ManagedClusterAutoApproval is on")
	cmd.Flags().StringToStringVar(&set.Labels, "labels", nil, "labels on every object that is made for a cluster")
	cmd.Flags().DurationVar(&set.RemovalTimeout, "removal-timeout", 0,
		"how long a cluster that is being removed waits for an agent that does not answer, before it goes without; 0 is for ever")
	cmd.Flags().DurationVar(&c.AgentCertificateLife, "agent-certificate-lifetime", agentCertificate,
		"how long the certificates of agents are valid unless they ask for less; agents renew them by themselves")
	cmd.Flags().Var(&workLimit, "work-size-limit", "how much the manifests of one work may hold together, such as 500KiB; 2MiB at most")
	cmd.Flags().String("config", "", "YAML file with flags as keys")
	g.refuseForeign(cmd, agentFlags())
	return cmd
}
