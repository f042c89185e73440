package jsonpath

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const sample = `{"apiVersion":"v1","kind":"X","metadata":{"annotations":{"a.b/c":"dotted"}},"spec":{"n":9007199254740993,"list":[{"name":"x","v":1},{"name":"y","v":2}],"none":null},"status":{"ok":true}}`

func TestFind(t *testing.T) {
	object := &unstructured.Unstructured{}
	require.NoError(t, object.UnmarshalJSON([]byte(sample)))
	for _, test := range []struct {
		path, want, err string
	}{
		{".spec.n", `[9007199254740993]`, ""},
		{"{.spec.n}", `[9007199254740993]`, ""},
		{"$.status.ok", `[true]`, ""},
		{".status.missing.deeper", `null`, ""},
		{`.spec.list[?(@.name=="y")].v`, `[2]`, ""},
		{`.spec.list[*].name`, `["x","y"]`, ""},
		{`.spec.list[-1:].name`, `["y"]`, ""},
		{`.metadata.annotations['a\.b/c']`, `["dotted"]`, ""},
		{`.metadata.annotations.a\.b/c`, `["dotted"]`, ""},
		{`..name`, `["x","y"]`, ""},
		{".spec.none", `[null]`, ""},
		{"", "", "it is empty"},
		{"}{.a", "", "it is more than one expression"},
		{".a[", "", "unterminated array"},
		{"..a..b", "", "recursive descent"},
		{".spec.list[0,1].name", `["x","y"]`, ""},
		{".spec.list" + strings.Repeat("[0,0]", 8), "", "more than 100 times"},
		{".spec.list[?(@" + strings.Repeat("[0,0]", 8) + ")]", "", "more than 100 times"},
		{strings.Repeat("[*]", 9), "", "filters and wildcards"},
		{"." + strings.Repeat("a", MaxBytes), "", "more than the limit of 1024"},
	} {
		t.Run(test.path[:min(len(test.path), 40)], func(t *testing.T) {
			found, err := Find(test.path, object.Object)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			got, err := json.Marshal(found)
			require.NoError(t, err)
			require.JSONEq(t, test.want, string(got))
		})
	}
}

func FuzzFind(f *testing.F) {
	for _, path := range []string{".spec.n", `.spec.list[?(@.name=="y")].v`, "..name", "[::0]", "{range .a[*]}{.b}{end}", `.a['b']`, "[0,1]"} {
		f.Add(path, sample)
	}
	f.Fuzz(func(t *testing.T, path, text string) {
		var object any
		if json.Unmarshal([]byte(text), &object) != nil || len(text) > 4<<10 {
			t.Skip()
		}
		if found, err := Find(path, object); err == nil {
			_, err := json.Marshal(found)
			require.NoError(t, err)
		}
	})
}
