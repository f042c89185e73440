package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memory is what /proc says of one process, in bytes.
type memory struct {
	resident, anonymous int64
}

func (m memory) String() string {
	return fmt.Sprintf("%d MB (%d MB)", m.resident>>20, m.anonymous>>20)
}

func memoryOf(pid int) (memory, error) {
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return memory{}, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	defer f.Close()
	var m memory
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		var kib int64
		switch name {
		case "VmRSS", "RssAnon":
			if _, err := fmt.Sscanf(strings.TrimSpace(rest), "%d kB", &kib); err != nil {
				return memory{}, fmt.Errorf("memory of process %d: %s: %w", pid, name, err)
			}
		}
		switch name {
		case "VmRSS":
			m.resident = kib << 10
		case "RssAnon":
			m.anonymous = kib << 10
		}
	}
	return m, lines.Err()
}

// processWith finds the process whose command line begins with a program and has all these arguments.
func processWith(program string, arguments ...string) (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err != nil {
			continue // it has ended
		}
		words := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
		if filepath.Base(words[0]) == program && containsAll(words[1:], arguments) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no process %s %s", program, strings.Join(arguments, " "))
}

func containsAll(words, wanted []string) bool {
	line := strings.Join(words, " ")
	for _, w := range wanted {
		if !strings.Contains(line, w) {
			return false
		}
	}
	return true
}
