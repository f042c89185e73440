// Command perf measures what design section 5 sets goals for, on this machine, with real parts, and prints a table. It is
// never a test that passes or fails: machines differ and are shared. Results worth keeping go into RESULTS.md.
//
//	go run ./test/perf [-nave bin/nave] [-works 200] [-starts 3] [-agents 200]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"text/tabwriter"
)

// row is one line of the table.
type row struct {
	what, value, goal string
}

type options struct {
	nave   string
	works  int
	starts int
	agents int
}

func main() {
	var o options
	flag.StringVar(&o.nave, "nave", "bin/nave", "binary to measure")
	flag.IntVar(&o.works, "works", 200, "works to create one after the other")
	flag.IntVar(&o.starts, "starts", 3, "first starts of a hub to take the median of")
	flag.IntVar(&o.agents, "agents", 200, "agents to join at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "perf:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	hub, err := measureHub(ctx, o)
	if err != nil {
		return err
	}
	propagation, err := withLab(ctx, o, func(dir string) ([]row, error) { return measureWorks(ctx, o, dir) })
	if err != nil {
		return err
	}
	crowd, err := withLab(ctx, o, func(dir string) ([]row, error) { return measureAgents(ctx, o, dir) })
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WHAT\tMEASURED\tGOAL")
	for _, r := range slices.Concat(hub, propagation, crowd) {
		fmt.Fprintf(table, "%s\t%s\t%s\n", r.what, r.value, r.goal)
	}
	return table.Flush()
}
