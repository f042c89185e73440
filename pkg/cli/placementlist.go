package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// placementsPage is how many placements are read at a time. They are small: their decisions are objects of their own.
const placementsPage = 500

// placementRow is a placement in a list.
type placementRow struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Satisfied string    `json:"satisfied"` // True or False, or - if the hub has not looked at it yet
	Reason    string    `json:"reason,omitempty"`
	Message   string    `json:"message,omitempty"`
	Wanted    *int32    `json:"wanted,omitempty"` // none: as many as there are
	Selected  int32     `json:"selected"`
	Created   time.Time `json:"created"`

	wanted string
}

func (g *global) placementList() *cobra.Command {
	var from namespacedAccess
	var all bool
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List placements and how many clusters they select",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			if output != "" && output != "json" {
				return usageError{fmt.Errorf("--output %s is unknown; it is json", output)}
			}
			hub, err := from.connect()
			if err != nil {
				return err
			}
			if all {
				from.namespace = metav1.NamespaceAll
			}
			rows, err := hub.listPlacements(cmd.Context(), from.namespace)
			if err != nil {
				return err
			}
			if len(rows) == 0 && !all {
				fmt.Fprintf(g.streams.Err, "namespace %s has no placements; -A shows those of all namespaces\n", from.namespace)
			}
			return writePlacements(g.streams.Out, rows, output, time.Now())
		},
	}
	from.addFlags(cmd.Flags(), "the placements")
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "placements of all namespaces")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json for programs")
	return cmd
}

func (c *clients) listPlacements(ctx context.Context, namespace string) ([]placementRow, error) {
	rows := []placementRow{} // none are a list, too
	options := metav1.ListOptions{Limit: placementsPage}
	for {
		page, err := c.clusters.ClusterV1beta1().Placements(namespace).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list placements of hub %s: %w", c.config.Host, err)
		}
		for i := range page.Items {
			rows = append(rows, placementRowOf(&page.Items[i]))
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return rows, nil
		}
	}
}

func placementRowOf(p *clusterv1beta1.Placement) placementRow {
	row := placementRow{
		Namespace: p.Namespace, Name: p.Name, Satisfied: "-", Wanted: p.Spec.NumberOfClusters, Selected: p.Status.NumberOfSelectedClusters,
		Created: p.CreationTimestamp.Time, wanted: wanted(p),
	}
	if c := satisfied(p); c != nil {
		row.Satisfied, row.Reason, row.Message = string(c.Status), c.Reason, c.Message
	}
	return row
}

func writePlacements(out io.Writer, rows []placementRow, output string, now time.Time) error {
	if output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(rows)
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NAMESPACE\tNAME\tSATISFIED\tREASON\tWANTED\tSELECTED\tAGE")
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", r.Namespace, r.Name, yesNo(r.Satisfied), orDash(r.Reason), r.wanted, r.Selected, duration.HumanDuration(now.Sub(r.Created)))
	}
	return table.Flush()
}

// yesNo is the status of a condition for people.
func yesNo(status string) string {
	switch metav1.ConditionStatus(status) {
	case metav1.ConditionTrue:
		return "yes"
	case metav1.ConditionFalse:
		return "no"
	}
	return "-"
}
