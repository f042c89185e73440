package apiserver

import (
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	coreapi "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/utils/clock"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/identity"
)

// What agents may send. Upstream's agents stay far below each of these; a hub that serves thousands of them has to stand
// one that does not. Lengths of texts are bounded by the schemas of the kinds, signing requests by requestRules.
const (
	// agentBody is the largest body of an agent's request: a work of the usual 500 KiB, written back with its status.
	agentBody = 2 << 20
	// joinBody is the largest body of who only asks to register: a signing request has 2 KiB.
	joinBody = 64 << 10

	// maxConditions of one object; upstream's agents write up to ten.
	maxConditions = 64
	// maxClaims of one cluster; upstream's agent reports 20 and the reserved ones.
	maxClaims = 512
	// maxResources are the kinds of capacity that a cluster reports; the largest nodes know some dozen.
	maxResources = 256
	// maxLabels and maxAnnotations of what an agent writes.
	maxLabels, maxAnnotations = 128, 128

	// An agent may write eventsBurst events at once, and one every eventsEvery after that. They are gone after an hour, so
	// there are never more than 3,800 of a cluster's.
	eventsBurst, eventsEvery = 200, time.Second
	// eventClusters is how many clusters are told apart for that.
	eventClusters = 16384
)

// limitBody refuses a request whose body is too long for who sends it, and cuts one that does not say how long it is.
func limitBody(w http.ResponseWriter, r *http.Request, u user.Info) error {
	limit, who := int64(0), ""
	if cluster, _, ok := identity.ClusterOf(u.GetName(), u.GetGroups()); ok {
		limit, who = agentBody, "agents of cluster "+cluster
	} else if identity.IsBootstrap(u) {
		limit, who = joinBody, "registering a cluster"
	}
	if limit == 0 || r.Body == nil {
		return nil
	}
	if r.ContentLength > limit {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the body has %d bytes, the limit for %s is %d", r.ContentLength, who, limit))
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	return nil
}

// agentLimits holds what agents write to its limits.
type agentLimits struct {
	events *limiters
}

func newAgentLimits(clock clock.PassiveClock) *agentLimits {
	return &agentLimits{events: newLimiters(eventClusters, eventsEvery, eventsBurst, clock)}
}

// Validate says which limit something is over that an agent is about to write.
func (l *agentLimits) Validate(a admission.Attributes) error {
	u := a.GetUserInfo()
	cluster, _, ok := identity.ClusterOf(u.GetName(), u.GetGroups())
	if !ok || a.GetObject() == nil {
		return nil
	}
	if _, event := a.GetObject().(*coreapi.Event); event && a.GetOperation() == admission.Create && !l.events.take(cluster) {
		return apierrors.NewTooManyRequests(fmt.Sprintf("events of cluster %s: the limit is %d at once and one every %s", cluster, eventsBurst, eventsEvery), int(eventsEvery.Seconds()))
	}
	for _, c := range counts(a.GetObject()) {
		if c.have > c.max {
			return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(),
				fmt.Errorf("%d %s, the limit for agents of managed clusters is %d", c.have, c.what, c.max))
		}
	}
	return nil
}

// count is how many there are of something in an object, and how many there may be.
type count struct {
	what      string
	have, max int
}

func counts(object any) []count {
	var all []count
	if o, ok := object.(metav1.Object); ok {
		all = append(all, count{"labels", len(o.GetLabels()), maxLabels}, count{"annotations", len(o.GetAnnotations()), maxAnnotations})
	}
	switch o := object.(type) {
	case *clusterv1.ManagedCluster:
		all = append(all,
			count{"conditions", len(o.Status.Conditions), maxConditions}, count{"claims", len(o.Status.ClusterClaims), maxClaims},
			count{"resources of capacity", len(o.Status.Capacity), maxResources}, count{"allocatable resources", len(o.Status.Allocatable), maxResources})
	case *workv1.ManifestWork:
		all = append(all, count{"conditions", len(o.Status.Conditions), maxConditions})
		for _, m := range o.Status.ResourceStatus.Manifests {
			all = append(all, count{"conditions of one manifest", len(m.Conditions), maxConditions})
		}
	case *addonv1alpha1.ManagedClusterAddOn:
		all = append(all, count{"conditions", len(o.Status.Conditions), maxConditions})
	}
	return all
}
