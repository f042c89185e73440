package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/replicas"
	"nave/pkg/workload"
)

// worksPage is how many works are read at a time: one may be half a megabyte, and there may be thousands.
const worksPage = 50

// workRow is a work in a list.
type workRow struct {
	Cluster    string    `json:"cluster"`
	Name       string    `json:"name"`
	Set        string    `json:"set,omitempty"`        // name under which nave work apply made it
	ReplicaSet string    `json:"replicaSet,omitempty"` // that it was made for, NAMESPACE/NAME
	Placement  string    `json:"placement,omitempty"`  // of the replica set, that selects the cluster
	Manifests  int       `json:"manifests"`
	Applied    string    `json:"applied"` // of the work as it is now: True, False, Unknown, or - if the agent has not said so
	Available  string    `json:"available"`
	Complete   string    `json:"complete"`
	Deleting   bool      `json:"deleting"`
	Created    time.Time `json:"created"`
}

func (g *global) workList() *cobra.Command {
	var from workAccess
	var all bool
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List works and how they are",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			if output != "" && output != "wide" && output != "json" {
				return usageError{fmt.Errorf("--output %s is unknown; it is wide or json", output)}
			}
			if all == (len(from.clusters) > 0) {
				return usageError{errors.New("say --cluster NAME for the works of a cluster, or -A for those of all")}
			}
			var hub *clients
			var err error
			if all {
				from.clusters = []string{metav1.NamespaceAll}
				hub, err = from.access.connect()
			} else {
				hub, err = from.connect(cmd.Context())
			}
			if err != nil {
				return err
			}
			var rows []workRow
			for _, cluster := range from.clusters {
				if rows, err = hub.listWorks(cmd.Context(), cluster, rows); err != nil {
					return err
				}
			}
			return writeRows(g.streams.Out, rows, output, time.Now())
		},
	}
	from.addFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&all, "all-clusters", "A", false, "works of all clusters")
	cmd.Flags().StringVarP(&output, "output", "o", "", "wide also shows the replica sets that works are of, and their placements; json is for programs")
	return cmd
}

// listWorks adds the works of a cluster, or of all, page by page, so that only their rows are kept.
func (c *clients) listWorks(ctx context.Context, cluster string, rows []workRow) ([]workRow, error) {
	options := metav1.ListOptions{Limit: worksPage}
	for {
		page, err := c.works.WorkV1().ManifestWorks(cluster).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list works of hub %s: %w", c.config.Host, err)
		}
		for i := range page.Items {
			rows = append(rows, rowOf(&page.Items[i]))
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return rows, nil
		}
	}
}

func rowOf(work *workv1.ManifestWork) workRow {
	return workRow{
		Cluster: work.Namespace, Name: work.Name, Set: work.Labels[workload.SetLabel], Manifests: len(work.Spec.Workload.Manifests),
		ReplicaSet: workload.ReplicaSetOf(work), Placement: work.Labels[replicas.PlacementLabel],
		Applied: workload.Condition(work, workv1.WorkApplied), Available: workload.Condition(work, workv1.WorkAvailable),
		Complete: workload.Condition(work, workv1.WorkComplete), Deleting: work.DeletionTimestamp != nil, Created: work.CreationTimestamp.Time,
	}
}

func writeRows(out io.Writer, rows []workRow, output string, now time.Time) error {
	if output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(append([]workRow{}, rows...)) // none are a list, too
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprint(table, "CLUSTER\tNAME\tMANIFESTS\tAPPLIED\tAVAILABLE\tCOMPLETE\tAGE")
	wide := output == "wide"
	if wide {
		fmt.Fprint(table, "\tREPLICA SET\tPLACEMENT")
	}
	fmt.Fprintln(table)
	for _, r := range rows {
		if r.Deleting {
			r.Applied = "deleting"
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%s", r.Cluster, r.Name, r.Manifests, r.Applied, r.Available, r.Complete, duration.HumanDuration(now.Sub(r.Created)))
		if wide {
			fmt.Fprintf(table, "\t%s\t%s", orDash(r.ReplicaSet), orDash(r.Placement))
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}
