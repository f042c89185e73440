package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// bootID is where the kernel tells one boot from the next; ticks since boot alone could repeat.
const bootID = "/proc/sys/kernel/random/boot_id"

// startField is the index of the start time among the fields of /proc/PID/stat that follow the name (proc(5), field 22).
const startField = 19

type stat struct {
	state byte
	start uint64
}

func identify(pid int) (ID, error) {
	s, err := readStat(pid)
	if err != nil {
		return ID{}, err
	}
	boot, err := os.ReadFile(bootID)
	if err != nil {
		return ID{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	return ID{PID: pid, Start: s.start, Boot: strings.TrimSpace(string(boot))}, nil
}

func (id ID) sameBoot() bool {
	boot, err := os.ReadFile(bootID)
	return err == nil && strings.TrimSpace(string(boot)) == id.Boot
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	// The name stands in brackets and may itself hold brackets and blanks, so look for the last one.
	rest := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(rest) <= startField {
		return stat{}, fmt.Errorf("identify process %d: %d fields in its stat file", pid, len(rest))
	}
	start, err := strconv.ParseUint(rest[startField], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("identify process %d: start time: %w", pid, err)
	}
	return stat{state: rest[0][0], start: start}, nil
}
