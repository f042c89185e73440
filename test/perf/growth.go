package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// figure is one thing that a fleet costs.
type figure struct {
	what  string
	value float64
	print func(float64) string
	goal  string
}

func duration(what string, d time.Duration, goal string) figure {
	return figure{what, float64(d), func(v float64) string { return time.Duration(v).Round(time.Millisecond).String() }, goal}
}

func count(what string, n int, goal string) figure {
	return figure{what, float64(n), func(v float64) string { return fmt.Sprintf("%.0f", v) }, goal}
}

func ofACore(what string, share float64, goal string) figure {
	return figure{what, share, func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }, goal}
}

func megabytes(what string, bytes int64, goal string) figure {
	return figure{what, float64(bytes), func(v float64) string { return fmt.Sprintf("%d MB", int64(v)>>20) }, goal}
}

// atTwoSizes measures a fleet of a tenth of the clusters and one of all of them, each on its own hub, and shows side by side
// how costs grow: linear is 10 times.
func atTwoSizes(namespaces bool, measure func(context.Context, options, *fleet) ([]figure, error)) func(context.Context, options) ([]row, error) {
	return func(ctx context.Context, o options) ([]row, error) {
		small, err := atSize(ctx, o, o.clusters/10, namespaces, measure)
		if err != nil {
			return nil, err
		}
		large, err := atSize(ctx, o, o.clusters, namespaces, measure)
		if err != nil {
			return nil, err
		}
		rows := make([]row, len(large))
		for i, l := range large {
			s := small[i]
			value := fmt.Sprintf("%s and %s", s.print(s.value), l.print(l.value))
			if s.value > 0 {
				value += fmt.Sprintf(" (%.1f times)", l.value/s.value)
			}
			rows[i] = row{fmt.Sprintf("%d and %d clusters: %s", o.clusters/10, o.clusters, l.what), value, l.goal}
		}
		return rows, nil
	}
}

func atSize(ctx context.Context, o options, size int, namespaces bool, measure func(context.Context, options, *fleet) ([]figure, error)) ([]figure, error) {
	dir, err := os.MkdirTemp("", "nave-perf-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	f, err := newFleet(ctx, o.nave, dir, size, namespaces)
	if err != nil {
		return nil, fmt.Errorf("hub with %d clusters: %w", size, err)
	}
	defer func() { f.hub.stop() }() // the one that runs by then: a measurement may restart it
	figures, err := measure(ctx, o, f)
	if err != nil {
		return nil, fmt.Errorf("hub with %d clusters: %w", size, err)
	}
	return figures, nil
}
