package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// settle is how long a process is left alone before its idle memory is read.
	settle = 30 * time.Second
	// pollReady is fine enough for a figure in tenths of a second.
	pollReady = 10 * time.Millisecond
	// patience ends a measurement that hangs.
	patience = 5 * time.Minute
)

// measureHub starts hubs from empty directories, and lets the last one idle.
func measureHub(ctx context.Context, o options) ([]row, error) {
	var first, again []time.Duration
	var idle memory
	for i := range o.starts {
		dir, err := os.MkdirTemp("", "nave-perf-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		took, _, err := startHub(ctx, o.nave, dir, 0)
		if err != nil {
			return nil, err
		}
		first = append(first, took)
		wait := time.Duration(0)
		if i == o.starts-1 {
			wait = settle
		}
		took, m, err := startHub(ctx, o.nave, dir, wait)
		if err != nil {
			return nil, err
		}
		again, idle = append(again, took), m
	}
	return []row{
		{"hub, first start to ready, median", median(first).Round(time.Millisecond).String(), "<= 3s"},
		{"hub, later start to ready, median", median(again).Round(time.Millisecond).String(), ""},
		{"hub idle, resident (anonymous)", idle.String(), "<= 230 MB (<= 130 MB)"},
	}, nil
}

// startHub runs a hub until it is ready, and then for as long as idle says; it returns the time to ready and its memory.
func startHub(ctx context.Context, nave, dir string, idle time.Duration) (time.Duration, memory, error) {
	hub, took, err := runHub(ctx, nave, dir)
	if err != nil {
		return 0, memory{}, err
	}
	defer hub.stop()
	if err := pause(ctx, idle); err != nil {
		return 0, memory{}, err
	}
	m, err := memoryOf(hub.cmd.Process.Pid)
	return took, m, err
}

// hubProcess is a hub without a lab.
type hubProcess struct {
	cmd *exec.Cmd
	log *os.File
}

// runHub starts a hub and returns once it is ready, with the time that it took.
func runHub(ctx context.Context, nave, dir string) (*hubProcess, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	log, err := os.Create(filepath.Join(dir, "hub.log"))
	if err != nil {
		return nil, 0, err
	}
	hub := &hubProcess{exec.Command(nave, "hub", "--data-dir", dir, "--listen", "127.0.0.1:0"), log}
	hub.cmd.Stdout, hub.cmd.Stderr = log, log
	begun := time.Now()
	if err := hub.cmd.Start(); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("start %s: %w", nave, err), log.Close())
	}
	if err := untilReady(ctx, adminKubeconfig(dir), begun); err != nil {
		hub.stop()
		return nil, 0, err
	}
	return hub, time.Since(begun), nil
}

func (h *hubProcess) stop() {
	_ = h.cmd.Process.Signal(syscall.SIGTERM)
	_ = h.cmd.Wait()
	_ = h.log.Close()
}

func adminKubeconfig(dir string) string { return filepath.Join(dir, "hub", "admin.kubeconfig") }

// untilReady asks the hub whether it is ready, with the kubeconfig that it wrote after begun.
func untilReady(ctx context.Context, kubeconfig string, begun time.Time) error {
	for {
		if info, err := os.Stat(kubeconfig); err == nil && info.ModTime().After(begun) {
			if ready(ctx, kubeconfig) {
				return nil
			}
		}
		if err := pause(ctx, pollReady); err != nil {
			return fmt.Errorf("hub with %s does not become ready: %w", kubeconfig, err)
		}
	}
}

func ready(ctx context.Context, kubeconfig string) bool {
	client, _, err := clientFor(kubeconfig)
	if err != nil {
		return false
	}
	var code int
	client.RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&code)
	return code == http.StatusOK
}

func clientFor(kubeconfig string) (*kubernetes.Clientset, *rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	return client, config, err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return errors.Join(ctx.Err(), context.Cause(ctx))
	case <-timer.C:
		return nil
	}
}

func median(d []time.Duration) time.Duration { return quantile(d, 0.5) }

// quantile is the smallest value that at least this share of all values does not exceed.
func quantile(d []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
