package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"nave/pkg/hub"
)

// kubectlCommand is the bundled kubectl. All that follows the word is kubectl's, but for --data-dir, which says whose
// administrator's kubeconfig it uses where none is named.
func (g *global) kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl",
		Short:              "kubectl, pointed at the hub",
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, arguments []string) error {
			flags := &access{}
			addDataDir(c.Flags(), &flags.dataDir)
			if value, ok := g.streams.Lookup("NAVE_DATA_DIR"); ok && value != "" {
				flags.dataDir = value
			}
			arguments, dir, named := splitKubectl(arguments)
			if dir != "" {
				flags.dataDir = dir
			}
			if variable, ok := g.streams.Lookup("KUBECONFIG"); !named && (!ok || variable == "" || dir != "") {
				file := hub.AdminKubeconfig(flags.dataDir)
				if _, err := os.Stat(file); err != nil {
					return fmt.Errorf("no hub has its data in %s (there is no %s); name its directory with --data-dir, or a kubeconfig with --kubeconfig", flags.dataDir, file)
				}
				arguments = append([]string{"--kubeconfig", file}, arguments...)
			}
			kubectl := newKubectl(g.streams, arguments)
			return kubectl.ExecuteContext(c.Context())
		},
	}
}

// splitKubectl takes --data-dir out of kubectl's arguments, up to a --, and tells whether they name a kubeconfig.
func splitKubectl(arguments []string) (rest []string, dataDir string, named bool) {
	for i := 0; i < len(arguments); i++ {
		argument := arguments[i]
		switch {
		case argument == "--":
			return append(rest, arguments[i:]...), dataDir, named
		case argument == "--data-dir" && i+1 < len(arguments):
			i++
			dataDir = arguments[i]
			continue
		case strings.HasPrefix(argument, "--data-dir="):
			dataDir = strings.TrimPrefix(argument, "--data-dir=")
			continue
		case argument == "--kubeconfig" || strings.HasPrefix(argument, "--kubeconfig="):
			named = true
		}
		rest = append(rest, argument)
	}
	return rest, dataDir, named
}

func newKubectl(streams Streams, arguments []string) *cobra.Command {
	kubectl := cmd.NewKubectlCommand(cmd.KubectlOptions{
		PluginHandler: cmd.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes),
		Arguments:     append([]string{"kubectl"}, arguments...),
		ConfigFlags:   genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag(),
		IOStreams:     genericiooptions.IOStreams{In: os.Stdin, Out: streams.Out, ErrOut: streams.Err},
	})
	kubectl.SetArgs(arguments)
	return kubectl
}
