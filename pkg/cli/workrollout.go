package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/rollout"
	"nave/pkg/workload"
)

// failedRows is how many failed clusters are shown.
const failedRows = 20

func (g *global) workRollout() *cobra.Command {
	return group("rollout", "Rollouts of replica sets to the clusters of a placement", g.rolloutStatus(), g.rolloutPause(true), g.rolloutPause(false))
}

func oneReplicaSet(cmd *cobra.Command, arguments []string) error {
	return exactly(1, "the name of a replica set")(cmd, arguments)
}

func (g *global) rolloutStatus() *cobra.Command {
	var from namespacedAccess
	var follow bool
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Show how far a rollout is, and which clusters have failed and why",
		Long: `Shows how far the rollout of a replica set is: its conditions, and for each placement how many clusters have got the content, have
succeeded, or have failed. With --watch it follows until all have succeeded, and ends with 1 if the rollout is paused, or if for a while
nothing has happened and all that is left are clusters that have failed, or that wait because too many have.`,
		Args: oneReplicaSet,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			hub, err := from.connect()
			if err != nil {
				return err
			}
			r := hub.replicaSet(from.namespace, arguments[0])
			if follow {
				return g.follow(cmd.Context(), r)
			}
			set, err := r.Get(cmd.Context())
			if err != nil {
				return err
			}
			progress, err := r.Progress(cmd.Context(), set)
			if err != nil {
				return err
			}
			return writeRollout(g.streams.Out, set, progress)
		},
	}
	from.addFlags(cmd.Flags(), "the replica set")
	cmd.Flags().BoolVarP(&follow, "watch", "w", false, "follow the rollout to its end")
	return cmd
}

func (g *global) rolloutPause(pause bool) *cobra.Command {
	var from namespacedAccess
	use, short, done := "resume", "Let a rollout that is paused go on", "resumed"
	if pause {
		use, short, done = "pause", "Hold a rollout: no cluster gets new content until it is resumed", "paused"
	}
	cmd := &cobra.Command{
		Use: use + " NAME", Short: short, Args: oneReplicaSet,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			hub, err := from.connect()
			if err != nil {
				return err
			}
			r := hub.replicaSet(from.namespace, arguments[0])
			if err := r.Pause(cmd.Context(), pause); err != nil {
				return err
			}
			fmt.Fprintf(g.streams.Out, "rollout of %s %s\n", r, done)
			return nil
		},
	}
	from.addFlags(cmd.Flags(), "the replica set")
	return cmd
}

// replicaSet is one on the hub.
func (c *clients) replicaSet(namespace, name string) workload.ReplicaSet {
	return workload.ReplicaSet{Works: c.works, Clusters: c.clusters, Metadata: c.metadata, Clock: clock.RealClock{}, Namespace: namespace, Name: name}
}

// follow says each change of a rollout in one line, and at its end which clusters have failed, if it has not succeeded.
func (g *global) follow(ctx context.Context, r workload.ReplicaSet) error {
	all, err := r.Follow(ctx, func(text string) { fmt.Fprintf(g.streams.Out, "rollout %s: %s\n", r.Name, text) })
	if printErr := writeFailed(g.streams.Out, all); printErr != nil {
		return printErr
	}
	return err
}

func writeRollout(out io.Writer, set *workv1alpha1.ManifestWorkReplicaSet, all []workload.Progress) error {
	if rollout.Paused(set.Annotations) {
		fmt.Fprintln(out, "the rollout is paused")
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CONDITION\tSTATUS\tREASON\tMESSAGE")
	for _, c := range set.Status.Conditions {
		if c.ObservedGeneration < set.Generation {
			c.Status, c.Message = metav1.ConditionUnknown, "the hub has not looked at the latest change yet"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.Type, c.Status, c.Reason, oneLineOf(c.Message))
	}
	fmt.Fprintln(table, "\nPLACEMENT\tSELECTED\tAPPLIED\tSUCCEEDED\tIN PROGRESS\tFAILED\tTIMED OUT\tWAITING")
	for _, p := range all {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", p.Placement, p.Selected, p.Begun(), p.Done+len(p.Soaking), len(p.Underway), len(p.Failed), len(p.TimedOut), len(p.Waiting)+len(p.Apply))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return writeFailed(out, all)
}

func writeFailed(out io.Writer, all []workload.Progress) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	rows := 0
	for _, p := range all {
		for _, name := range slices.Concat(p.Failed, p.TimedOut) {
			if rows++; rows == 1 {
				fmt.Fprintln(table, "\nFAILED CLUSTER\tPLACEMENT\tREASON")
			}
			if rows <= failedRows {
				reason := p.Reasons[name]
				if reason == "" {
					reason = "it has not succeeded within progressDeadline"
				}
				fmt.Fprintf(table, "%s\t%s\t%s\n", name, p.Placement, oneLineOf(reason))
			}
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if rows > failedRows {
		fmt.Fprintf(out, "and %d more\n", rows-failedRows)
	}
	return nil
}
