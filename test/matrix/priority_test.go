package matrix

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPriorityLevels looks at which level the hub handled a request: what keeps a cluster connected is not held up by what
// it does, and those who want to join hold nobody up.
func TestPriorityLevels(t *testing.T) {
	r, ctx := start(t)
	own := r.parties[agent].cluster
	for _, test := range []struct {
		name string
		who  who
		path string
		want string
	}{
		{"heartbeat", agent, "/apis/coordination.k8s.io/v1/namespaces/" + own + "/leases/managed-cluster-lease", "nave-heartbeats"},
		{"renewal", agent, "/apis/certificates.k8s.io/v1/certificatesigningrequests", "nave-heartbeats"},
		{"own cluster", agent, "/apis/cluster.open-cluster-management.io/v1/managedclusters/" + own, "nave-heartbeats"},
		{"works", agent, "/apis/work.open-cluster-management.io/v1/namespaces/" + own + "/manifestworks", "nave-agents"},
		{"add-ons", agent, "/apis/addon.open-cluster-management.io/v1alpha1/namespaces/" + own + "/managedclusteraddons", "nave-agents"},
		{"join with a join token", joining, "/apis/cluster.open-cluster-management.io/v1/managedclusters/" + r.parties[joining].cluster, "nave-joins"},
		{"join with a bootstrap token", bootstrap, "/apis/cluster.open-cluster-management.io/v1/managedclusters/" + r.parties[bootstrap].cluster, "nave-joins"},
		{"nobody", anonymous, "/api/v1/namespaces/kube-public/configmaps/cluster-info", "nave-joins"},
		{"nobody, no resource", anonymous, "/cacerts", "nave-joins"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := r.parties[test.who]
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(p.config.Host, "/")+test.path, nil)
			require.NoError(t, err)
			response, err := p.client.Do(request)
			require.NoError(t, err)
			defer response.Body.Close()
			require.Equal(t, http.StatusOK, response.StatusCode)
			level, err := r.kube.FlowcontrolV1().PriorityLevelConfigurations().Get(ctx, test.want, metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, string(level.UID), response.Header.Get("X-Kubernetes-PF-PriorityLevel-UID"))
		})
	}
}
