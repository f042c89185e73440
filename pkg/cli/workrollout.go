package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/rollout"
	"nave/pkg/workload"
)

const (
	// rolloutInterval is how often a rollout that is followed is looked at. Works are only read again when the hub has said
	// something new.
	rolloutInterval = time.Second
	// failedRows is how many failed clusters are shown.
	failedRows = 20
)

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
succeeded, or have failed. With --watch it follows until all have succeeded, and ends with 1 if the rollout is paused or too many have failed.`,
		Args: oneReplicaSet,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			hub, err := from.connect()
			if err != nil {
				return err
			}
			r := replicaSet{hub, from.namespace, arguments[0]}
			if follow {
				return r.await(cmd.Context(), g.streams.Out)
			}
			set, err := r.get(cmd.Context())
			if err != nil {
				return err
			}
			progress, err := workload.ProgressOf(cmd.Context(), hub.clusters, hub.works, set, time.Now())
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
	value := "null"
	if pause {
		use, short, done = "pause", "Hold a rollout: no cluster gets new content until it is resumed", "paused"
		value = `"true"`
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
			r := replicaSet{hub, from.namespace, arguments[0]}
			body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, rollout.PausedAnnotation, value)
			_, err = hub.works.WorkV1alpha1().ManifestWorkReplicaSets(r.namespace).Patch(cmd.Context(), r.name, types.MergePatchType, body, metav1.PatchOptions{})
			if err != nil {
				return r.wrap(err)
			}
			fmt.Fprintf(g.streams.Out, "rollout of replica set %s of namespace %s %s\n", r.name, r.namespace, done)
			return nil
		},
	}
	from.addFlags(cmd.Flags(), "the replica set")
	return cmd
}

// replicaSet is one on a hub.
type replicaSet struct {
	hub             *clients
	namespace, name string
}

func (r *replicaSet) get(ctx context.Context) (*workv1alpha1.ManifestWorkReplicaSet, error) {
	set, err := r.hub.works.WorkV1alpha1().ManifestWorkReplicaSets(r.namespace).Get(ctx, r.name, metav1.GetOptions{})
	if err != nil {
		return nil, r.wrap(err)
	}
	return set, nil
}

func (r *replicaSet) wrap(err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %s has no replica set %s; nave kubectl get manifestworkreplicasets -A shows those that there are", r.namespace, r.name)
	}
	return fmt.Errorf("replica set %s of namespace %s: %w", r.name, r.namespace, err)
}

// rolledOut is what the hub says of the rollout of a set as it is now; nil if it has not said anything.
func rolledOut(set *workv1alpha1.ManifestWorkReplicaSet) *metav1.Condition {
	c := meta.FindStatusCondition(set.Status.Conditions, workv1alpha1.ManifestWorkReplicaSetConditionPlacementRolledOut)
	if c == nil || c.ObservedGeneration < set.Generation {
		return nil
	}
	return c
}

// await follows a rollout until it is complete, held, or over because too many have failed, and says each change in one line.
func (r *replicaSet) await(ctx context.Context, out io.Writer) error {
	seen, told := "", "the hub has not said anything about it; is its feature gate ManifestWorkReplicaSet on"
	err := wait.PollUntilContextCancel(ctx, rolloutInterval, true, func(ctx context.Context) (bool, error) {
		set, err := r.get(ctx)
		if err != nil {
			return false, err
		}
		c := rolledOut(set)
		if c == nil || set.ResourceVersion == seen {
			return false, nil
		}
		seen = set.ResourceVersion
		if text := oneLineOf(c.Message); text != told {
			told = text
			fmt.Fprintf(out, "rollout %s: %s\n", r.name, text)
		}
		switch {
		case c.Status == metav1.ConditionTrue:
			return true, nil
		case rollout.Paused(set.Annotations):
			return false, fmt.Errorf("rollout of replica set %s of namespace %s is paused; nave work rollout resume %s -n %s lets it go on", r.name, r.namespace, r.name, r.namespace)
		}
		return false, r.stuck(ctx, set)
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("rollout of replica set %s of namespace %s is not complete in time: %s; it goes on, see nave work rollout status %s -n %s", r.name, r.namespace, told, r.name, r.namespace)
	}
	return err
}

// stuck is the error that says that too many clusters have failed, once nothing is under way any more.
func (r *replicaSet) stuck(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) error {
	all, err := workload.ProgressOf(ctx, r.hub.clusters, r.hub.works, set, time.Now())
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.Breached && len(p.Underway) == 0 {
			return fmt.Errorf("rollout of replica set %s of namespace %s to placement %s has stopped, failed clusters: %d; nave work rollout status %s -n %s says why",
				r.name, r.namespace, p.Placement, len(p.Failed)+len(p.TimedOut), r.name, r.namespace)
		}
	}
	return nil
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
