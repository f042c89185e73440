// Command perf measures what design section 5 sets goals for, on this machine, with real parts, and prints a table. It is
// never a test that passes or fails: machines differ and are shared. Results worth keeping go into RESULTS.md.
//
//	go run ./test/perf [-nave bin/nave] [-only works,burst] [-works 200] [-burst 1000] [-stored 10000] [-starts 3] [-agents 200] [-clusters 10000] [-moves 200]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
)

// row is one line of the table.
type row struct {
	what, value, goal string
}

type options struct {
	nave     string
	only     []string
	works    int
	burst    int
	stored   int
	starts   int
	agents   int
	clusters int
	moves    int
}

// group is rows that are measured together. It runs if one of its names is wanted.
type group struct {
	names   []string
	measure func(context.Context, options) ([]row, error)
}

func groups() []group {
	return []group{
		{[]string{"hub"}, measureHub},
		{[]string{"works"}, inLab(measureWorks)},
		{[]string{"rate"}, inLab(measureRate)},
		{[]string{"burst", "drift", "idle"}, inLab(measureThousand)},
		{[]string{"growth"}, measureGrowth},
		{[]string{"hub10k"}, measureStored},
		{[]string{"agents"}, inLab(measureAgents)},
		{[]string{"placements"}, atTwoSizes(false, measurePlacements)},
		{[]string{"replicasets"}, atTwoSizes(true, measureReplicaSets)},
	}
}

func main() {
	var o options
	var only string
	flag.StringVar(&o.nave, "nave", "bin/nave", "binary to measure")
	flag.StringVar(&only, "only", "", "what to measure, separated by commas, of "+strings.Join(names(), ", ")+"; everything if empty")
	flag.IntVar(&o.works, "works", 200, "works to create one after the other")
	flag.IntVar(&o.burst, "burst", 1000, "works to create at once")
	flag.IntVar(&o.stored, "stored", 10000, "works that a hub keeps for clusters without agents")
	flag.IntVar(&o.starts, "starts", 3, "first starts of a hub to take the median of")
	flag.IntVar(&o.agents, "agents", 200, "agents to join at once")
	flag.IntVar(&o.clusters, "clusters", 10000, "clusters that placements select from; a tenth of them is measured too")
	flag.IntVar(&o.moves, "moves", 200, "clusters whose label is changed, one after the other")
	flag.Parse()
	o.only = strings.FieldsFunc(only, func(r rune) bool { return r == ',' })
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "perf:", err)
		os.Exit(1)
	}
}

func names() []string {
	var all []string
	for _, g := range groups() {
		all = append(all, g.names...)
	}
	return all
}

func (o options) wants(name string) bool { return len(o.only) == 0 || slices.Contains(o.only, name) }

func run(ctx context.Context, o options, out io.Writer) error {
	for _, name := range o.only {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("nothing to measure is called %q: there are %s", name, strings.Join(names(), ", "))
		}
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WHAT\tMEASURED\tGOAL")
	for _, g := range groups() {
		if !slices.ContainsFunc(g.names, o.wants) {
			continue
		}
		rows, err := g.measure(ctx, o)
		if err != nil {
			// What was measured before is not lost.
			return errors.Join(fmt.Errorf("%s: %w", strings.Join(g.names, ", "), err), table.Flush())
		}
		for _, r := range rows {
			fmt.Fprintf(table, "%s\t%s\t%s\n", r.what, r.value, r.goal)
		}
	}
	return table.Flush()
}
