package apiserver

import (
	"context"
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"

	"nave/pkg/log"
)

// running are the requests of agents that are being served, by cluster, so that those of a cluster can be ended at once
// when it is cut off. Watches are what matters: nothing else runs for long.
type running struct {
	log logrus.FieldLogger

	mu       sync.Mutex
	requests map[string]map[*context.CancelCauseFunc]struct{}
}

func newRunning(logger logrus.FieldLogger) *running {
	return &running{log: logger, requests: map[string]map[*context.CancelCauseFunc]struct{}{}}
}

// enter notes a request of a cluster's agent. Its context ends when the cluster is cut off; done has to be called when the
// request is over. Whoever enters first and judges the cluster's standing afterwards misses no cut-off in between.
func (r *running) enter(ctx context.Context, cluster string) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.requests[cluster] == nil {
		r.requests[cluster] = map[*context.CancelCauseFunc]struct{}{}
	}
	r.requests[cluster][&cancel] = struct{}{}
	return ctx, func() {
		cancel(nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.requests[cluster], &cancel)
		if len(r.requests[cluster]) == 0 {
			delete(r.requests, cluster)
		}
	}
}

// cut ends every request of a cluster's agents.
func (r *running) cut(cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for cancel := range r.requests[cluster] {
		(*cancel)(fmt.Errorf("managed cluster %s was cut off", cluster))
	}
	r.log.WithFields(logrus.Fields{log.FieldCluster: cluster, log.FieldRequests: len(r.requests[cluster])}).
		Info("cluster was rejected or is gone; the requests of its agents end")
}
