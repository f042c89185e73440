package hub

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"nave/pkg/placement"
)

// asking sends requests to the hub's debug path for placements.
type asking struct {
	*administrator
}

// as is an HTTP client of a user, who has logged on; without a name it is nobody.
func (a asking) as(user string) *http.Client {
	a.Helper()
	access := rest.AnonymousClientConfig(a.access)
	switch user {
	case "":
	case "?":
		access.BearerToken = "none"
	case "admin":
		access = a.access
	default:
		access = rest.CopyConfig(a.access)
		access.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	}
	client, err := rest.HTTPClientFor(access)
	require.NoError(a, err)
	return client
}

// ask returns the answer and its code. Every answer is JSON, and one that is not 200 says why.
func (a asking) ask(user, method, path, body string) (int, *placement.Explanation, http.Header) {
	a.Helper()
	request, err := http.NewRequestWithContext(a.ctx, method, a.access.Host+path, strings.NewReader(body))
	require.NoError(a, err)
	response, err := a.as(user).Do(request)
	require.NoError(a, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(a, err)
	x := &placement.Explanation{}
	if user != "?" && method != http.MethodHead { // a token is refused before anybody looks at the path
		require.Equal(a, "application/json", response.Header.Get("Content-Type"), "%s", text)
		require.NoError(a, json.Unmarshal(text, x), "%s", text)
		require.Equal(a, response.StatusCode == http.StatusOK, x.Error == "", "%d: %s", response.StatusCode, text)
	}
	return response.StatusCode, x, response.Header
}

// grant gives a user a right to placements of a namespace.
func (a asking) grant(user, namespace, verb string, names ...string) {
	a.Helper()
	rbac := a.kube.RbacV1()
	_, err := rbac.Roles(namespace).Create(a.ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{clusterv1beta1.GroupName}, Resources: []string{"placements"}, Verbs: []string{verb}, ResourceNames: names}}}, metav1.CreateOptions{})
	require.NoError(a, err)
	_, err = rbac.RoleBindings(namespace).Create(a.ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}}, metav1.CreateOptions{})
	require.NoError(a, err)
}

// TestPlacementDebug is the codes and the content of the debug path, and that asking changes nothing
// (open-cluster-management-io/ocm#1593, #1623).
func TestPlacementDebug(t *testing.T) {
	a := asking{newAdministrator(t)}
	a.team("scoring", 4)
	a.place("scoring", "scored", silent)
	a.place("scoring", "other", silent)
	all := []string{"scoring-1", "scoring-2", "scoring-3", "scoring-4"}
	a.chooses("scoring", "scored", all...)
	a.chooses("scoring", "other", all...)
	a.says("scoring", "scored", satisfied, "AllDecisionsScheduled")
	a.grant("viewer", "scoring", "get")
	a.grant("one", "scoring", "get", "scored")
	a.grant("author", "scoring", "create")
	a.makeNamespace("elsewhere")
	a.grant("neighbour", "elsewhere", "get")
	eventually(t, "rights are in force", func() error {
		if code, x, _ := a.ask("author", http.MethodPost, "/debug/placements/", `{"metadata":{"namespace":"scoring"},"spec":{}}`); code != http.StatusOK {
			return errors.New(x.Error)
		}
		return nil
	})
	version, versions := a.placement("scoring", "scored").ResourceVersion, a.versions("scoring", "scored")

	const scored, post = "/debug/placements/scoring/scored", "/debug/placements/"
	one := `{"apiVersion":"cluster.open-cluster-management.io/v1beta1","kind":"Placement","metadata":{"name":"new","namespace":"scoring"},"spec":{"numberOfClusters":1,"tolerations":[{"operator":"Exists"}]}}`
	for _, test := range []struct {
		name, user, method, path, body string
		code                           int
	}{
		{"administrator", "admin", "GET", scored, "", 200},
		{"who may read placements here", "viewer", "GET", scored, "", 200},
		{"who may read this one", "one", "GET", scored, "", 200},
		{"who may read this one, another", "one", "GET", "/debug/placements/scoring/other", "", 403},
		{"without rights", "stranger", "GET", scored, "", 403},
		{"without rights, one that does not exist", "stranger", "GET", "/debug/placements/scoring/none", "", 403},
		{"who may read elsewhere", "neighbour", "GET", scored, "", 403},
		{"who may only create", "author", "GET", scored, "", 403},
		{"nobody", "", "GET", scored, "", 401},
		{"whose token is none", "?", "GET", scored, "", 401},
		{"nobody posts", "", "POST", post, one, 401},
		{"unknown", "admin", "GET", "/debug/placements/scoring/none", "", 404},
		{"unknown to who may read here", "viewer", "GET", "/debug/placements/scoring/none", "", 404},
		{"unknown namespace", "admin", "GET", "/debug/placements/none/scored", "", 404},
		{"no path", "admin", "GET", post, "", 400},
		{"no name", "admin", "GET", "/debug/placements/scoring", "", 400},
		{"empty name", "admin", "GET", "/debug/placements/scoring/", "", 400},
		{"too much", "admin", "GET", scored + "/more", "", 400},
		{"no name, without rights", "stranger", "GET", "/debug/placements/scoring", "", 400},
		{"posted to a placement", "admin", "POST", scored, one, 405},
		{"put", "admin", "PUT", scored, one, 405},
		{"patched", "admin", "PATCH", scored, one, 405},
		{"deleted", "admin", "DELETE", scored, "", 405},
		{"deleted, without rights", "stranger", "DELETE", scored, "", 405},
		{"head", "admin", "HEAD", scored, "", 405},
		{"post", "admin", "POST", post, one, 200},
		{"post by who may create", "author", "POST", post, one, 200},
		{"post by who may only read", "viewer", "POST", post, one, 403},
		{"post by a stranger", "stranger", "POST", post, one, 403},
		{"post for another namespace", "author", "POST", post, strings.Replace(one, `"scoring"`, `"elsewhere"`, 1), 403},
		{"post of nothing", "admin", "POST", post, "", 400},
		{"post of no JSON", "admin", "POST", post, "spec: {}", 400},
		{"post of another form", "admin", "POST", post, `{"spec":{"numberOfClusters":"many"}}`, 400},
		{"post of an unknown value", "admin", "POST", post, strings.Replace(one, `"spec":{`, `"spec":{"sortBy":"Moon",`, 1), 400},
		{"post without a namespace", "admin", "POST", post, `{"spec":{}}`, 400},
		{"post at the limit", "admin", "POST", post, one + strings.Repeat(" ", 1<<20-len(one)), 200},
		{"post over the limit", "admin", "POST", post, one + strings.Repeat(" ", 1<<20-len(one)+1), 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			of := *a.administrator
			of.T = t
			code, x, header := asking{&of}.ask(test.user, test.method, test.path, test.body)
			require.Equal(t, test.code, code, x.Error)
			if code == http.StatusMethodNotAllowed {
				require.Equal(t, "GET, POST", header.Get("Allow"))
			}
		})
	}

	t.Run("the answer", func(t *testing.T) {
		_, x, _ := a.ask("admin", "GET", scored, "")
		require.Equal(t, "scored", x.Placement.Name)
		require.Empty(t, x.Placement.Status.Conditions)
		require.Equal(t, []placement.FilterResult{{Name: "Predicate", FilteredClusters: all}, {Name: "Predicate,TaintToleration", FilteredClusters: all}}, x.FilterResults)
		weights := map[string]int32{}
		for _, by := range x.PrioritizeResults {
			weights[by.Name] = by.Weight
			require.Len(t, by.Scores, 4, by.Name)
		}
		require.Equal(t, map[string]int32{"Balance": 1, "Steady": 1}, weights)
		require.Len(t, x.AggregatedScores, 4)
		require.EqualValues(t, 0, x.AggregatedScores[0].Score, "steady 100, and as busy with the other placement as any: -100")
	})
	t.Run("of a placement that is not there", func(t *testing.T) {
		_, x, _ := a.ask("author", "POST", post, one)
		require.Equal(t, "new", x.Placement.Name)
		require.Len(t, x.AggregatedScores, 4)
		selected := 0
		for _, c := range x.Clusters {
			if c.Selected {
				selected++
			}
		}
		require.Equal(t, 1, selected)
		require.Len(t, x.Clusters, 4, "who may not see all clusters is told of those in the sets only")
	})
	t.Run("nothing came of it", func(t *testing.T) {
		require.Equal(t, version, a.placement("scoring", "scored").ResourceVersion)
		require.Equal(t, versions, a.versions("scoring", "scored"))
		list, err := a.clusters.ClusterV1beta1().Placements("").List(a.ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.Len(t, list.Items, 2)
		require.Empty(t, a.decisions("scoring", "new"))
	})
}
