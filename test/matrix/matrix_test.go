package matrix

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"nave/pkg/identity"
)

const (
	// parallel is how many requests are under way at once.
	parallel = 8
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 1 << 20
)

// served is a resource in one version, as discovery has it.
type served struct {
	gv         schema.GroupVersion
	name       string // with the subresource
	namespaced bool
	verbs      []string
}

func (s served) key() string {
	if s.gv.Group == "" {
		return s.name
	}
	return s.name + "." + s.gv.Group
}

// try is one request of the matrix.
type try struct {
	who      who
	what     served
	where    where
	verb     string
	method   string
	path     string
	expected bool
}

func (c try) String() string {
	return fmt.Sprintf("%s: %s %s of %s (%s %s)", c.who, c.verb, c.what.key(), c.where, c.method, c.path)
}

func TestMatrix(t *testing.T) {
	r, ctx := start(t)
	table := rights()
	seen := map[string]bool{}
	var tries []try
	for _, resource := range r.discover(t) {
		row, known := table[resource.key()]
		if !known {
			t.Errorf("%s has no row in the table; say who may do what with it", resource.key())
			continue
		}
		seen[resource.key()] = true
		for w, p := range r.parties {
			tries = append(tries, r.triesOf(w, p, resource, row)...)
		}
	}
	for key := range table {
		require.True(t, seen[key], "the table has a row for %s, which the hub does not serve", key)
	}
	r.run(t, ctx, tries)
}

// run makes the requests and compares.
func (r *rig) run(t *testing.T, ctx context.Context, tries []try) {
	var group errgroup.Group
	group.SetLimit(parallel)
	for _, c := range tries {
		group.Go(func() error {
			code, body, err := r.parties[c.who].ask(ctx, c.method, c.path)
			switch {
			case err != nil:
				t.Errorf("%s: %v", c, err)
			case code == http.StatusTooManyRequests || code >= http.StatusInternalServerError:
				t.Errorf("%s: the answer %d says nothing: %s", c, code, body)
			case refused(code) == c.expected:
				t.Errorf("%s: allowed should be %t, the answer is %d: %s", c, c.expected, code, body)
			}
			return nil
		})
	}
	_ = group.Wait()
	t.Logf("%d requests", len(tries))
}

// refused tells whether an answer means that the identity may not. Whoever may gets further: to an object that is not
// there, or to a body that cannot be read.
func refused(code int) bool { return code == http.StatusUnauthorized || code == http.StatusForbidden }

// ask makes a request that can change nothing: its body is unreadable, or it is dry.
func (p *party) ask(ctx context.Context, method, path string) (int, string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a watch
	var body io.Reader
	if method != http.MethodGet && method != http.MethodDelete {
		body = strings.NewReader("unreadable")
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(p.config.Host, "/")+path, body)
	if err != nil {
		return 0, "", err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := p.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	if strings.Contains(path, "watch=") && response.StatusCode == http.StatusOK {
		return response.StatusCode, "", nil
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return response.StatusCode, string(text), err
}

// discover is everything that the hub serves, in every version.
func (r *rig) discover(t *testing.T) []served {
	t.Helper()
	_, lists, err := r.kube.Discovery().ServerGroupsAndResources()
	require.NoError(t, err)
	var all []served
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		require.NoError(t, err)
		for _, resource := range list.APIResources {
			all = append(all, served{gv, resource.Name, resource.Namespaced, resource.Verbs})
		}
	}
	require.NotEmpty(t, all)
	return all
}

// triesOf are all requests that an identity can make about a resource.
func (r *rig) triesOf(w who, p *party, s served, row []grant) []try {
	var tries []try
	for _, verb := range s.verbs {
		for _, place := range placesOf(s, verb) {
			method, path := r.request(p, s, place, verb)
			expected := slices.ContainsFunc(row, func(g grant) bool {
				return slices.Contains(g.who, w) && slices.Contains(g.where, place) && slices.Contains(strings.Fields(g.verbs), verb)
			})
			tries = append(tries, try{w, s, place, verb, method, path, expected})
		}
	}
	return tries
}

func placesOf(s served, verb string) []where {
	many := verb == "list" || verb == "watch"
	switch {
	case s.namespaced && many:
		return []where{own, other, system, public, all}
	case s.namespaced:
		return []where{own, other, system, public}
	case many:
		return []where{own, other, all}
	case verb == "create" || verb == "deletecollection":
		return []where{all}
	}
	return []where{own, other}
}

// request is the method and the path of a verb, such as a client would send it.
func (r *rig) request(p *party, s served, place where, verb string) (method, path string) {
	resource, sub, _ := strings.Cut(s.name, "/")
	path = "/apis/" + s.gv.String()
	if s.gv.Group == "" {
		path = "/api/" + s.gv.Version
	}
	if s.namespaced && place != all {
		path += "/namespaces/" + p.namespace(place)
	}
	path += "/" + resource
	query := url.Values{}
	method = map[string]string{"create": http.MethodPost, "update": http.MethodPut, "patch": http.MethodPatch,
		"delete": http.MethodDelete, "deletecollection": http.MethodDelete}[verb]
	switch verb {
	case "list", "watch":
		method = http.MethodGet
		if verb == "watch" {
			query.Set("watch", "true")
			query.Set("timeoutSeconds", "5")
		}
		if !s.namespaced && place != all {
			key, value := r.selector(p, s, place)
			query.Set(key, value)
		}
	case "get":
		method = http.MethodGet
	default:
		query.Set("dryRun", metav1.DryRunAll)
	}
	if slices.Contains([]string{"get", "update", "patch", "delete"}, verb) || sub != "" {
		path += "/" + r.object(p, s, place)
	}
	if sub != "" {
		path += "/" + sub
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return method, path
}

// selector is how a client asks for what is one cluster's among things outside of namespaces: requests by their label,
// everything else by its name.
func (r *rig) selector(p *party, s served, place where) (key, value string) {
	if isRequests(s) {
		return "labelSelector", identity.ClusterNameLabel + "=" + p.namespace(place)
	}
	return "fieldSelector", "metadata.name=" + r.object(p, s, place)
}

func isRequests(s served) bool { return strings.HasPrefix(s.name, "certificatesigningrequests") }

// namespace is that of a place, seen from a party.
func (p *party) namespace(place where) string {
	return map[where]string{own: p.cluster, other: otherCluster, system: metav1.NamespaceSystem, public: metav1.NamespacePublic}[place]
}

// object is the name of the object that a request is about.
func (r *rig) object(p *party, s served, place where) string {
	switch {
	case isRequests(s) && place == own:
		return p.request
	case isRequests(s):
		return r.otherRequest
	case strings.HasPrefix(s.name, "leases"):
		return "managed-cluster-lease"
	case s.namespaced && place == public:
		return "cluster-info"
	case s.namespaced:
		return "anything"
	}
	return p.namespace(place)
}

// TestVirtualRights asks for what no request shows: rights that only reviews speak of.
func TestVirtualRights(t *testing.T) {
	r, ctx := start(t)
	for _, row := range virtual() {
		for w, p := range r.parties {
			name := string(row.name)
			if row.name == own || row.name == other {
				name = p.namespace(row.name)
			}
			attributes := authorizationv1.ResourceAttributes{Group: row.group, Resource: row.resource, Subresource: row.subresource, Name: name, Verb: row.verb}
			if row.resource == "manifestworks" {
				attributes.Namespace = p.cluster
			}
			review, err := r.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: p.user, Groups: p.groups, ResourceAttributes: &attributes},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			require.Equal(t, slices.Contains(row.who, w), review.Status.Allowed, "%s: %s %s/%s.%s %s", w, row.verb, row.resource, row.subresource, row.group, name)
		}
	}
}

// TestPaths tries what is served besides resources.
func TestPaths(t *testing.T) {
	r, ctx := start(t)
	table := paths()
	all := []string{"/", "/debug/pprof/", "/debug/flags/v", "/debug/api_priority_and_fairness/dump_requests", "/logs/", "/openapi/v2", "/openapi/v3"}
	for path := range table {
		if below, ok := strings.CutSuffix(path, "/"); ok && below != "" {
			path = below + "/x"
		}
		all = append(all, path)
	}
	for _, path := range append(all, r.index(t, ctx)...) {
		rule, known := rule(table, path)
		if !known {
			t.Errorf("%s has no row in the table; say who may read it", path)
			continue
		}
		for w, p := range r.parties {
			code, body, err := p.ask(ctx, http.MethodGet, path)
			require.NoError(t, err)
			require.Equal(t, !slices.Contains(table[rule], w), refused(code), "%s: %s: %d: %.200s", w, path, code, body)
		}
	}
}

// index is the list of paths that the hub tells an administrator.
func (r *rig) index(t *testing.T, ctx context.Context) []string {
	t.Helper()
	var list metav1.RootPaths
	body, err := r.kube.RESTClient().Get().AbsPath("/").DoRaw(ctx)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(body, &list))
	require.NotEmpty(t, list.Paths)
	return list.Paths
}

// rule is the row for a path: its own, or the one for everything below its first part.
func rule(table map[string][]who, path string) (string, bool) {
	if _, ok := table[path]; ok {
		return path, true
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	_, ok := table["/"+first+"/"]
	return "/" + first + "/", ok
}

// TestImpersonation: nobody becomes somebody else.
func TestImpersonation(t *testing.T) {
	r, ctx := start(t)
	for w, p := range r.parties {
		for _, header := range []http.Header{
			{"Impersonate-User": {"nave-admin"}, "Impersonate-Group": {"system:masters"}},
			{"Impersonate-User": {identity.Agent{Cluster: otherCluster, Name: "a1"}.User()}},
			{"Impersonate-User": {p.user}},
			{"Impersonate-User": {p.user}, "Impersonate-Extra-Nave.dev%2fjoin-Token": {"abcdefghij"}},
		} {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(p.config.Host, "/")+"/version", nil)
			require.NoError(t, err)
			request.Header = header
			response, err := p.client.Do(request)
			require.NoError(t, err)
			response.Body.Close()
			require.True(t, refused(response.StatusCode), "%s with %v: %d", w, header, response.StatusCode)
		}
	}
}

// TestAgentsSeeOnlyTheirOwnRequests: whatever an agent selects, a list of signing requests holds those of its cluster.
func TestAgentsSeeOnlyTheirOwnRequests(t *testing.T) {
	r, ctx := start(t)
	p := r.parties[agent]
	kube, err := kubernetes.NewForConfig(p.config)
	require.NoError(t, err)
	for _, test := range []struct {
		name    string
		options metav1.ListOptions
		sees    bool
	}{
		{"no selector", metav1.ListOptions{}, true},
		{"its own label", metav1.ListOptions{LabelSelector: identity.ClusterNameLabel + " = " + p.cluster}, true},
		{"another cluster's label", metav1.ListOptions{LabelSelector: identity.ClusterNameLabel + "=" + otherCluster}, false},
		{"any of two labels", metav1.ListOptions{LabelSelector: identity.ClusterNameLabel + " in (" + p.cluster + "," + otherCluster + ")"}, true},
		{"everything but its own", metav1.ListOptions{LabelSelector: identity.ClusterNameLabel + "!=" + p.cluster}, false},
		{"another one's name", metav1.ListOptions{FieldSelector: "metadata.name=" + r.otherRequest}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			list, err := kube.CertificatesV1().CertificateSigningRequests().List(ctx, test.options)
			require.NoError(t, err)
			require.Equal(t, test.sees, len(list.Items) > 0)
			for _, csr := range list.Items {
				require.Equal(t, p.cluster, csr.Labels[identity.ClusterNameLabel])
			}
		})
	}
}
