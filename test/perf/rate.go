package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	worksPerSecond = 50
	rateLasts      = 20 * time.Second
)

// measureRate sends works to one cluster at a steady rate, whether or not it keeps up.
func measureRate(ctx context.Context, _ options, dir string) ([]row, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	works, err := hubWorks(dir)
	if err != nil {
		return nil, err
	}
	under, err := watchCrossings(ctx, works)
	if err != nil {
		return nil, err
	}
	const n = worksPerSecond * int(rateLasts/time.Second)
	tick := time.NewTicker(time.Second / worksPerSecond)
	defer tick.Stop()
	var sending errgroup.Group
	for i := range n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		sending.Go(func() error { return under.send(ctx, works, workNumber(i)) })
	}
	if err := sending.Wait(); err != nil {
		return nil, err
	}
	if err := under.wait(ctx, n); err != nil {
		return nil, err
	}
	return []row{{fmt.Sprintf("create to Applied, %d works/s to one cluster for %s", worksPerSecond, rateLasts), quantiles(under.took()), "p99 <= 250 ms"}}, nil
}
