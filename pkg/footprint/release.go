// Package footprint gives memory back that a process needed only to start.
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
// next touch. It is called once, when a long-lived process is ready.
func Release() error {
	debug.FreeOSMemory()
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("path of this binary: %w", err)
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("mappings of this process: %w", err)
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		start, end, ok := readOnly(lines.Text(), binary)
		if !ok {
			continue
		}
		// Pages that nobody can write to are the file's; without them the file is read again.
		if _, _, failure := unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED); failure != 0 {
			return fmt.Errorf("let go of a mapping: %w", failure)
		}
	}
	return lines.Err()
}

// readOnly reads a line of /proc/self/maps, and tells whether it is of a part of the file that cannot be written to.
func readOnly(line, file string) (start, end uintptr, ok bool) {
	var permissions, offset, device string
	var inode uint64
	n, err := fmt.Sscanf(line, "%x-%x %s %s %s %d", &start, &end, &permissions, &offset, &device, &inode)
	if err != nil || n != 6 || !strings.HasSuffix(line, " "+file) {
		return 0, 0, false
	}
	return start, end, strings.HasPrefix(permissions, "r") && !strings.Contains(permissions, "w")
}
