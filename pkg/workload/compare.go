package workload

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/yaml"
)

// contextLines is how many unchanged lines are shown around changed ones, as diff -u does.
const contextLines = 3

// Difference is one object as it is and as it would be; nil where it is not there.
type Difference struct {
	Where         string // work or cluster that it is in
	What          string // kind, namespace and name
	Before, After map[string]any
	Note          string // what a person has to know about it besides
}

// Write prints the difference as diff -u does. Values of Secrets are not shown, only which of them differ.
func (d Difference) Write(out io.Writer) error {
	before, after := masked(d.Before, d.After)
	texts := [2]string{}
	for i, content := range []map[string]any{before, after} {
		if content == nil {
			continue
		}
		text, err := yaml.Marshal(content)
		if err != nil {
			return fmt.Errorf("%s: %w", d.What, err)
		}
		texts[i] = string(text)
	}
	if d.Note != "" {
		fmt.Fprintf(out, "# %s, %s: %s\n", d.Where, d.What, d.Note)
	}
	if texts[0] == texts[1] {
		return nil
	}
	fmt.Fprintf(out, "diff -u %s: %s\n", d.Where, d.What)
	return difflib.WriteUnifiedDiff(out, difflib.UnifiedDiff{
		A: lines(texts[0]), B: lines(texts[1]), FromFile: side(d.Before, "now"), ToFile: side(d.After, "then"), Context: contextLines,
	})
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return difflib.SplitLines(strings.TrimSuffix(text, "\n"))
}

func side(content map[string]any, name string) string {
	if content == nil {
		return "/dev/null"
	}
	return name
}

// masked hides the values of Secrets, so that a diff can be shown around. Values that differ are told apart.
func masked(before, after map[string]any) (map[string]any, map[string]any) {
	if text(before, "kind") != "Secret" && text(after, "kind") != "Secret" {
		return before, after
	}
	return maskedAgainst(before, after, "before"), maskedAgainst(after, before, "after")
}

func maskedAgainst(content, other map[string]any, side string) map[string]any {
	if content == nil {
		return nil
	}
	out := maps.Clone(content)
	for _, field := range []string{"data", "stringData"} {
		values, ok := content[field].(map[string]any)
		if !ok {
			continue
		}
		others, _ := other[field].(map[string]any)
		hidden := map[string]any{}
		for key, value := range values {
			hidden[key] = "***"
			if theirs, ok := others[key]; ok && theirs != value {
				hidden[key] = "*** (" + side + ")"
			}
		}
		out[field] = hidden
	}
	metadata, _ := content["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if _, ok := annotations[lastApplied]; ok { // it repeats the values
		metadata, annotations = maps.Clone(metadata), maps.Clone(annotations)
		annotations[lastApplied] = "***"
		metadata["annotations"] = annotations
		out["metadata"] = metadata
	}
	return out
}

// lastApplied is where kubectl apply keeps what it applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Compare tells what Apply would change on one cluster's works: object by object, and what a work says about them. It asks
// the hub what it would do, so that what others have set on a work counts as it does then.
func (a *Applier) Compare(ctx context.Context, cluster string, objects []Object) ([]Difference, error) {
	var changes []Change
	dry := *a
	dry.DryRun, dry.Tell = true, func(c Change) { changes = append(changes, c) }
	if err := dry.Apply(ctx, cluster, objects); err != nil {
		return nil, err
	}
	before, after := map[ID]placed{}, map[ID]placed{}
	var all []Difference
	for _, c := range changes {
		place(before, c.Work, c.Before)
		place(after, c.Work, c.Result)
		was, is := settings(c.Before), settings(c.Result)
		if len(was)+len(is) > 0 && c.Verb != Deleted && !equality.Semantic.DeepEqual(was, is) {
			all = append(all, Difference{Where: cluster + "/" + c.Work, What: "ManifestWork " + c.Work, Before: was, After: is})
		}
	}
	return append(all, differences(cluster, before, after)...), nil
}

// placed is an object and the work that it is in.
type placed struct {
	Object
	work string
}

// place notes which objects a work holds.
func place(where map[ID]placed, name string, work *workv1.ManifestWork) {
	if work == nil {
		return
	}
	for _, o := range objectsIn(work) {
		where[o.ID] = placed{o, name}
	}
}

// settings are what a work says besides the objects; nil if that is nothing.
func settings(work *workv1.ManifestWork) map[string]any {
	if work == nil {
		return nil
	}
	bare := work.DeepCopy()
	bare.Spec.Workload = workv1.ManifestsTemplate{}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&bare.Spec)
	delete(content, "workload")
	if err != nil || len(content) == 0 {
		return nil // the types of the API always convert
	}
	return map[string]any{"spec": content}
}

// differences are the objects that are not the same, or not in the same work, in order of their names.
func differences(cluster string, before, after map[ID]placed) []Difference {
	ids := maps.Clone(before)
	maps.Copy(ids, after)
	var all []Difference
	for _, id := range slices.SortedFunc(maps.Keys(ids), ID.compare) {
		was, is := before[id], after[id]
		d := Difference{Where: cluster + "/" + cmp.Or(is.work, was.work), What: ids[id].String(), Before: was.Content, After: is.Content}
		if was.work != "" && is.work != "" && was.work != is.work {
			d.Note = fmt.Sprintf("moves from work %s to %s", was.work, is.work)
		}
		if d.Note != "" || string(was.Raw) != string(is.Raw) {
			all = append(all, d)
		}
	}
	return all
}

func (id ID) compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Namespace, other.Namespace), cmp.Compare(id.Group, other.Group), cmp.Compare(id.Kind, other.Kind), cmp.Compare(id.Name, other.Name))
}
