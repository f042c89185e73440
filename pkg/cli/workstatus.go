package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/workload"
)

func (g *global) workStatus() *cobra.Command {
	var from workAccess
	var wait waiting
	var output string
	cmd := &cobra.Command{
		Use:   "status NAME --cluster NAME",
		Short: "Show every manifest of a work with its state and message; with --wait, wait until all are well",
		Long: `Shows every manifest of a work, and of the works that it was split into, with its state: pending, failed, applied or complete.
With --wait it ends with 0 as soon as all are applied and available, and with 1 if they are not when the time is over; the
message then says which manifests are not, and why.`,
		Args: oneWork,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			if output != "" && output != "json" {
				return usageError{fmt.Errorf("--output %s is unknown; it is json", output)}
			}
			hub, err := from.connect(cmd.Context())
			if err != nil {
				return err
			}
			var failed []error
			for _, cluster := range from.clusters {
				set := workload.Set{Hub: hub.works, Cluster: cluster, Name: arguments[0]}
				failed = appendError(failed, g.showWork(cmd.Context(), set, wait, output))
			}
			return oneLine(failed)
		},
	}
	from.addFlags(cmd.Flags())
	wait.addFlags(cmd.Flags(), false, "until all is applied and available")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json for programs")
	return cmd
}

func (g *global) showWork(ctx context.Context, set workload.Set, wait waiting, output string) error {
	works, err := set.Works(ctx)
	if err == nil && len(works) == 0 {
		err = set.Missing()
	}
	if err == nil && wait.on {
		tell := g.tellManifest(set.Cluster)
		if output == "json" {
			tell = func(workload.ManifestStatus) {}
		}
		var last []*workv1.ManifestWork
		if last, err = set.Await(ctx, wait.timeout, tell); len(last) > 0 {
			works = last
		}
	}
	if len(works) == 0 {
		return err
	}
	if printErr := writeWorks(g.streams.Out, works, output); printErr != nil {
		return printErr
	}
	return err
}

// tellManifest prints changes of state as they come. That nothing has happened yet is none.
func (g *global) tellManifest(cluster string) func(workload.ManifestStatus) {
	return func(m workload.ManifestStatus) {
		if m.State == workload.Pending {
			return
		}
		state := string(m.State)
		if m.State == workload.Applied && m.Available == "True" {
			state += " and available"
		}
		if m.Message != "" {
			state += ": " + oneLineOf(m.Message)
		}
		fmt.Fprintf(g.streams.Out, "%s/%s: %s %s\n", cluster, m.Work, m, state)
	}
}

// workReport is a work for programs.
type workReport struct {
	Cluster    string                    `json:"cluster"`
	Name       string                    `json:"name"`
	Generation int64                     `json:"generation"`
	Applied    string                    `json:"applied"` // of this generation: True, False, or - if the agent has not said so
	Available  string                    `json:"available"`
	Complete   string                    `json:"complete"`
	Deleting   string                    `json:"deleting,omitempty"` // what it waits for, if it is being deleted
	Manifests  []workload.ManifestStatus `json:"manifests"`
}

func reportOf(work *workv1.ManifestWork) workReport {
	r := workReport{
		Cluster: work.Namespace, Name: work.Name, Generation: work.Generation,
		Applied: workload.Condition(work, workv1.WorkApplied), Available: workload.Condition(work, workv1.WorkAvailable),
		Complete: workload.Condition(work, workv1.WorkComplete), Manifests: workload.States(work),
	}
	if work.DeletionTimestamp != nil {
		r.Deleting = workload.Deleting(work)
	}
	return r
}

func writeWorks(out io.Writer, works []*workv1.ManifestWork, output string) error {
	if output == "json" {
		var reports []workReport
		for _, work := range works {
			reports = append(reports, reportOf(work))
		}
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(reports)
	}
	for _, work := range works {
		if err := writeWork(out, reportOf(work)); err != nil {
			return err
		}
	}
	return nil
}

func writeWork(out io.Writer, r workReport) error {
	fmt.Fprintf(out, "work %s of cluster %s, generation %d: applied %s, available %s, complete %s\n", r.Name, r.Cluster, r.Generation, r.Applied, r.Available, r.Complete)
	if r.Deleting != "" {
		fmt.Fprintf(out, "it is being deleted: %s\n", oneLineOf(r.Deleting))
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "STATE\tAVAILABLE\tKIND\tNAME\tFEEDBACK\tMESSAGE")
	for _, m := range r.Manifests {
		name := m.Name
		if m.Namespace != "" {
			name = m.Namespace + "/" + m.Name
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", m.State, orDash(m.Available), m.Kind, name, orDash(oneLineOf(strings.Join(m.Feedback, " "))), orDash(oneLineOf(m.Message)))
	}
	return table.Flush()
}

// oneLineOf keeps a text of a cluster from breaking the lines of a table.
func oneLineOf(text string) string { return strings.Join(strings.Fields(text), " ") }
