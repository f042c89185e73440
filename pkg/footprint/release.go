// Package footprint gives memory back that a process needed only to start or for a burst of work, and keeps garbage small.
package footprint

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

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
