package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nave/pkg/config"
	"nave/pkg/lab"
)

func (g *global) labCommand() *cobra.Command {
	return group("lab", "A hub and real clusters on this machine, without containers", g.labUp(), g.labDown(), g.labStatus())
}

func addLabDir(flags *pflag.FlagSet, dir *string) {
	home, _ := os.UserHomeDir()
	flags.StringVar(dir, "data-dir", filepath.Join(config.DefaultDataDir(os.Getuid(), home), "lab"), "directory of the lab")
}

func (g *global) labUp() *cobra.Command {
	var o lab.Options
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring a lab up, or what is missing of it",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			binary, err := os.Executable()
			if err != nil {
				return fmt.Errorf("path of this binary: %w", err)
			}
			o.Binary, o.Out = binary, g.streams.Out
			_, err = lab.Up(cmd.Context(), o)
			return err
		},
	}
	addLabDir(cmd.Flags(), &o.DataDir)
	cmd.Flags().IntVar(&o.Clusters, "clusters", lab.DefaultClusters, "managed clusters")
	cmd.Flags().IntVar(&o.Nodes, "nodes", lab.DefaultNodes, "simulated nodes of each cluster")
	return cmd
}

func (g *global) labDown() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop a lab and remove everything it made",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			return lab.Down(cmd.Context(), dir, g.streams.Out)
		},
	}
	addLabDir(cmd.Flags(), &dir)
	return cmd
}

func (g *global) labStatus() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the parts of a lab and whether they run",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			parts, err := lab.Status(dir)
			if err != nil {
				return err
			}
			return lab.WriteStatus(g.streams.Out, parts)
		},
	}
	addLabDir(cmd.Flags(), &dir)
	return cmd
}

// labChildren are the hidden verbs that a lab starts as processes of their own.
func (g *global) labChildren() []*cobra.Command {
	var server lab.KubeAPIServerConfig
	apiserver := &cobra.Command{
		Use: lab.VerbKubeAPIServer, Hidden: true, Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if server.Log, err = g.logger(); err != nil {
				return err
			}
			return lab.RunKubeAPIServer(cmd.Context(), server)
		},
	}
	apiserver.Flags().StringVar(&server.Cluster, "cluster", "", "name of the cluster")
	apiserver.Flags().StringVar(&server.DataDir, "data-dir", "", "folder of the cluster")
	apiserver.Flags().StringVar(&server.Listen, "listen", "", "address to serve on")

	var manager lab.KubeControllerManagerConfig
	controllers := &cobra.Command{
		Use: lab.VerbKubeControllerManager, Hidden: true, Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if manager.Log, err = g.logger(); err != nil {
				return err
			}
			return lab.RunKubeControllerManager(cmd.Context(), manager)
		},
	}
	controllers.Flags().StringVar(&manager.Cluster, "cluster", "", "name of the cluster")
	controllers.Flags().StringVar(&manager.DataDir, "data-dir", "", "folder of the cluster")
	controllers.Flags().IntVar(&manager.Nodes, "nodes", lab.DefaultNodes, "simulated nodes")
	return []*cobra.Command{apiserver, controllers}
}
