package hub

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// recorder writes events about clusters where upstream writes them: in the cluster's own namespace, with the
// ManagedCluster as what they regard (spec 0.4).
type recorder struct {
	events.EventRecorder
}

func newRecorder(broadcaster events.EventBroadcaster) recorder {
	return recorder{broadcaster.NewRecorder(scheme.Scheme, "nave-hub")}
}

// Cluster records an event about a cluster.
func (r recorder) Cluster(name, kind, reason, message string) {
	regarding := &corev1.ObjectReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "ManagedCluster", Name: name, Namespace: name,
	}
	r.Eventf(regarding, nil, kind, reason, reason, "%s", message)
}

// Placement records an event about a placement in its namespace.
func (r recorder) Placement(p *clusterv1beta1.Placement, kind, reason, message string) {
	regarding := &corev1.ObjectReference{
		APIVersion: clusterv1beta1.GroupVersion.String(), Kind: "Placement", Namespace: p.Namespace, Name: p.Name, UID: p.UID,
	}
	r.Eventf(regarding, nil, kind, reason, reason, "%s", message)
}
