package ignore

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

const sample = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","annotations":{"a.b/c":"x","plain":"y"}},` +
	`"spec":{"replicas":3,"big":9007199254740993,"template":{"spec":{"containers":[{"name":"one","image":"a","args":["p","q"]},{"name":"two","image":"b"}]}}}}`

func decode(t testing.TB, text string) map[string]any {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, object.UnmarshalJSON([]byte(text)))
	return object.Object
}

func entry(paths, pointers, jqs []string) []workv1.IgnoreField {
	return []workv1.IgnoreField{{Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JSONPaths: paths, JSONPointers: pointers, JQPathExpressions: jqs}}
}

// TestRemoving goes from a selector to the object without what it selects.
func TestRemoving(t *testing.T) {
	without := func(parts ...string) string {
		text := sample
		for _, p := range parts {
			require.Contains(t, text, p)
			text = strings.Replace(text, p, "", 1)
		}
		return text
	}
	for _, test := range []struct {
		name                string
		path, pointer, expr string
		want                string
	}{
		{"a field", ".spec.replicas", "/spec/replicas", ".spec.replicas", without(`"replicas":3,`)},
		{"with braces and dollar", "{$.spec.replicas}", "", "", without(`"replicas":3,`)},
		{"a key with dots", `.metadata.annotations['a.b/c']`, "/metadata/annotations/a.b~1c", `.metadata.annotations["a.b/c"]`, without(`"a.b/c":"x",`)},
		{"a key with dots, escaped", `.metadata.annotations.a\.b/c`, "", "", without(`"a.b/c":"x",`)},
		{"a field of a list item", `.spec.template.spec.containers[0].image`, "/spec/template/spec/containers/0/image", `.spec.template.spec.containers[0].image`, without(`"image":"a",`)},
		{"by a filter", `.spec.template.spec.containers[?(@.name=="two")].image`, "", `.spec.template.spec.containers[] | select(.name == "two") | .image`, without(`,"image":"b"`)},
		{"of all", `.spec.template.spec.containers[*].image`, "", `.spec.template.spec.containers[].image`, without(`"image":"a",`, `,"image":"b"`)},
		{"an item", `.spec.template.spec.containers[1]`, "/spec/template/spec/containers/1", `.spec.template.spec.containers[1]`, without(`,{"name":"two","image":"b"}`)},
		{"the last item", `.spec.template.spec.containers[-1:]`, "", `.spec.template.spec.containers[-1]`, without(`,{"name":"two","image":"b"}`)},
		{"an item by a filter", `.spec.template.spec.containers[?(@.name=="two")]`, "", `.spec.template.spec.containers[] | select(.name == "two")`, without(`,{"name":"two","image":"b"}`)},
		{"a scalar by a filter", `.spec.template.spec.containers[0].args[?(@=="q")]`, "", `.spec.template.spec.containers[0].args[] | select(. == "q")`, without(`,"q"`)},
		{"all items", `.spec.template.spec.containers[0].args[*]`, "", `.spec.template.spec.containers[0].args[]`, without(`"p","q"`)},
		{"all fields", `.metadata.annotations.*`, "", `.metadata.annotations[]`, without(`"a.b/c":"x","plain":"y"`)},
		{"a whole branch", `.spec.template`, "/spec/template", `.spec.template`, without(`,"template":{"spec":{"containers":[{"name":"one","image":"a","args":["p","q"]},{"name":"two","image":"b"}]}}`)},
		{"a range", `.spec.template.spec.containers[0:2].image`, "", `.spec.template.spec.containers[0:2][].image`, without(`"image":"a",`, `,"image":"b"`)},
		{"all of a range", `.spec.template.spec.containers[1:2]`, "", `.spec.template.spec.containers[1:]`, without(`,{"name":"two","image":"b"}`)},
		{"an item of a range", `.spec.template.spec.containers[1:].image`, "", `.spec.template.spec.containers[1:][0].image`, without(`,"image":"b"`)},
		{"several keys", `.metadata.annotations['plain','a.b/c']`, "", `.metadata.annotations["plain","a.b/c"]`, without(`"a.b/c":"x","plain":"y"`)},
		{"several indexes", `.spec.template.spec.containers[1,0].image`, "", `.spec.template.spec.containers[1,0].image`, without(`"image":"a",`, `,"image":"b"`)},
		{"two dots in a key", `.metadata.annotations['a..b']`, "", `.metadata.annotations["a..b"]`, sample},
		{"by a condition", "", "", `.spec | if .replicas > 2 then .replicas else .big end`, without(`"replicas":3,`)},
		{"by a variable", "", "", `.spec.replicas as $n | select($n == 3) | .spec.replicas`, without(`"replicas":3,`)},
		{"by a function", "", "", `.spec.template.spec.containers[] | select(.name | test("^tw") and (IN("one") | not)) | .image # comment`, without(`,"image":"b"`)},
		{"by a path", "", "", `getpath(["spec","replicas"])`, without(`"replicas":3,`)},
		{"found anywhere", "", "", `.. | objects | select(.name == "two") | .image`, without(`,"image":"b"`)},
		{"what is not there", `.spec.missing.deeper`, "/spec/missing/deeper", `.spec.missing.deeper`, sample},
		{"an index out of range", `.spec.template.spec.containers[7].image`, "/spec/template/spec/containers/7/image", `.spec.template.spec.containers[7].image`, sample},
		{"a key of a scalar", `.spec.replicas.x`, "/spec/replicas/x", "", sample},
	} {
		for kind, entries := range map[string][]workv1.IgnoreField{
			"JSON path": entry([]string{test.path}, nil, nil), "JSON pointer": entry(nil, []string{test.pointer}, nil), "jq": entry(nil, nil, []string{test.expr}),
		} {
			if kind == "JSON path" && test.path == "" || kind == "JSON pointer" && test.pointer == "" || kind == "jq" && test.expr == "" {
				continue
			}
			t.Run(test.name+" by "+kind, func(t *testing.T) {
				object := decode(t, sample)
				f, err := Compile(entries, workv1.IgnoreFieldsConditionOnSpokePresent)
				require.NoError(t, err)
				paths, err := f.Locate(t.Context(), object)
				require.NoError(t, err)
				Remove(object, paths)
				got, err := json.Marshal(object)
				require.NoError(t, err)
				require.JSONEq(t, test.want, string(got))
				require.Contains(t, string(got), "9007199254740993")
			})
		}
	}
}

func TestSeveralAtOnce(t *testing.T) {
	object := decode(t, sample)
	f, err := Compile(entry([]string{`.spec.template.spec.containers[0]`, `.spec.template.spec.containers[1].image`, `.spec.template.spec.containers[0].image`, `.spec.template.spec.containers[1]`}, nil, nil), workv1.IgnoreFieldsConditionOnSpokePresent)
	require.NoError(t, err)
	paths, err := f.Locate(t.Context(), object)
	require.NoError(t, err)
	Remove(object, paths)
	left, _, err := unstructured.NestedSlice(object, "spec", "template", "spec", "containers")
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestConditions(t *testing.T) {
	entries := []workv1.IgnoreField{
		{Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JSONPaths: []string{".a"}},
		{Condition: workv1.IgnoreFieldsConditionOnSpokeChange, JSONPaths: []string{".b"}},
	}
	for _, test := range []struct {
		conditions []workv1.IgnoreFieldsCondition
		want       []Path
	}{
		{nil, nil},
		{[]workv1.IgnoreFieldsCondition{workv1.IgnoreFieldsConditionOnSpokePresent}, []Path{{"a"}}},
		{[]workv1.IgnoreFieldsCondition{workv1.IgnoreFieldsConditionOnSpokeChange}, []Path{{"b"}}},
		{[]workv1.IgnoreFieldsCondition{workv1.IgnoreFieldsConditionOnSpokePresent, workv1.IgnoreFieldsConditionOnSpokeChange}, []Path{{"a"}, {"b"}}},
	} {
		f, err := Compile(entries, test.conditions...)
		require.NoError(t, err)
		paths, err := f.Locate(t.Context(), map[string]any{"a": "1", "b": "2"})
		require.NoError(t, err)
		require.Equal(t, test.want, paths)
	}
}

func TestWhatIsRefused(t *testing.T) {
	for _, test := range []struct {
		name    string
		entries []workv1.IgnoreField
		want    string
	}{
		{"a path without end", entry([]string{".a[?(@.b"}, nil, nil), "JSON path error in '.a[?(@.b'"},
		{"recursive descent", entry([]string{"..a"}, nil, nil), "recursive descent"},
		{"the whole object", entry([]string{"$"}, nil, nil), "whole object"},
		{"a path that is too long", entry([]string{"." + strings.Repeat("a", 2000)}, nil, nil), "limit of 1024"},
		{"the name", entry([]string{".metadata.name"}, nil, nil), "cannot be ignored"},
		{"the kind, by pointer", entry(nil, []string{"/kind"}, nil), "JSON Pointer error in '/kind'"},
		{"all metadata, by jq", entry(nil, nil, []string{".metadata"}), "cannot be ignored"},
		{"everything, by jq", entry(nil, nil, []string{"."}), "cannot be ignored"},
		{"a pointer without slash", entry(nil, []string{"spec"}, nil), "begin with /"},
		{"a pointer with a wrong escape", entry(nil, []string{"/a~2"}, nil), "after ~"},
		{"jq syntax", entry(nil, nil, []string{".a["}), "JQ expression error in '.a['"},
		{"jq that is empty", entry(nil, nil, []string{""}), "it is empty"},
		{"jq that is a comment", entry(nil, nil, []string{"# .a"}), "it is empty"},
		{"a path that is empty", entry([]string{""}, nil, nil), "whole object"},
		{"a pointer that is empty", entry(nil, []string{""}, nil), "begin with /"},
		{"jq that is no path", entry(nil, nil, []string{"1 + 1"}), "JQ expression error in '1 + 1'"},
		{"jq that makes much of nothing", entry(nil, nil, []string{".a[range(1000000000)]"}), "the function range is not allowed"},
		{"jq that reads the environment", entry(nil, nil, []string{".a[$ENV.HOME]"}), "is not allowed"},
		{"jq with a module", entry(nil, nil, []string{`import "x" as x; .a`}), "JQ expression error"},
		{"jq that multiplies texts", entry(nil, nil, []string{`.a["x" * 1000000000]`}), "is not allowed"},
		{"jq that hides it in a text", entry(nil, nil, []string{`.a | select("\([range(1000000000)])" == "")`}), "in a text is not allowed"},
		{"jq that doubles texts", entry(nil, nil, []string{`.a | select(("x"` + strings.Repeat("|.+.", 40) + `) == "")`}), "the operator + is not allowed"},
		{"jq that doubles what it quotes", entry(nil, nil, []string{`.a | select(` + strings.Repeat("tojson|", 40) + `. == "")`}), "the function tojson is not allowed"},
		{"jq that collects", entry(nil, nil, []string{`.a | select([.,.] == [])`}), "a list of what is computed is not allowed"},
		{"jq that formats", entry(nil, nil, []string{`.a | select(@base64 == "")`}), "is not allowed"},
		{"jq that selects one field without end", entry(nil, nil, []string{`(.kind,.kind)` + strings.Repeat("|(.,.)", 40)}), "limit of 10000"},
		{"jq that reads the command line", entry(nil, nil, []string{`.a[$__prog_args]`}), "is not allowed"},
		{"jq with a second expression", entry(nil, nil, []string{`.a) , (.b`}), "JQ expression error"},
		{"a dot at the end", entry([]string{".spec."}, nil, nil), "ends with a dot"},
		{"owners", entry([]string{".metadata.ownerReferences"}, nil, nil), "deleteOption says"},
		{"too many", entry(make100("."), nil, nil), "limit of 100"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := Compile(test.entries, workv1.IgnoreFieldsConditionOnSpokePresent)
			if err == nil {
				_, err = f.Locate(t.Context(), decode(t, strings.Replace(sample, `"annotations"`, `"ownerReferences":[],"annotations"`, 1)))
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}

func make100(prefix string) []string {
	var all []string
	for range maxSelectors + 1 {
		all = append(all, prefix+"spec.replicas")
	}
	return all
}

func TestLetGo(t *testing.T) {
	const owned = `{"f:metadata":{"f:annotations":{"f:plain":{}}},"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"one\"}":{".":{},"f:name":{},"f:image":{},"f:args":{}},"k:{\"name\":\"two\"}":{".":{},"f:name":{},"f:image":{}}}}}}}`
	// What is live has another container in front.
	live := decode(t, strings.Replace(sample, `[{"name":"one"`, `[{"name":"injected"},{"name":"one"`, 1))
	for _, test := range []struct {
		name, path, gone string // gone is the part of owned that goes
	}{
		{"a field", ".spec.replicas", `"f:replicas":{},`},
		{"a field of a list item", `.spec.template.spec.containers[?(@.name=="one")].image`, `,"f:image":{}`},
		{"an item", `.spec.template.spec.containers[?(@.name=="two")]`, `,"k:{\"name\":\"two\"}":{".":{},"f:name":{},"f:image":{}}`},
		{"a branch", ".metadata.annotations", `"f:metadata":{"f:annotations":{"f:plain":{}}},`},
		{"what is not held", ".spec.big", ""},
		{"an item that is not held", `.spec.template.spec.containers[0]`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := Compile(entry([]string{test.path}, nil, nil), workv1.IgnoreFieldsConditionOnSpokePresent)
			require.NoError(t, err)
			paths, err := f.Locate(t.Context(), live)
			require.NoError(t, err)
			require.NotEmpty(t, paths)
			held := &fieldpath.Set{}
			require.NoError(t, held.FromJSON(strings.NewReader(owned)))
			left, changed := LetGo(held, live, paths)
			require.Equal(t, test.gone != "", changed)
			got, err := left.ToJSON()
			require.NoError(t, err)
			require.JSONEq(t, strings.Replace(owned, test.gone, "", 1), string(got))
		})
	}
}

func FuzzIgnore(f *testing.F) {
	for _, selector := range []string{".spec.replicas", `.a['b.c']`, `.a[?(@.x=="y")].z`, "/spec/~1", ".a[] | select(.b) | .c", "[::0]", ".a[-1:]", "{$.a}"} {
		f.Add(selector, sample)
	}
	f.Fuzz(func(t *testing.T, selector, text string) {
		object := &unstructured.Unstructured{}
		if len(text) > 4<<10 || object.UnmarshalJSON([]byte(text)) != nil {
			t.Skip()
		}
		for _, entries := range [][]workv1.IgnoreField{entry([]string{selector}, nil, nil), entry(nil, []string{selector}, nil), entry(nil, nil, []string{selector})} {
			fields, err := Compile(entries, workv1.IgnoreFieldsConditionOnSpokePresent)
			if err != nil {
				continue
			}
			paths, err := fields.Locate(t.Context(), object.Object)
			if err != nil {
				continue
			}
			without := object.DeepCopy()
			Remove(without.Object, paths)
			require.Equal(t, object.GetName(), without.GetName())
			if len(paths) > 0 {
				require.NotEqual(t, object.Object, without.Object, "what was selected is gone")
			}
			LetGo(fieldpath.NewSet(), object.Object, paths)
		}
	})
}
