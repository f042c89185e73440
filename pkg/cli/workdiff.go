package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"nave/pkg/agent"
	"nave/pkg/workload"
)

// Exit codes of diff, as kubectl diff has them.
const (
	exitDiffers   outcome = 1
	exitDiffError int     = 2
)

func (g *global) workDiff() *cobra.Command {
	var of workAccess
	var in input
	var force bool
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "diff {-f FILE | NAME} --cluster NAME",
		Short: "Show what apply would change on the hub, or what differs on a cluster from what a work wants",
		Long: `With -f it shows what nave work apply with the same flags would change: object by object, against the works on the hub.

With the NAME of a work it shows what differs on the cluster: each object as it is, and as it would be after its agent applied it
again. The cluster itself is asked for that, so the command needs access to it: --cluster-kubeconfig, or without it what an agent
would find on this machine, the pod's own access, k3s's file, or ~/.kube/config.

Values of Secrets are not shown. The exit code is 0 if nothing differs, 1 if something does, and 2 if it cannot be told.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			differs, err := g.diff(cmd, arguments, &of, &in, force, kubeconfig)
			switch {
			case err != nil:
				return &diffError{err}
			case differs:
				return exitDiffers
			}
			return nil
		},
	}
	of.addFlags(cmd.Flags())
	in.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&force, "force", false, "as if works of the same name that something else made were taken over")
	cmd.Flags().StringVar(&kubeconfig, "cluster-kubeconfig", "", "access to the managed cluster; found as an agent finds it if empty")
	return cmd
}

// diffError keeps exit code 1 for differences.
type diffError struct{ error }

// Unwrap gives the cause.
func (d *diffError) Unwrap() error { return d.error }

// ExitCode is the exit code of the process.
func (d *diffError) ExitCode() int { return exitDiffError }

func (g *global) diff(cmd *cobra.Command, arguments []string, of *workAccess, in *input, force bool, kubeconfig string) (bool, error) {
	if _, err := g.load(cmd, nil); err != nil {
		return false, err
	}
	switch {
	case len(arguments) > 1 || (len(arguments) == 1) == (len(in.sources) > 0):
		return false, usageError{errors.New("give either the name of one work, or what apply would be given with -f")}
	case len(in.sources) > 0 && kubeconfig != "":
		return false, usageError{errors.New("with -f works on the hub are compared; --cluster-kubeconfig is for the name of a work")}
	case len(in.sources) > 0:
		return g.diffInput(cmd.Context(), of, in, force)
	case len(of.clusters) > 1:
		return false, usageError{errors.New("a kubeconfig is of one cluster; name one with --cluster")}
	}
	return g.diffCluster(cmd.Context(), of, arguments[0], kubeconfig)
}

func (g *global) diffInput(ctx context.Context, of *workAccess, in *input, force bool) (bool, error) {
	objects, a, err := in.read(g)
	if err != nil {
		return false, err
	}
	hub, err := of.connect(ctx)
	if err != nil {
		return false, err
	}
	a.Hub, a.Force = hub.works, force
	found := false
	for _, cluster := range of.clusters {
		differences, err := a.Compare(ctx, cluster, objects)
		if err != nil {
			return found, err
		}
		if err := g.printDifferences(differences); err != nil {
			return found, err
		}
		found = found || len(differences) > 0
	}
	return found, nil
}

func (g *global) diffCluster(ctx context.Context, of *workAccess, name, kubeconfig string) (bool, error) {
	hub, err := of.connect(ctx)
	if err != nil {
		return false, err
	}
	set := workload.Set{Hub: hub.works, Cluster: of.clusters[0], Name: name}
	works, err := set.Works(ctx)
	if err != nil {
		return false, err
	}
	if len(works) == 0 {
		return false, set.Missing()
	}
	spoke, err := agent.SpokeConfig(kubeconfig)
	if err != nil {
		return false, fmt.Errorf("what is on cluster %s only the cluster can tell, and the hub has no way to it: %w; say --cluster-kubeconfig FILE", set.Cluster, err)
	}
	live, err := workload.NewLive(spoke)
	if err != nil {
		return false, err
	}
	found := false
	for _, work := range works {
		differences, err := live.Compare(ctx, work)
		if err != nil {
			return found, err
		}
		if err := g.printDifferences(differences); err != nil {
			return found, err
		}
		found = found || len(differences) > 0
	}
	return found, nil
}

func (g *global) printDifferences(differences []workload.Difference) error {
	for _, d := range differences {
		if err := d.Write(g.streams.Out); err != nil {
			return err
		}
	}
	return nil
}

// outcome is an exit code of a command that has said everything there is to say.
type outcome int

// Error implements error.
func (o outcome) Error() string { return fmt.Sprintf("exit code %d", int(o)) }

// ExitCode is the exit code of the process.
func (o outcome) ExitCode() int { return int(o) }

// silent tells whether an error needs no line of its own.
func silent(err error) bool {
	var o outcome
	return errors.As(err, &o)
}
