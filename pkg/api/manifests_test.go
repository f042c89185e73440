package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"
)

func TestCanonicalManifests(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"keys are sorted", `{"b":1,"a":2}`, `{"a":2,"b":1}`},
		{"space goes", "{ \"a\" : [ 1 , 2 ]\n}", `{"a":[1,2]}`},
		{"large integers stay", `{"a":9007199254740993}`, `{"a":9007199254740993}`},
		{"floats stay as written", `{"a":1.50}`, `{"a":1.50}`},
		{"so do numbers that no machine has", `{"a":1e999999,"b":-0,"c":5.0,"d":123456789012345678901234567890}`, `{"a":1e999999,"b":-0,"c":5.0,"d":123456789012345678901234567890}`},
		{"signs of markup are as the encoder writes them", `{"a":"<"}`, `{"a":"\u003c"}`},
		{"nulls stay", `{"a":null}`, `{"a":null}`},
		{"the last of a key's values counts", `{"a":1,"b":2,"a":3}`, `{"a":3,"b":2}`},
		{"keys that differ in case are two", `{"a":1,"A":2}`, `{"A":2,"a":1}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := canonicalJSON([]byte(test.in))
			require.True(t, ok)
			require.Equal(t, test.want, string(got))
		})
	}
	for name, in := range map[string]string{
		"no JSON":            "no JSON",
		"nothing":            "",
		"two values":         `{"a":1} {"b":2}`,
		"a value and a half": `{"a":1}]`,
		"deep nesting":       strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
		"endless nesting":    strings.Repeat(`{"a":`, 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			_, ok := canonicalJSON([]byte(in))
			require.False(t, ok)
		})
	}
}

// FuzzCanonicalManifest looks for a manifest whose one form is not one, means something else, or does not survive the way
// into the store and out again.
func FuzzCanonicalManifest(f *testing.F) {
	for _, seed := range []string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"b":"<&>\u2028\u0000"}}`,
		`{"a":1e999999,"b":-0.0,"c":9007199254740993,"d":[1,"1",1.5,true,null,{},[]]}`,
		`{"a":1,"a":{"a":1,"a":2}}`,
		"{\"\xff\":\"\xed\xa0\x80\\ud800\"}",
		strings.Repeat(`[{"a":`, 50) + "1" + strings.Repeat("}]", 50),
		` { } `, `{}{}`, `null`, ``,
	} {
		f.Add([]byte(seed))
	}
	a, err := New()
	require.NoError(f, err)
	codec := a.codecs.LegacyCodec(runtimeschema.GroupVersion(workv1.GroupVersion))
	f.Fuzz(func(t *testing.T, raw []byte) {
		once, ok := canonicalJSON(raw)
		if !ok {
			return
		}
		twice, ok := canonicalJSON(once)
		require.True(t, ok)
		require.Equal(t, string(once), string(twice), "one form")
		require.Equal(t, numbers(t, raw), numbers(t, once), "same meaning, digit by digit")

		// What the agent will say of it does not depend on the form.
		before, after := &unstructured.Unstructured{}, &unstructured.Unstructured{}
		require.Equal(t, before.UnmarshalJSON(raw) == nil, after.UnmarshalJSON(once) == nil)
		require.Equal(t, before.Object, after.Object)

		if bytes.Equal(once, []byte("null")) {
			return // what is nothing stays out of the list of manifests
		}
		work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "w"}}
		work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: once}}}
		stored, err := runtime.Encode(codec, work)
		require.NoError(t, err)
		read, err := runtime.Decode(codec, stored)
		require.NoError(t, err)
		require.Equal(t, string(once), string(read.(*workv1.ManifestWork).Spec.Workload.Manifests[0].Raw))
	})
}

func numbers(t *testing.T, raw []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	require.NoError(t, decoder.Decode(&value))
	return value
}
