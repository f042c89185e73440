package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nave/pkg/workload"
)

func (g *global) workDelete() *cobra.Command {
	var from workAccess
	var wait waiting
	var orphan, replicaSets bool
	var namespace string
	cmd := &cobra.Command{
		Use:   "delete NAME... {--cluster NAME | --replica-set}",
		Short: "Delete works, with those that they were split into; their objects go from the clusters first",
		Long: `Deletes works, with those that they were split into. A work is gone once its agent has taken what it applied off the cluster;
the command waits for that, and when the time is over it says what the work still waits for and ends with 1.
With --orphan the objects stay. The agent is told so first, and nothing is deleted unless it has heard.

With --replica-set the names are those of replica sets, as nave work apply --placement makes them; their works go from all clusters,
and the command waits for those as well.
A work of a replica set is not deleted by its own name: the hub would make it again.`,
		Args: func(cmd *cobra.Command, arguments []string) error {
			if len(arguments) == 0 {
				return usageError{fmt.Errorf("%s takes the names of works; nave work list shows them", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			if replicaSets {
				return g.deleteReplicaSets(cmd.Context(), &from, namespace, names, orphan, wait)
			}
			if cmd.Flags().Changed("namespace") {
				return usageError{errors.New("--namespace is for --replica-set, which is not given")}
			}
			if len(from.clusters) == 0 {
				return usageError{errors.New("no cluster is named; say --cluster NAME, or --replica-set -n NAMESPACE if the names are those of replica sets")}
			}
			hub, err := from.connect(cmd.Context())
			if err != nil {
				return err
			}
			var sets []workload.Set
			for _, cluster := range from.clusters {
				for _, name := range names {
					sets = append(sets, workload.Set{Hub: hub.works, Cluster: cluster, Name: name})
				}
			}
			return g.deleteWorks(cmd.Context(), sets, orphan, wait)
		},
	}
	from.addFlags(cmd.Flags())
	wait.addFlags(cmd.Flags(), true, "until they are gone")
	cmd.Flags().BoolVar(&orphan, "orphan", false, "leave the objects on the clusters")
	cmd.Flags().BoolVar(&replicaSets, "replica-set", false, "the names are those of replica sets")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of the replica sets")
	return cmd
}

// deleteReplicaSets deletes all before it waits for any; one that fails does not keep the others back.
func (g *global) deleteReplicaSets(ctx context.Context, from *workAccess, namespace string, names []string, orphan bool, wait waiting) error {
	if orphan || len(from.clusters) > 0 {
		return usageError{errors.New("--orphan and --cluster are not for --replica-set; nave work apply --placement NAME --orphan lets the objects stay before the set is deleted")}
	}
	hub, err := from.access.connect()
	if err != nil {
		return err
	}
	var failed []error
	var going []workload.ReplicaSet
	for _, name := range names {
		r := hub.replicaSet(namespace, name)
		switch err := r.Remove(ctx); {
		case err != nil:
			failed = append(failed, err)
		case wait.on:
			going = append(going, r)
		default:
			fmt.Fprintf(g.streams.Out, "%s is being deleted\n", r)
		}
	}
	for _, r := range going {
		if err := r.AwaitGone(ctx, wait.timeout); err != nil {
			failed = append(failed, err)
			continue
		}
		fmt.Fprintf(g.streams.Out, "%s deleted\n", r)
	}
	return oneLine(failed)
}

// deleteWorks deletes all before it waits for any; one that fails does not keep the others back.
func (g *global) deleteWorks(ctx context.Context, sets []workload.Set, orphan bool, wait waiting) error {
	var failed []error
	var going []workload.Set
	for _, set := range sets {
		works, err := set.Remove(ctx, orphan, wait.timeout)
		switch {
		case err != nil:
			failed = append(failed, err)
		case wait.on:
			going = append(going, set)
		default:
			fmt.Fprintf(g.streams.Out, "work %s of cluster %s is being deleted (%d works)\n", set.Name, set.Cluster, works)
		}
	}
	for _, set := range going {
		if err := set.AwaitGone(ctx, wait.timeout); err != nil {
			failed = append(failed, err)
			continue
		}
		fmt.Fprintf(g.streams.Out, "work %s of cluster %s deleted\n", set.Name, set.Cluster)
	}
	return oneLine(failed)
}
