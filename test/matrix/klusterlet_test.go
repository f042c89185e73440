package matrix

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// question is what upstream's klusterlet operator asks about itself before it runs an agent (spec 9.4). A right that it is
// not given makes it report an unusable hub, so every row here has to be allowed as it is asked: without a name where it
// gives none.
type question struct {
	group, resource, subresource string
	own                          bool   // asked with the cluster's name
	name                         string // asked with this name
	namespaced                   bool   // asked in the cluster's namespace
	verbs                        []string
}

func (q question) String() string { return fmt.Sprintf("%s/%s.%s", q.resource, q.subresource, q.group) }

// bootstrapQuestions are asked with the bootstrap kubeconfig, also by agents with several hubs (spec 2.5).
func bootstrapQuestions() []question {
	return []question{
		{group: "cluster.open-cluster-management.io", resource: "managedclusters", verbs: []string{"create", "get"}},
		{group: "certificates.k8s.io", resource: "certificatesigningrequests", verbs: []string{"create", "get", "list", "watch"}},
	}
}

// agentQuestions are asked with the agent's own kubeconfig.
func agentQuestions() []question {
	const cluster, work = "cluster.open-cluster-management.io", "work.open-cluster-management.io"
	events := []string{"create", "patch", "update"}
	return []question{
		{group: "certificates.k8s.io", resource: "certificatesigningrequests", verbs: []string{"get", "list", "watch"}},
		{group: cluster, resource: "managedclusters", own: true, verbs: []string{"get", "list", "update", "watch"}},
		{group: cluster, resource: "managedclusters", subresource: "status", own: true, verbs: []string{"patch", "update"}},
		{group: "register.open-cluster-management.io", resource: "managedclusters", subresource: "clientcertificates", verbs: []string{"renew"}},
		{group: "coordination.k8s.io", resource: "leases", namespaced: true, name: "managed-cluster-lease", verbs: []string{"get", "update"}},
		{resource: "events", namespaced: true, verbs: events},
		{group: "events.k8s.io", resource: "events", namespaced: true, verbs: events},
		{group: work, resource: "manifestworks", namespaced: true, verbs: []string{"get", "list", "watch", "update"}},
		{group: work, resource: "manifestworks", subresource: "status", namespaced: true, verbs: []string{"patch", "update"}},
	}
}

func TestUpstreamOperatorFindsItsRights(t *testing.T) {
	r, ctx := start(t)
	for _, test := range []struct {
		who       who
		questions []question
	}{
		{joining, bootstrapQuestions()},
		{bootstrap, bootstrapQuestions()},
		{agent, agentQuestions()},
	} {
		p := r.parties[test.who]
		kube, err := kubernetes.NewForConfig(p.config)
		require.NoError(t, err)
		for _, q := range test.questions {
			for _, verb := range q.verbs {
				attributes := &authorizationv1.ResourceAttributes{Group: q.group, Resource: q.resource, Subresource: q.subresource, Name: q.name, Verb: verb}
				if q.own {
					attributes.Name = p.cluster
				}
				if q.namespaced {
					attributes.Namespace = p.cluster
				}
				review, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
					Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
				}, metav1.CreateOptions{})
				require.NoError(t, err)
				require.True(t, review.Status.Allowed, "%s: %s %s: %s", test.who, verb, q, review.Status.Reason)
			}
		}
	}
}

// TestNobodyIsProxied tries the subresources through which kube-apiserver forwards requests. A hub has none of these
// resources, and whoever comes from outside is refused before it comes to that.
func TestNobodyIsProxied(t *testing.T) {
	r, ctx := start(t)
	for w, p := range r.parties {
		for _, path := range []string{
			"/api/v1/nodes/n/proxy/metrics",
			"/api/v1/namespaces/" + p.cluster + "/pods/p/proxy/",
			"/api/v1/namespaces/" + p.cluster + "/pods/p/exec?command=sh",
			"/api/v1/namespaces/" + p.cluster + "/pods/p/portforward",
			"/api/v1/namespaces/" + otherCluster + "/services/https:s:443/proxy/x",
			"/api/v1/proxy/namespaces/kube-system/services/s/",
			"/apis/proxy.open-cluster-management.io/v1beta1/namespaces/" + otherCluster + "/clusterstatuses/" + otherCluster + "/proxy/api",
		} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				code, body, err := p.ask(ctx, method, path)
				require.NoError(t, err)
				require.True(t, refused(code), "%s: %s %s: %d: %.200s", w, method, path, code, body)
			}
		}
	}
}
