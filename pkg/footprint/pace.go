package footprint

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// leastPercent keeps a heap that is nearly all bytes from being collected at every turn: to sweep it costs, too.
	leastPercent = 20
	// freeBytes is garbage that is not worth a collection. A hub without works has about as much memory that lives.
	freeBytes = 128 << 20
	// noticed is how many percent points are worth the short stop of the process that a change is.
	noticed = 5
)

// Pace bounds garbage by what it costs to collect, until ctx ends. Go lets garbage grow to as much as there is that lives.
// But a collection only walks through memory that may hold pointers, and most of what a hub with many works keeps are the
// bytes of manifests, which it skips. So garbage may grow to as much as is walked through: collections come in the rhythm
// in which they would if there were no manifests, and a small process has them as ever. GOGC, if somebody has set it, stays the upper bound; off stays off.
func Pace(ctx context.Context) error {
	most, on := gcPercent()
	if !on || most < leastPercent {
		<-ctx.Done()
		return nil
	}
	defer debug.SetGCPercent(most)
	current := most
	collected := make(chan struct{}, 1)
	for {
		nextCollection(collected)
		select {
		case <-ctx.Done():
			return nil
		case <-collected:
		}
		if next := percent(readHeap(), most); next-current >= noticed || current-next >= noticed {
			debug.SetGCPercent(next)
			current = next
		}
	}
}

// gcPercent is the GOGC in force, if there is one.
func gcPercent() (percent int, on bool) {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 || sample[0].Value.Uint64() > math.MaxInt32 {
		return 0, false
	}
	return int(sample[0].Value.Uint64()), true
}

// nextCollection sends a note once the collector has been through: it finds an object that nobody holds.
func nextCollection(collected chan<- struct{}) {
	unheld := new([16]byte) // smaller ones share a block with others, and live as long as those
	runtime.AddCleanup(unheld, func(collected chan<- struct{}) {
		select {
		case collected <- struct{}{}:
		default:
		}
	}, collected)
}

// heap is what the last collection found, in bytes.
type heap struct {
	live   uint64 // of the heap
	walked uint64 // of it, what may hold pointers
	roots  uint64 // stacks and global variables, which are walked through as well
}

func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/heap:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}
	metrics.Read(samples)
	var values [4]uint64
	for i, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			values[i] = s.Value.Uint64()
		}
	}
	return heap{live: values[0], walked: values[1], roots: values[2] + values[3]}
}

// percent is the GOGC with which garbage may grow to as much as is walked through, or to freeBytes. Go takes it of live heap
// and roots together.
func percent(h heap, most int) int {
	if h.live+h.roots == 0 {
		return most
	}
	return min(most, max(leastPercent, int(100*max(freeBytes, h.walked+h.roots)/(h.live+h.roots))))
}
