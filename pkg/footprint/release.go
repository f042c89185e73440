// Package footprint gives memory back that a process needed only to start.
package footprint

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

const (
	// settling is how long after readiness start-up still goes on: caches fill, and the first garbage collections walk
	// through tables of everything.
	settling = 10 * time.Second
	settled  = 25 * time.Second
	// every is how often a process that has settled looks again for what a burst of work has left. It costs a tenth of a
	// second.
	every = 10 * time.Minute
)

// Trim releases memory while a process settles and from time to time after that, until ctx ends. What cannot be given back
// is only kept.
func Trim(ctx context.Context, log logrus.FieldLogger) error {
	for _, pause := range []time.Duration{settling, settled - settling} {
		if !after(ctx, pause, log) {
			return nil
		}
	}
	for after(ctx, every, log) {
	}
	return nil
}

// after releases once the pause is over; it tells whether ctx goes on.
func after(ctx context.Context, pause time.Duration, log logrus.FieldLogger) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		if err := Release(); err != nil {
			log.WithError(err).Debug("memory is not given back")
		}
		return true
	}
}

// Release returns free heap to the system, and lets go of the pages of this binary that are mapped: the code and tables of
// everything that start-up went through, of which little is needed again. What is, comes back from the page cache at the
// next touch.
func Release() error {
	debug.FreeOSMemory()
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("path of this binary: %w", err)
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("mappings of this process: %w", err)
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	var start, end uintptr
	candidate := false
	for lines.Scan() {
		line := lines.Text()
		name, rest, _ := strings.Cut(line, ":")
		switch {
		case candidate && (name == "Anonymous" || name == "Swap"):
			// Tables that the loader has filled in and then made read-only are this process's own, not the file's.
			candidate = strings.TrimSpace(rest) == "0 kB"
		case candidate && name == "VmFlags":
			if err := letGo(start, end); err != nil {
				return err
			}
			candidate = false
		default:
			if s, e, ok := readOnly(line, binary); ok {
				start, end, candidate = s, e, true
			}
		}
	}
	return lines.Err()
}

// letGo drops pages that are the file's; at the next touch they are read from it again.
func letGo(start, end uintptr) error {
	if _, _, failure := unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED); failure != 0 {
		return fmt.Errorf("let go of a mapping: %w", failure)
	}
	return nil
}

// readOnly reads the first line of a mapping in /proc/self/smaps, and tells whether it is of a part of the file that cannot be written to.
func readOnly(line, file string) (start, end uintptr, ok bool) {
	var permissions, offset, device string
	var inode uint64
	n, err := fmt.Sscanf(line, "%x-%x %s %s %s %d", &start, &end, &permissions, &offset, &device, &inode)
	if err != nil || n != 6 || !strings.HasSuffix(line, " "+file) {
		return 0, 0, false
	}
	return start, end, strings.HasPrefix(permissions, "r") && !strings.Contains(permissions, "w")
}
