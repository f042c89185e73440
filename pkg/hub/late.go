package hub

import (
	"net/http"
	"sync/atomic"
)

// late is a handler of the API server whose answers come from a controller, which starts after it.
type late struct{ handler atomic.Pointer[http.Handler] }

func (l *late) set(h http.Handler) { l.handler.Store(&h) }

// ServeHTTP implements http.Handler.
func (l *late) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := l.handler.Load()
	if h == nil {
		http.Error(w, "the hub's controllers do not run yet; ask again in a second", http.StatusServiceUnavailable)
		return
	}
	(*h).ServeHTTP(w, r)
}
