package lab

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress writes one line per step, with the seconds since the first. Steps of different parts come at the same time.
type progress struct {
	mu    sync.Mutex
	out   io.Writer
	began time.Time
}

func newProgress(out io.Writer) *progress {
	if out == nil {
		out = io.Discard
	}
	return &progress{out: out, began: time.Now()}
}

func (p *progress) print(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Who cannot be told is not helped by a lab that stops half way.
	_, _ = fmt.Fprintf(p.out, "%6.1fs  %s\n", time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
}
