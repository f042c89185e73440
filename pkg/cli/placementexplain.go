package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"nave/pkg/placement"
)

// explainedRows is how many clusters that passed all filters, and how many of those that did not, are shown unless more are
// asked for: a screen or two.
const explainedRows = 50

func (g *global) placementExplain() *cobra.Command {
	var from namespacedAccess
	var clusters []string
	var output string
	limit := explainedRows
	cmd := &cobra.Command{
		Use:   "explain NAME",
		Short: "Say for each cluster why a placement selects it, or what keeps it out",
		Long: `Asks the hub to evaluate a placement as it is now, and shows the clusters that passed all filters, best first, with their scores and
decision groups, then those that something keeps out, with the filter and the value that did it. Asking decides nothing.

A score is the sum of those of the prioritizers, each times the weight that stands beside its name.`,
		Example: `  nave placement explain app -n shops
  nave placement explain app -n shops --cluster shop-7
  nave placement explain app -n shops -o json`,
		Args: onePlacement,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			switch {
			case output != "" && output != "json":
				return usageError{fmt.Errorf("--output %s is unknown; it is json", output)}
			case limit < 0:
				return usageError{fmt.Errorf("--limit %d is negative; 0 shows all", limit)}
			}
			hub, err := from.connect()
			if err != nil {
				return err
			}
			x, err := hub.explain(cmd.Context(), from.namespace, arguments[0])
			if err != nil {
				return err
			}
			missing := keepOnly(x, clusters)
			if output == "json" {
				encoder := json.NewEncoder(g.streams.Out)
				encoder.SetIndent("", "  ")
				return encoder.Encode(x)
			}
			if err := writeExplanation(g.streams.Out, x, limit); err != nil {
				return err
			}
			for _, name := range missing {
				fmt.Fprintf(g.streams.Out, "cluster %s is not among those that the hub has, or you may not see it\n", name)
			}
			return nil
		},
	}
	from.addFlags(cmd.Flags(), "the placement")
	cmd.Flags().StringSliceVar(&clusters, "cluster", nil, "only these clusters, c1 or c1,c2")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json for programs, with all clusters")
	cmd.Flags().IntVar(&limit, "limit", limit, "how many clusters are shown at most that passed all filters, and how many that did not; 0 for all")
	return cmd
}

// explain asks the hub's debug path, which says what is wrong in its answer.
func (c *clients) explain(ctx context.Context, namespace, name string) (*placement.Explanation, error) {
	code := 0
	body, err := c.kube.CoreV1().RESTClient().Get().AbsPath("/debug/placements", namespace, name).Do(ctx).StatusCode(&code).Raw()
	x := &placement.Explanation{}
	said := ""
	if readErr := json.Unmarshal(body, x); readErr == nil {
		said = x.Error
	} else if err == nil {
		return nil, fmt.Errorf("placement %s of namespace %s: the answer of hub %s is no explanation: %w", name, namespace, c.config.Host, readErr)
	}
	switch {
	case err == nil:
		return x, nil
	case code == http.StatusNotFound && said != "":
		return nil, fmt.Errorf("namespace %s has no placement %s; nave placement list -A shows those that there are", namespace, name)
	case code == http.StatusNotFound:
		return nil, fmt.Errorf("hub %s explains no placements; only nave's hub does that on this path", c.config.Host)
	case said != "":
		return nil, fmt.Errorf("placement %s of namespace %s: %s", name, namespace, said)
	}
	return nil, fmt.Errorf("placement %s of namespace %s: %w", name, namespace, err)
}

// keepOnly leaves the named clusters in an explanation, if any are named, and returns those that are not in it.
func keepOnly(x *placement.Explanation, names []string) (missing []string) {
	if len(names) == 0 {
		return nil
	}
	left := map[string]bool{}
	for _, name := range names {
		left[name] = true
	}
	x.Clusters = slices.DeleteFunc(x.Clusters, func(c placement.Explained) bool { return !left[c.Name] })
	for _, c := range x.Clusters {
		delete(left, c.Name)
	}
	return slices.Sorted(maps.Keys(left))
}

func writeExplanation(out io.Writer, x *placement.Explanation, limit int) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CONDITION\tSTATUS\tREASON\tMESSAGE")
	for _, c := range x.Conditions {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.Type, c.Status, c.Reason, oneLineOf(c.Message))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, warning := range x.Warnings {
		fmt.Fprintf(out, "\nwarning: %s\n", oneLineOf(warning))
	}
	ranked, refused := sorted(x.Clusters)
	if len(x.Clusters) > 0 {
		fmt.Fprintf(out, "\n%s\n", tally(x.Clusters))
	}
	if err := writeRanked(out, x, ranked, limit); err != nil {
		return err
	}
	return writeRefused(out, refused, limit)
}

// sorted are clusters that passed all filters, best first, and the others, those of one filter together.
func sorted(clusters []placement.Explained) (ranked, refused []placement.Explained) {
	for _, c := range clusters {
		if c.Rank > 0 {
			ranked = append(ranked, c)
		} else {
			refused = append(refused, c)
		}
	}
	slices.SortFunc(ranked, func(a, b placement.Explained) int { return cmp.Compare(a.Rank, b.Rank) })
	slices.SortStableFunc(refused, func(a, b placement.Explained) int {
		return cmp.Or(cmp.Compare(a.Filter, b.Filter), cmp.Compare(a.Name, b.Name))
	})
	return ranked, refused
}

// tally says in one line what came of all clusters.
func tally(clusters []placement.Explained) string {
	selected := 0
	kept := map[string]int{}
	for _, c := range clusters {
		if c.Selected {
			selected++
		} else {
			kept[c.Filter]++
		}
	}
	text := fmt.Sprintf("%d of %d clusters selected", selected, len(clusters))
	var parts []string
	for _, filter := range slices.Sorted(maps.Keys(kept)) {
		parts = append(parts, fmt.Sprintf("%d by %s", kept[filter], filter))
	}
	if len(parts) > 0 {
		text += "; kept out: " + strings.Join(parts, ", ")
	}
	return text
}

func writeRanked(out io.Writer, x *placement.Explanation, ranked []placement.Explained, limit int) error {
	shown := shownOf(ranked, limit)
	if len(shown) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprint(table, "RANK\tCLUSTER\tSELECTED\tSCORE")
	for _, p := range x.PrioritizeResults {
		fmt.Fprintf(table, "\t%s x%d", p.Name, p.Weight)
	}
	fmt.Fprintln(table, "\tGROUP\tKEPT OUT BY\tREASON")
	for _, c := range shown {
		fmt.Fprintf(table, "%d\t%s\t%s\t%d", c.Rank, c.Name, selectedOf(c), c.Score)
		for _, p := range x.PrioritizeResults {
			score := "-"
			if points, ok := c.Scores[p.Name]; ok {
				score = strconv.FormatInt(points, 10)
			}
			fmt.Fprintf(table, "\t%s", score)
		}
		fmt.Fprintf(table, "\t%s\t%s\t%s\n", orDash(c.Group), orDash(c.Filter), orDash(oneLineOf(c.Reason)))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	writeLeftOut(out, len(ranked)-len(shown), "that passed all filters")
	return nil
}

func writeRefused(out io.Writer, refused []placement.Explained, limit int) error {
	shown := shownOf(refused, limit)
	if len(shown) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CLUSTER\tSELECTED\tKEPT OUT BY\tREASON")
	for _, c := range shown {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.Name, selectedOf(c), orDash(c.Filter), orDash(oneLineOf(c.Reason)))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	writeLeftOut(out, len(refused)-len(shown), "that a filter keeps out")
	return nil
}

func shownOf(all []placement.Explained, limit int) []placement.Explained {
	if limit == 0 || len(all) <= limit {
		return all
	}
	return all[:limit]
}

func writeLeftOut(out io.Writer, count int, which string) {
	if count > 0 {
		fmt.Fprintf(out, "and %d more %s; --limit 0 shows all, --cluster NAME those that you name\n", count, which)
	}
}

// selectedOf tells whether a cluster is selected, and where the decisions are not there yet.
func selectedOf(c placement.Explained) string {
	switch {
	case c.Selected && !c.Decided:
		return "soon"
	case c.Selected:
		return "yes"
	case c.Decided:
		return "not any more"
	}
	return "no"
}
