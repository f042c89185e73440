package feedback

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"
)

func objectOf(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, object.UnmarshalJSON([]byte(text)))
	return object
}

func pathsOf(pairs ...string) []workv1.FeedbackRule {
	rule := workv1.FeedbackRule{Type: workv1.JSONPathsType}
	for i := 0; i < len(pairs); i += 2 {
		rule.JsonPaths = append(rule.JsonPaths, workv1.JsonPath{Name: pairs[i], Path: pairs[i+1]})
	}
	return []workv1.FeedbackRule{rule}
}

func TestValues(t *testing.T) {
	known := []workv1.FeedbackRule{{Type: workv1.WellKnownStatusType}}
	long := strings.Repeat(`"0123456789012345678901234567890123456789",`, 60)
	voyage := `{"apiVersion":"x.test/v1","kind":"Voyage","metadata":{"name":"v"},"status":{"phase":"Sailing","crew":12,"ready":true,"big":9007199254740993,"ratio":0.5,"whole":5.0,"log":[` + strings.TrimSuffix(long, ",") + `],"items":[{"n":1},{"n":2}],"none":null}}`
	for _, test := range []struct {
		name, object string
		rules        []workv1.FeedbackRule
		raw          bool
		want         string   // name=value, separated by blanks
		errs         []string // parts of the error
	}{
		{"a deployment", `{"apiVersion":"apps/v1","kind":"Deployment","status":{"readyReplicas":1,"replicas":2,"availableReplicas":1}}`, known, false, "ReadyReplicas=1 Replicas=2 AvailableReplicas=1", nil},
		{"a deployment that has none ready", `{"apiVersion":"apps/v1","kind":"Deployment","status":{"replicas":2}}`, known, false, "Replicas=2", nil},
		{"a deployment without status", `{"apiVersion":"apps/v1","kind":"Deployment"}`, known, false, "", nil},
		{"a daemon set", `{"apiVersion":"apps/v1","kind":"DaemonSet","status":{"numberReady":1,"desiredNumberScheduled":2,"numberAvailable":0}}`, known, false, "NumberReady=1 DesiredNumberScheduled=2 NumberAvailable=0", nil},
		{"a job", `{"apiVersion":"batch/v1","kind":"Job","status":{"succeeded":1,"conditions":[{"type":"Other","status":"False"},{"type":"Complete","status":"True"}]}}`, known, false, "JobComplete=True JobSucceeded=1", nil},
		{"a pod", `{"apiVersion":"v1","kind":"Pod","status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, known, false, "PodReady=True PodPhase=Running", nil},
		{"a kind that nobody knows", voyage, known, false, "", []string{"cannot find the wellknown statuses for resource with gvk x.test/v1, Kind=Voyage"}},
		{"scalars", voyage, pathsOf("phase", ".status.phase", "crew", ".status.crew", "ready", ".status.ready", "big", ".status.big"), false, "phase=Sailing crew=12 ready=true big=9007199254740993", nil},
		{"missing and null", voyage, pathsOf("a", ".status.missing.deeper", "b", ".status.none"), false, "", nil},
		{"the first of several", voyage, pathsOf("n", ".status.items[*].n"), false, "n=1", nil},
		{"all of several, raw", voyage, pathsOf("n", ".status.items[*].n"), true, "n=[1,2]", nil},
		{"a fraction", voyage, pathsOf("ratio", ".status.ratio", "crew", ".status.crew"), false, "crew=12", []string{"value ratio", "RawFeedbackJsonString"}},
		{"a fraction, raw", voyage, pathsOf("ratio", ".status.ratio"), true, "ratio=0.5", nil},
		{"an object", voyage, pathsOf("item", ".status.items[0]", "crew", ".status.crew"), false, "crew=12", []string{"value item", "an object"}},
		{"an object, raw", voyage, pathsOf("item", ".status.items[0]"), true, `item={"n":1}`, nil},
		{"one that is too long, raw (api#406)", voyage, pathsOf("phase", ".status.phase", "everything", ".status", "crew", ".status.crew"), true, "phase=Sailing crew=12", []string{"value everything", "limit of 1024", "--max-json-raw-length"}},
		{"bad syntax", voyage, pathsOf("bad", ".status[", "crew", ".status.crew"), false, "crew=12", []string{"value bad at path .status["}},
		{"several bad ones", voyage, pathsOf("bad", ".status[", "worse", "..a..b"), false, "", []string{"value bad", "value worse"}},
		{"another version", voyage, []workv1.FeedbackRule{{Type: workv1.JSONPathsType, JsonPaths: []workv1.JsonPath{{Name: "a", Version: "v2", Path: ".status.crew"}, {Name: "b", Version: "v1", Path: ".status.crew"}}}}, false, "b=12", []string{"for version v2"}},
		{"several rules", `{"apiVersion":"batch/v1","kind":"Job","status":{"succeeded":1,"active":3}}`, append(known, pathsOf("active", ".status.active")...), false, "JobSucceeded=1 active=3", nil},
		{"a whole number with a fraction of nothing", voyage, pathsOf("whole", ".status.whole"), true, "whole=5", nil},
		{"a large number, raw", voyage, pathsOf("big", ".status['big','crew']"), true, "big=[9007199254740993,12]", nil},
		{"one name twice", `{"apiVersion":"batch/v1","kind":"Job","status":{"succeeded":1,"active":3}}`, append(pathsOf("JobSucceeded", ".status.active"), known...), false, "JobSucceeded=3", []string{"value JobSucceeded at path .status.succeeded: another value has this name"}},
		{"all levels of an object, raw", voyage, pathsOf("all", ".."), true, "", []string{"value all", "limit of 1024"}},
		{"a list out of range", voyage, pathsOf("n", ".status.items[7].n", "crew", ".status.crew"), false, "crew=12", []string{"value n", "out of bounds"}},
		{"a key of a list", voyage, pathsOf("n", ".status.items.n", "crew", ".status.crew"), false, "crew=12", nil},
		{"what explodes", voyage, pathsOf("n", ".status.items"+strings.Repeat("[0,0]", 20), "crew", ".status.crew"), true, "crew=12", []string{"more than 100 times"}},
		{"an unknown sort of rule", voyage, []workv1.FeedbackRule{{Type: "Tea"}}, false, "", []string{`type "Tea"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			values, err := Values(objectOf(t, test.object), test.rules, Limits{Raw: test.raw, MaxRawBytes: 1024})
			var got []string
			for _, v := range values {
				got = append(got, v.Name+"="+textOf(t, v.Value))
			}
			require.Equal(t, test.want, strings.Join(got, " "))
			if test.errs == nil {
				require.NoError(t, err)
			}
			for _, part := range test.errs {
				require.ErrorContains(t, err, part)
			}
		})
	}
}

func textOf(t *testing.T, v workv1.FieldValue) string {
	t.Helper()
	switch v.Type {
	case workv1.Integer:
		return fmt.Sprint(*v.Integer)
	case workv1.String:
		return *v.String
	case workv1.Boolean:
		return fmt.Sprint(*v.Boolean)
	}
	require.Equal(t, workv1.JsonRaw, v.Type)
	require.True(t, json.Valid([]byte(*v.JsonRaw)))
	return *v.JsonRaw
}

func TestTooManyValues(t *testing.T) {
	var pairs []string
	for i := range maxValues + 1 {
		pairs = append(pairs, fmt.Sprint("n", i), ".kind")
	}
	values, err := Values(objectOf(t, `{"apiVersion":"v1","kind":"X"}`), pathsOf(pairs...), Limits{})
	require.Len(t, values, maxValues)
	require.ErrorContains(t, err, "limit of 100")
}

// TestNothingIsWrittenInVain: what is too long is not made into text first. Each level of the object is found, and holds all those
// below.
func TestNothingIsWrittenInVain(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 3000) + "1" + strings.Repeat("}", 3000)
	object := objectOf(t, `{"apiVersion":"x.test/v1","kind":"X","status":`+deep+`}`)
	allocated := testing.AllocsPerRun(1, func() {
		_, err := Values(object, pathsOf("all", ".status"), Limits{Raw: true, MaxRawBytes: 1024})
		require.ErrorContains(t, err, "limit of 1024")
	})
	require.Less(t, allocated, 500.0)
}

// FuzzValues: whatever the path and the object, there are no more values than rules, each of them valid and within its limit.
func FuzzValues(f *testing.F) {
	for _, path := range []string{".status.crew", `.status.conditions[?(@.type=="Ready")].status`, "..", ".status[0,0][0,0]", "..[*]", ".status.items[-1:]", `.a['b\.c']`} {
		f.Add(path, `{"apiVersion":"v1","kind":"Pod","status":{"crew":12,"ratio":5.0,"items":[{"n":1},[2]],"conditions":[{"type":"Ready","status":"True"}]}}`)
	}
	f.Fuzz(func(t *testing.T, path, text string) {
		object := &unstructured.Unstructured{}
		if len(text) > 4<<10 || object.UnmarshalJSON([]byte(text)) != nil {
			t.Skip()
		}
		rules := append(pathsOf("v", path, "kind", ".kind"), workv1.FeedbackRule{Type: workv1.WellKnownStatusType})
		for _, raw := range []bool{false, true} {
			values, _ := Values(object, rules, Limits{Raw: raw, MaxRawBytes: 256})
			names := map[string]bool{}
			for _, v := range values {
				require.False(t, names[v.Name], v.Name)
				names[v.Name] = true
				text := textOf(t, v.Value)
				require.LessOrEqual(t, len(text), maxTextBytes)
				require.True(t, v.Value.Type != workv1.JsonRaw || (raw && len(text) <= 256))
			}
			require.True(t, names["kind"], "a path never costs the others")
		}
	})
}

// TestRawLimits: a higher limit than the API's would cost the whole status of the work.
func TestRawLimits(t *testing.T) {
	object := objectOf(t, `{"apiVersion":"x.test/v1","kind":"X","status":{"list":["`+strings.Repeat("a", 1200)+`"]}}`)
	for limit, want := range map[int]string{100: "limit of 100 (the agent's", 4096: "limit of 1024 (the API's"} {
		values, err := Values(object, pathsOf("list", ".status.list"), Limits{Raw: true, MaxRawBytes: limit})
		require.ErrorContains(t, err, want)
		require.Empty(t, values)
	}
}
