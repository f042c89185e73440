package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/replicas"
)

// appliedAnnotation marks a replica set that nave work apply made. A label would be copied to its works, which would then look
// like parts of a set of one cluster.
const appliedAnnotation = SetLabel

// ReplicaSetOf is the replica set that a work was made for, as NAMESPACE/NAME; empty if it was made for none. A long name is
// shortened, as the label of the work has it.
func ReplicaSetOf(work *workv1.ManifestWork) string {
	return strings.Replace(work.Labels[replicas.SetLabel], ".", "/", 1) // a namespace has no dot in its name
}

// ReplicaSetChange is what was done with a replica set.
type ReplicaSetChange struct {
	Verb   string                               // one of Created, Changed and Unchanged
	Result *workv1alpha1.ManifestWorkReplicaSet // as the hub has it now, or would
}

// ApplyReplicaSet brings a ManifestWorkReplicaSet in line with the objects. All of them are in its one work for each cluster:
// a replica set cannot split them.
func (a *Applier) ApplyReplicaSet(ctx context.Context, to Target, objects []Object) (*ReplicaSetChange, error) {
	namespace := to.Namespace
	sets := a.Hub.WorkV1alpha1().ManifestWorkReplicaSets(namespace)
	before, err := sets.Get(ctx, a.Set, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		before = nil
	case err != nil:
		return nil, fmt.Errorf("replica set %s of namespace %s: %w", a.Set, namespace, err)
	case before.DeletionTimestamp != nil:
		return nil, fmt.Errorf("replica set %s of namespace %s is being deleted; apply again when it is gone", a.Set, namespace)
	case before.Annotations[appliedAnnotation] == "" && !a.Force:
		return nil, fmt.Errorf("replica set %s of namespace %s was not made by nave work apply; choose another name, or take it over with --force", a.Set, namespace)
	}
	wanted, err := a.replicaSet(to, before, objects)
	if err != nil {
		return nil, err
	}
	body, err := wanted.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("replica set %s: %w", a.Set, err)
	}
	force := true // of fields; that the set is ours has been made sure of
	options := metav1.PatchOptions{FieldManager: fieldManager, Force: &force}
	if a.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	after, err := sets.Patch(ctx, a.Set, types.ApplyPatchType, body, options)
	switch {
	case limitIn(err) > 0:
		return nil, fmt.Errorf("%w; a replica set cannot be split into several works: give it fewer objects, or make several sets", err)
	case err != nil:
		return nil, fmt.Errorf("apply replica set %s of namespace %s: %w", a.Set, namespace, err)
	case before == nil:
		return &ReplicaSetChange{Created, after}, nil
	case before.Generation == after.Generation:
		return &ReplicaSetChange{Unchanged, after}, nil
	}
	return &ReplicaSetChange{Changed, after}, nil
}

// RenderReplicaSet is what ApplyReplicaSet would write to a hub that does not have the set. It asks nobody.
func (a *Applier) RenderReplicaSet(to Target, objects []Object) (*unstructured.Unstructured, error) {
	return a.replicaSet(to, nil, objects)
}

// replicaSet is a set as it is sent, where before is what the hub has of it.
func (a *Applier) replicaSet(to Target, before *workv1alpha1.ManifestWorkReplicaSet, objects []Object) (*unstructured.Unstructured, error) {
	template, err := a.template(objects)
	if err != nil {
		return nil, err
	}
	refs, err := to.refs(before, a.Force)
	if err != nil {
		return nil, err
	}
	wanted := &workv1alpha1.ManifestWorkReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: to.Namespace, Name: a.Set, Annotations: map[string]string{appliedAnnotation: a.Set}},
		Spec:       workv1alpha1.ManifestWorkReplicaSetSpec{ManifestWorkTemplate: *template, PlacementRefs: refs, CascadeDeletionPolicy: to.cascade()},
	}
	if before != nil {
		wanted.UID = before.UID // it is the one that was looked at
	}
	return PrintableReplicaSet(wanted)
}

// template is what every work of a replica set holds.
func (a *Applier) template(objects []Object) (*workv1.ManifestWorkSpec, error) {
	total := 0
	for _, o := range objects {
		if o.IsWork() {
			return nil, fmt.Errorf("%s: a ManifestWork cannot be put into a replica set; give the objects that it holds", o.Place)
		}
		total += o.size()
	}
	if a.MaxBytes > 0 && total > a.MaxBytes {
		return nil, fmt.Errorf("the objects are %d bytes large, more than the %d of --max-size, and a replica set cannot be split into several works: give it fewer objects, or make several sets", total, a.MaxBytes)
	}
	if len(objects) == 0 {
		return nil, errors.New("the input has no objects")
	}
	return &newWork("", a.Set, 1, objects, a.Options).Spec, nil
}

// PrintableReplicaSet is a replica set as people want to see it, and as it is sent: without the status, and what Go's types print
// besides.
func PrintableReplicaSet(set *workv1alpha1.ManifestWorkReplicaSet) (*unstructured.Unstructured, error) {
	shown := set.DeepCopy()
	shown.ManagedFields = nil
	shown.APIVersion, shown.Kind = workv1alpha1.GroupVersion.String(), "ManifestWorkReplicaSet"
	raw, err := json.Marshal(shown)
	if err != nil {
		return nil, fmt.Errorf("replica set %s: %w", set.Name, err)
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("replica set %s: %w", set.Name, err)
	}
	unstructured.RemoveNestedField(out.Object, "status")
	if set.CreationTimestamp.IsZero() {
		unstructured.RemoveNestedField(out.Object, "metadata", "creationTimestamp")
	}
	return out, nil
}
