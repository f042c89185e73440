package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// tailBytes bounds how much of a log is looked at for its last lines.
const tailBytes = 16 << 10

// Tail returns the last lines of what a file holds behind the first from bytes, without blank lines.
func Tail(file string, from int64, lines int) ([]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("last lines: %w", err)
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("last lines of %s: %w", file, err)
	}
	from = max(from, size-tailBytes)
	text := make([]byte, max(0, size-from))
	if _, err := f.ReadAt(text, from); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("last lines of %s: %w", file, err)
	}
	var out []string
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			out = append(out, string(line))
		}
	}
	return out[max(0, len(out)-lines):], nil
}
