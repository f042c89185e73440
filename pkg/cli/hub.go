package cli

import (
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"nave/pkg/hub"
	"nave/pkg/log"
)

// agentFlags and hubFlags tell a key of the wrong mode apart from a misspelt one.
func agentFlags() map[string]string {
	return map[string]string{"server": "nave agent", "token": "nave agent", "token-file": "nave agent", "cluster-name": "nave agent", "kubeconfig": "nave agent"}
}

func hubFlags() map[string]string {
	return map[string]string{"listen": "nave hub", "advertise": "nave hub"}
}

func (g *global) hubCommand() *cobra.Command {
	var c hub.Config
	cmd := &cobra.Command{
		Use:   "hub",
		Short: "Run the hub: database, API server and controllers in this process",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := g.load(cmd, agentFlags()); err != nil {
				return err
			}
			logger, err := g.logger()
			if err != nil {
				return err
			}
			c.Log = logger
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
	cmd.Flags().StringVar(&c.Listen, "listen", ":7443", "address and port to serve on")
	cmd.Flags().StringSliceVar(&c.Advertise, "advertise", nil, "addresses and names that clusters reach this hub by, best first")
	cmd.Flags().String("config", "", "YAML file with flags as keys")
	g.refuseForeign(cmd, agentFlags())
	return cmd
}
