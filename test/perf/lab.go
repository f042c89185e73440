package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
)

const labCluster = "cluster1"

// inLab brings a lab with one cluster up, measures, and takes it down.
func inLab(measure func(ctx context.Context, o options, dir string) ([]row, error)) func(context.Context, options) ([]row, error) {
	return func(ctx context.Context, o options) ([]row, error) { return withLab(ctx, o, measure) }
}

func withLab(ctx context.Context, o options, measure func(ctx context.Context, o options, dir string) ([]row, error)) ([]row, error) {
	dir, err := os.MkdirTemp("", "nave-perf-lab-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	lab := func(ctx context.Context, arguments ...string) error {
		cmd := exec.CommandContext(ctx, o.nave, append([]string{"lab"}, arguments...)...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		return cmd.Run()
	}
	if err := lab(ctx, "up", "--clusters", "1", "--data-dir", dir); err != nil {
		return nil, fmt.Errorf("bring the lab up: %w", err)
	}
	defer func() { _ = lab(context.WithoutCancel(ctx), "down", "--data-dir", dir) }()
	return measure(ctx, o, dir)
}

// hubWorks is a client for works of a lab's hub that nothing slows down.
func hubWorks(dir string) (workclient.Interface, error) {
	_, config, err := clientFor(filepath.Join(dir, "hub.kubeconfig"))
	if err != nil {
		return nil, err
	}
	return workclient.NewForConfig(config)
}
