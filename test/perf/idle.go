package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of /proc/<pid>/stat: Linux fixes it at a hundredth of a second for programs, whatever the kernel uses.
const clockTick = 10 * time.Millisecond

// measureIdle reads what an agent costs that has its works and nothing to do.
func measureIdle(ctx context.Context, o options, dir string) ([]row, error) {
	pid, err := processWith("nave", "agent", dir)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, settle); err != nil {
		return nil, err
	}
	share, err := cpuShare(ctx, pid, settle)
	if err != nil {
		return nil, err
	}
	m, err := memoryOf(pid)
	if err != nil {
		return nil, err
	}
	return []row{
		{fmt.Sprintf("agent idle with %d works, resident (anonymous)", o.burst), m.String(), "(<= 60 MB)"},
		{fmt.Sprintf("agent idle with %d works, of a core over %s", o.burst, settle), fmt.Sprintf("%.1f %%", 100*share), "<= 1 %"},
	}, nil
}

// cpuShare is how much of one core a process uses during d: 1 is all of it.
func cpuShare(ctx context.Context, pid int, d time.Duration) (float64, error) {
	before, err := cpuOf(pid)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := pause(ctx, d); err != nil {
		return 0, err
	}
	after, err := cpuOf(pid)
	return float64(after-before) / float64(time.Since(begun)), err
}

// cpuOf is the time that a process has run, in user mode and in the kernel.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	// The second field is a name in brackets that may contain spaces; utime and stime are the 14th and 15th.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var total time.Duration
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
		}
		total += time.Duration(n) * clockTick
	}
	return total, nil
}
