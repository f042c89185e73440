package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"nave/pkg/workload"
)

func (g *global) workDelete() *cobra.Command {
	var from workAccess
	var wait waiting
	var orphan bool
	cmd := &cobra.Command{
		Use:   "delete NAME... --cluster NAME",
		Short: "Delete works, with those that they were split into; their objects go from the clusters first",
		Long: `Deletes works, with those that they were split into. A work is gone once its agent has taken what it applied off the cluster;
the command waits for that, and when the time is over it says what the work still waits for and ends with 1.
With --orphan the objects stay. The agent is told so first, and nothing is deleted unless it has heard.`,
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
			hub, err := from.connect(cmd.Context())
			if err != nil {
				return err
			}
			var failed []error
			var going []workload.Set
			for _, cluster := range from.clusters {
				for _, name := range names {
					set := workload.Set{Hub: hub.works, Cluster: cluster, Name: name}
					works, err := set.Remove(cmd.Context(), orphan, wait.timeout)
					if failed = appendError(failed, err); err != nil {
						continue
					}
					going = append(going, set)
					if !wait.on {
						fmt.Fprintf(g.streams.Out, "work %s of cluster %s is being deleted (%d works)\n", name, cluster, works)
					}
				}
			}
			for _, set := range going {
				if !wait.on {
					break
				}
				err := set.AwaitGone(cmd.Context(), wait.timeout)
				if failed = appendError(failed, err); err == nil {
					fmt.Fprintf(g.streams.Out, "work %s of cluster %s deleted\n", set.Name, set.Cluster)
				}
			}
			return oneLine(failed)
		},
	}
	from.addFlags(cmd.Flags())
	wait.addFlags(cmd.Flags(), true, "until they are gone")
	cmd.Flags().BoolVar(&orphan, "orphan", false, "leave the objects on the clusters")
	return cmd
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
