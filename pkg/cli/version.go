package cli

import (
	"github.com/spf13/cobra"

	"nave/pkg/version"
)

func (g *global) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print what this binary is and what is built into it",
		Args:  exactly(0, "no arguments"),
		RunE:  func(*cobra.Command, []string) error { return version.Current().Print(g.streams.Out) },
	}
}
