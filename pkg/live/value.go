// Package live holds values that change while a process runs, for parts that must not know each other: one part sets a
// value, others read it and are told when it changes.
package live

import (
	"reflect"
	"sync"
)

// Value is a value that changes. It is safe for use by many goroutines. A T that was handed in or out is shared by
// everyone who has it, so what it refers to (maps, slices) is never written to; a change makes a new one.
type Value[T any] struct {
	mu      sync.Mutex
	current T
	changed chan struct{} // closed at the next change
}

// New makes a value that is initial until somebody updates it.
func New[T any](initial T) *Value[T] {
	return &Value[T]{current: initial, changed: make(chan struct{})}
}

// Get is the value as it is now.
func (v *Value[T]) Get() T {
	current, _ := v.Watch()
	return current
}

// Watch is the value as it is now, and a channel that is closed when it changes for the first time after that.
func (v *Value[T]) Watch() (T, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.current, v.changed
}

// Update replaces the value by what change makes of it. Nobody is told of a change that changes nothing.
func (v *Value[T]) Update(change func(T) T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := change(v.current)
	if reflect.DeepEqual(v.current, next) {
		return
	}
	v.current = next
	close(v.changed)
	v.changed = make(chan struct{})
}
