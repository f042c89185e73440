package agent

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// eventReporter is the name under which upstream's agent writes events.
const eventReporter = "klusterlet-agent"

// recorder writes events about the agent's cluster where upstream writes them: on the hub, in the cluster's own namespace
// (spec 0.4).
type recorder struct {
	cluster     string
	broadcaster events.EventBroadcaster
	events      events.EventRecorder
}

func newRecorder(hub kubernetes.Interface, cluster string) *recorder {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: hub.EventsV1()})
	return &recorder{cluster: cluster, broadcaster: broadcaster, events: broadcaster.NewRecorder(scheme.Scheme, eventReporter)}
}

// Cluster records an event about the cluster.
func (r *recorder) Cluster(kind, reason, message string) {
	regarding := &corev1.ObjectReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "ManagedCluster", Name: r.cluster, Namespace: r.cluster}
	r.events.Eventf(regarding, nil, kind, reason, reason, "%s", message)
}

// run sends events until ctx ends.
func (r *recorder) run(ctx context.Context) error {
	if err := r.broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("events: %w", err)
	}
	<-ctx.Done()
	r.broadcaster.Shutdown()
	return nil
}
