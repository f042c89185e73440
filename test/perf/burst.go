package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
)

// burstClients send at the same time.
const burstClients = 20

// measureThousand sends a burst of works to one cluster, and then looks at an agent that has them all.
func measureThousand(ctx context.Context, o options, dir string) ([]row, error) {
	works, err := hubWorks(dir)
	if err != nil {
		return nil, err
	}
	took, err := burst(ctx, works, o.burst)
	if err != nil {
		return nil, err
	}
	rows := []row{{fmt.Sprintf("burst of %d works to one cluster, all applied after", o.burst), took.Round(10 * time.Millisecond).String(), "1,000: <= 8 s"}}
	for _, next := range []struct {
		name    string
		measure func(context.Context, options, string) ([]row, error)
	}{{"drift", measureDrift}, {"idle", measureIdle}} {
		if !o.wants(next.name) {
			continue
		}
		more, err := next.measure(ctx, o, dir)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// burst is the time from the first create until all n works are applied.
func burst(ctx context.Context, works workclient.Interface, n int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	under, err := watchCrossings(ctx, works)
	if err != nil {
		return 0, err
	}
	var sending errgroup.Group
	sending.SetLimit(burstClients)
	begun := time.Now()
	for i := range n {
		sending.Go(func() error { return under.send(ctx, works, workNumber(i)) })
	}
	if err := sending.Wait(); err != nil {
		return 0, err
	}
	if err := under.wait(ctx, n); err != nil {
		return 0, err
	}
	return time.Since(begun), nil
}
