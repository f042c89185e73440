// Package cli is the command line: one file a verb, each of which reads its flags, calls what does the work, and prints.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nave/pkg/config"
	"nave/pkg/log"
)

// Exit codes. Joining has more of its own, see pkg/spoke/registration.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// Streams are where a command reads and writes; and where it looks for variables.
type Streams struct {
	Out, Err io.Writer
	In       io.Reader // of a person at a terminal; nil if there is none
	Stdin    io.Reader // the same, or what a file or another program sends, for commands that are told to read that
	Lookup   func(variable string) (string, bool)
}

// usageError is a command line that cannot be understood.
type usageError struct{ error }

// Run runs the command line and returns the exit code. Every error is one line on the error stream.
func Run(ctx context.Context, arguments []string, streams Streams) int {
	root := newRoot(streams)
	root.SetArgs(arguments)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if !silent(err) {
		fmt.Fprintf(streams.Err, "nave: %v\n", err)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var coded interface{ ExitCode() int }
	var usage usageError
	switch {
	case errors.As(err, &coded):
		return coded.ExitCode()
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailure
}

// global are the flags that every command has.
type global struct {
	streams   Streams
	logLevel  string
	logFormat string
}

func newRoot(streams Streams) *cobra.Command {
	g := &global{streams: streams}
	root := &cobra.Command{
		Use:               "nave",
		Short:             "Open Cluster Management in one binary",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if len(arguments) > 0 {
				return usageError{fmt.Errorf("unknown command %q; nave --help lists them", arguments[0])}
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.PersistentFlags().StringVar(&g.logLevel, "log-level", "info", "how much is logged: error, warning, info, debug or trace")
	root.PersistentFlags().StringVar(&g.logFormat, "log-format", log.FormatText, "how lines are written: text or json")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", misspelt(cmd, err), cmd.CommandPath())}
	})
	root.AddCommand(g.hubCommand(), g.agentCommand(), g.labCommand(), g.kubectlCommand(), g.tokenCommand(), g.certificateCommand(), g.clusterCommand(), g.workCommand(), g.placementCommand(), g.versionCommand())
	root.AddCommand(g.labChildren()...)
	return root
}

// misspelt adds the nearest flag to the error about one that is not there.
func misspelt(cmd *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if nearest := config.Nearest(missing.GetSpecifiedName(), names); nearest != "" {
		return fmt.Errorf("%w, did you mean --%s", err, nearest)
	}
	return err
}

// load fills a command's flags from environment and file. foreign are flags of other commands, to be refused by name.
func (g *global) load(cmd *cobra.Command, foreign map[string]string) (config.Origins, error) {
	origins, err := config.Loader{Flags: cmd.Flags(), Lookup: g.streams.Lookup, Foreign: foreign}.Load()
	if err != nil {
		return nil, usageError{err}
	}
	if dir := cmd.Flags().Lookup("data-dir"); dir != nil && dir.Value.String() == "" {
		return nil, usageError{errors.New("this user has no home directory, so there is no default for --data-dir; give one")}
	}
	if _, err := log.New(g.logLevel, g.logFormat, io.Discard); err != nil {
		return nil, usageError{err}
	}
	return origins, nil
}

// logger makes the process's logger and sends the lines of the embedded libraries into it.
func (g *global) logger() (*logrus.Logger, error) {
	logger, err := log.New(g.logLevel, g.logFormat, g.streams.Err)
	if err != nil {
		return nil, usageError{err}
	}
	log.Bridge(logger)
	return logger, nil
}

// addDataDir adds the flag that most commands have.
func addDataDir(flags *pflag.FlagSet, dir *string) {
	home, _ := os.UserHomeDir()
	flags.StringVar(dir, "data-dir", config.DefaultDataDir(os.Getuid(), home), "directory for data")
}

// exactly is cobra's check of the number of arguments, as a usage error.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, arguments []string) error {
		if len(arguments) != n {
			return usageError{fmt.Errorf("%s takes %s, got %d arguments; see %s --help", cmd.CommandPath(), what, len(arguments), cmd.CommandPath())}
		}
		return nil
	}
}

// group is a command that only has others below it.
func group(use, short string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if len(arguments) > 0 {
				return usageError{fmt.Errorf("unknown command %q; see %s --help", arguments[0], cmd.CommandPath())}
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(below...)
	return cmd
}
