package workload

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string // objects, as Kind namespace/name
	}{
		{"one", "{apiVersion: v1, kind: Namespace, metadata: {name: a}}", []string{"Namespace a"}},
		{"several, with comments and empty documents", "# first\n---\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n--- # next\n\n# nothing\n---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: b\n  namespace: ns\n---\n", []string{"ConfigMap a", "Secret ns/b"}},
		{"ends of documents and directives", "%YAML 1.1\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n...\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n...\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n", []string{"ConfigMap a", "ConfigMap b", "ConfigMap c"}},
		{"a byte order mark, and lines of Windows", "\xef\xbb\xbfapiVersion: v1\r\nkind: ConfigMap\r\nmetadata:\r\n  name: a\r\n---\r\napiVersion: v1\r\nkind: ConfigMap\r\nmetadata:\r\n  name: b\r\n", []string{"ConfigMap a", "ConfigMap b"}},
		{"content beside the mark", "--- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", []string{"ConfigMap a"}},
		{"marks in text are text", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: |\n    ---\n    ...\n", []string{"ConfigMap a"}},
		{"JSON after JSON", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}} {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`, []string{"ConfigMap a", "ConfigMap b"}},
		{"JSON between marks", "---\n{\n \"apiVersion\": \"v1\",\n \"kind\": \"ConfigMap\",\n \"metadata\": {\"name\": \"a\"}\n}\n---\n{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"b\"}}", []string{"ConfigMap a", "ConfigMap b"}},
		{"a list in a list, with an empty entry", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n-\n- {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}]}\n", []string{"ConfigMap a", "ConfigMap b"}},
		{"a list of one kind", "{apiVersion: v1, kind: ConfigMapList, items: [{metadata: {name: a}}]}", []string{"ConfigMap a"}},
		{"an empty list", "{apiVersion: v1, kind: List, items: []}", nil},
		{"no list although its name ends so", "{apiVersion: x.io/v1, kind: AllowList, metadata: {name: a}, spec: {}}", []string{"AllowList a"}},
		{"items that are no list", "{apiVersion: x.io/v1, kind: Basket, metadata: {name: a}, items: [1]}", []string{"Basket a"}},
		{"anchors", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: &d {x: y}\nother: *d\n", []string{"ConfigMap a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			objects, err := parse("f.yaml", []byte(test.text))
			require.NoError(t, err)
			var got []string
			for _, o := range objects {
				got = append(got, o.String())
			}
			require.Equal(t, test.want, got)
		})
	}
}

func TestParseRefuses(t *testing.T) {
	const good = "{apiVersion: v1, kind: ConfigMap, metadata: {name: good}}\n---\n"
	for _, test := range []struct{ name, text, want string }{
		{"no name", "{apiVersion: v1, kind: ConfigMap, metadata: {labels: {}}}", "f.yaml, document 2 (line 2): ConfigMap has no metadata.name"},
		{"a name that is a number", "{apiVersion: v1, kind: ConfigMap, metadata: {name: 1}}", "document 2 (line 2): ConfigMap has no metadata.name, or one that is no text"},
		{"a namespace that is a number", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: 1}}", "metadata.namespace of ConfigMap a is no text"},
		{"a generated name", "{apiVersion: batch/v1, kind: Job, metadata: {generateName: a-}}", "document 2 (line 2): Job has metadata.generateName"},
		{"no kind", "{apiVersion: v1, metadata: {name: a}}", "no apiVersion or no kind"},
		{"no object", "just text", "it is no object"},
		{"a bad item", "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}, {apiVersion: v1, kind: ConfigMap}]}", "document 2 (line 2), item 2: ConfigMap has no metadata.name"},
		{"no YAML", "{apiVersion: v1", "document 2 (line 2): it is neither YAML nor JSON"},
		{"a field twice", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: a}\ndata: {x: b}\n", `key "data" already set`},
		{"the same object twice", "{apiVersion: v1, kind: ConfigMap, metadata: {name: good, namespace: default}}", "f.yaml, document 2 (line 2): ConfigMap default/good is there a second time, it was in f.yaml, document 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			objects, err := parse("f.yaml", []byte(good+test.text))
			if err == nil {
				err = checkTwice(objects)
			}
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestValuesStayWhatTheyAre(t *testing.T) {
	objects, err := parse("f", []byte(`{apiVersion: v1, kind: X, metadata: {name: a, creationTimestamp: null}, spec: {big: 3000000000, text: "007", "yes": true, half: 0.5, nothing: null, empty: {}, word: "on"}}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"apiVersion":"v1","kind":"X","metadata":{"name":"a"},"spec":{"big":3000000000,"text":"007","yes":true,"half":0.5,"nothing":null,"empty":{},"word":"on"}}`, string(objects[0].Raw))
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, object string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: "+object+"}}"), 0o600))
	}
	write("b.yaml", "b")
	write("a.yml", "a")
	write("c.json", "c")
	write("notes.txt", "notes")
	write("below/d.yaml", "d")
	for _, test := range []struct {
		name      string
		sources   []string
		recursive bool
		want      string
		err       string
	}{
		{"a directory", []string{dir}, false, "a b c", ""},
		{"with all below it", []string{dir}, true, "a b d c", ""},
		{"a file of any name", []string{filepath.Join(dir, "notes.txt")}, false, "notes", ""},
		{"standard input", []string{"-", filepath.Join(dir, "b.yaml")}, false, "piped b", ""},
		{"twice", []string{dir, filepath.Join(dir, "b.yaml")}, false, "", "is there a second time"},
		{"an address", []string{"https://example.test/a.yaml"}, false, "", "curl -sSf"},
		{"nothing there", []string{filepath.Join(dir, "nowhere")}, false, "", "nowhere"},
		{"nothing in it", []string{filepath.Dir(dir)}, false, "", "--recursive"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Reader{Stdin: strings.NewReader("{apiVersion: v1, kind: ConfigMap, metadata: {name: piped}}"), Recursive: test.recursive}
			objects, err := r.Read(test.sources)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			var names []string
			for _, o := range objects {
				names = append(names, o.Name)
			}
			require.Equal(t, test.want, strings.Join(names, " "))
		})
	}
	_, err := (&Reader{}).Read([]string{"-"})
	require.ErrorContains(t, err, "standard input")
	_, err = (&Reader{Stdin: strings.NewReader("# nothing")}).Read([]string{"-"})
	require.ErrorContains(t, err, "no objects")
	_, err = (&Reader{Stdin: endless{}}).Read([]string{"-"})
	require.ErrorContains(t, err, "more than 67108864 bytes")
}

// endless is input that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestWithNamespace(t *testing.T) {
	objects, err := parse("f", []byte(`
{apiVersion: v1, kind: ConfigMap, metadata: {name: none}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: own, namespace: mine}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: none}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.x.io}, spec: {group: x.io, scope: Cluster, names: {kind: Widget}}}
---
{apiVersion: x.io/v1, kind: Widget, metadata: {name: none}}
---
{apiVersion: y.io/v1, kind: Widget, metadata: {name: none}}
`))
	require.NoError(t, err)
	require.NoError(t, WithNamespace(objects, "app"))
	var got []string
	for _, o := range objects {
		got = append(got, o.String())
		require.NotContains(t, string(o.Raw), "default")
	}
	require.Equal(t, []string{"ConfigMap app/none", "ConfigMap mine/own", "ClusterRole none", "CustomResourceDefinition widgets.x.io", "Widget none", "Widget app/none"}, got)
}

func TestNames(t *testing.T) {
	for source, want := range map[string]string{
		"hello.yaml": "hello", "/x/My_App.v2.yml": "my-app-v2", "charts/app/": "app", "-": "", "---.yaml": "",
		strings.Repeat("long", 30): strings.Repeat("long", 30)[:maxName],
	} {
		name, err := NameOf([]string{source})
		require.Equal(t, want == "", err != nil, source)
		require.Equal(t, want, name)
		if err == nil {
			require.NoError(t, CheckName(name))
		}
	}
	_, err := NameOf([]string{"a", "b"})
	require.ErrorContains(t, err, "--name")
	require.Error(t, CheckName("Not_a_name"))
	require.Error(t, CheckName(strings.Repeat("x", maxName+1)))
	for work, want := range map[string]int{"app": 1, "app-2": 2, "app-10": 10, "app-02": 0, "app-1": 0, "app-x": 0, "other": 0} {
		require.Equal(t, want, partNumber("app", work), work)
	}
}

// FuzzParse: whatever is read is an object that reads the same again.
func FuzzParse(f *testing.F) {
	f.Add([]byte("a: &a [x]\n---\n{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}}]}\n...\n"))
	f.Add([]byte(`{"apiVersion":"v1","kind":"A","metadata":{"name":"a","creationTimestamp":null},"x":1e3}{"apiVersion":"v1","kind":"B","metadata":{"name":"b"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		objects, err := parse("f", text)
		if err != nil {
			return
		}
		for _, o := range objects {
			again, err := parse("f", o.Raw)
			require.NoError(t, err)
			if o.Kind == "List" || len(again) != 1 {
				continue // an object that was in a list may be one itself
			}
			require.Equal(t, o.ID, again[0].ID)
			require.Equal(t, string(o.Raw), string(again[0].Raw))
		}
	})
}
