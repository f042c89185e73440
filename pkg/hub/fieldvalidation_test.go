package hub

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	"sigs.k8s.io/yaml"
)

// misspelt is a replica set with a field that there is not. Its manifest has one as well, which is none of the hub's business.
const misspelt = `
apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {name: ledger, namespace: fields}
spec:
  placementRefs:
  - name: everyone
    rolloutStrategy:
      rolloutType: Progressive
      progressive: {maxConcurrency: 1}
  manifestWorkTemplate:
    workload:
      manifests:
      - {apiVersion: v1, kind: ConfigMap, metadata: {name: app, namespace: default}, data: {k: v}, rolloutType: Progressive}
`

const (
	ledgers  = "/apis/work.open-cluster-management.io/v1alpha1/namespaces/fields/manifestworkreplicasets"
	ledger   = ledgers + "/ledger"
	applying = ledger + "?fieldManager=test&force=true"
)

// spelling sends replica sets as text.
type spelling struct{ *rolling }

func (s *spelling) in(t *testing.T) *spelling {
	administrator, rolling := *s.administrator, *s.rolling
	administrator.T = t
	rolling.administrator = &administrator
	return &spelling{&rolling}
}

// send gives the code and text of the answer, and its warnings.
func (s *spelling) send(method, path, validation, kind, body string) (code int, text string, warnings []string) {
	s.Helper()
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	request, err := http.NewRequestWithContext(s.ctx, method, s.access.Host+path+separator+"fieldValidation="+validation, strings.NewReader(body))
	require.NoError(s, err)
	request.Header.Set("Content-Type", kind)
	response, err := asking{s.administrator}.as("admin").Do(request)
	require.NoError(s, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(s, err)
	return response.StatusCode, string(content), response.Header.Values("Warning")
}

// begin makes that there is no set, or one with strategy All.
func (s *spelling) begin(there bool) {
	s.Helper()
	sets := s.works.WorkV1alpha1().ManifestWorkReplicaSets("fields")
	eventually(s.T, "the set goes", func() error {
		if err := sets.Delete(s.ctx, "ledger", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%v)", err)
		}
		return nil
	})
	s.have("")
	if !there {
		return
	}
	code, text, warnings := s.send("POST", ledgers, "Strict", "application/yaml", strings.Replace(misspelt, "rolloutType: Progressive", "type: All", 1))
	require.Equal(s, http.StatusCreated, code, text)
	require.Empty(s, warnings)
	s.rolledOut("Progressing") // so that nobody changes it any more
}

func (s *spelling) strategy() clusterv1alpha1.RolloutStrategy {
	s.Helper()
	set, err := s.works.WorkV1alpha1().ManifestWorkReplicaSets("fields").Get(s.ctx, "ledger", metav1.GetOptions{})
	require.NoError(s, err)
	return set.Spec.PlacementRefs[0].RolloutStrategy
}

// TestFieldValidation sends a replica set with a misspelt strategy, as the documentation once had it. With Strict it is
// refused by the field's name; else the strategy is All, with a warning for who wants one, and never what was meant
// (open-cluster-management-io/ocm#1054).
func TestFieldValidation(t *testing.T) {
	s := &spelling{&rolling{administrator: newAdministrator(t), namespace: "fields"}}
	s.team("fields", 4)
	s.place("fields", "everyone", silent)
	s.chooses("fields", "everyone", "fields-1", "fields-2", "fields-3", "fields-4")
	inJSON, err := yaml.YAMLToJSON([]byte(misspelt))
	require.NoError(t, err)
	const field = `spec.placementRefs[0].rolloutStrategy.rolloutType`
	for _, test := range []struct {
		name, method, path, kind, body string
		there                          bool
	}{
		{"create", "POST", ledgers, "application/json", string(inJSON), false},
		{"create in YAML", "POST", ledgers, "application/yaml", misspelt, false},
		{"update", "PUT", ledger, "application/json", "", true},
		{"merge patch", "PATCH", ledger, "application/merge-patch+json", `{"spec":{"placementRefs":[{"name":"everyone","rolloutStrategy":{"rolloutType":"Progressive"}}]}}`, true},
		{"JSON patch", "PATCH", ledger, "application/json-patch+json", `[{"op":"add","path":"/spec/placementRefs/0/rolloutStrategy/rolloutType","value":"Progressive"}]`, true},
	} {
		for _, validation := range []string{"Strict", "Warn", "Ignore", ""} {
			t.Run(test.name+" "+validation, func(t *testing.T) {
				s := s.in(t)
				s.begin(test.there)
				body := test.body
				if test.method == "PUT" {
					_, body, _ = s.send("GET", ledger, "", "", "")
					body = strings.Replace(body, `"type":"All"`, `"rolloutType":"Progressive"`, 1)
				}
				code, text, warnings := s.send(test.method, test.path, validation, test.kind, body)
				switch validation {
				case "Strict":
					require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, code, text)
					require.Contains(t, text, `unknown field \"`+field+`\"`)
					require.NotContains(t, text, `unknown field \"spec.manifestWorkTemplate`)
					return
				case "Ignore":
					require.Empty(t, warnings)
				default: // as a server does that is not asked for anything
					require.Len(t, warnings, 1)
					require.Contains(t, warnings[0], field)
				}
				require.Less(t, code, http.StatusMultipleChoices, text)
				require.Equal(t, clusterv1alpha1.All, s.strategy().Type)
			})
		}
	}
	for _, there := range []bool{false, true} {
		t.Run(fmt.Sprintf("server-side apply, there already: %v", there), func(t *testing.T) {
			s := s.in(t)
			s.begin(there)
			// An API server refuses what its schema does not have, whatever is asked for.
			for _, validation := range []string{"Strict", "Warn", "Ignore"} {
				code, text, _ := s.send("PATCH", applying, validation, "application/apply-patch+yaml", misspelt)
				require.GreaterOrEqual(t, code, http.StatusBadRequest)
				require.Contains(t, text, ".spec.placementRefs[0].rolloutStrategy.rolloutType: field not declared in schema")
			}
		})
	}
	t.Run("with a warning, all clusters get it at once", func(t *testing.T) {
		s := s.in(t)
		s.begin(false)
		code, text, warnings := s.send("POST", ledgers, "Warn", "application/yaml", misspelt)
		require.Equal(t, http.StatusCreated, code, text)
		require.Len(t, warnings, 1)
		s.rolledOut("Progressing", "under way: fields-1 fields-2 fields-3 fields-4")
	})
	t.Run("by its right name, the strategy counts", func(t *testing.T) {
		s := s.in(t)
		right := strings.Replace(misspelt, "rolloutType: Progressive", "type: Progressive", 1)
		right = strings.Replace(right, "{maxConcurrency: 1}", "{maxConcurrency: 1, minSuccessTime: 5m, progressDeadline: 1m, maxFailures: 0}", 1)
		for _, change := range []struct{ method, path, kind string }{{"POST", ledgers, "application/yaml"}, {"PATCH", applying, "application/apply-patch+yaml"}} {
			s.begin(false)
			code, text, warnings := s.send(change.method, change.path, "Strict", change.kind, right)
			require.Equal(t, http.StatusCreated, code, text)
			require.Empty(t, warnings)
			s.rolledOut("Progressing", "under way: fields-1", "waiting: fields-2 fields-3 fields-4")
			s.succeeds(1)
			s.rolledOut("Progressing", "succeeded, for minSuccessTime: fields-1", "waiting: fields-2 fields-3 fields-4")
			require.Len(t, s.all(), 1)
		}
	})
}
