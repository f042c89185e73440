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

// ApplyReplicaSet brings a ManifestWorkReplicaSet in line with the objects. All of them are in its one work for each cluster:
// a replica set cannot split them.
func (a *Applier) ApplyReplicaSet(ctx context.Context, to Target, objects []Object) (verb string, err error) {
	template, err := a.template(objects)
	if err != nil {
		return "", err
	}
	namespace := to.Namespace
	sets := a.Hub.WorkV1alpha1().ManifestWorkReplicaSets(namespace)
	before, err := sets.Get(ctx, a.Set, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		before = nil
	case err != nil:
		return "", fmt.Errorf("replica set %s of namespace %s: %w", a.Set, namespace, err)
	case before.DeletionTimestamp != nil:
		return "", fmt.Errorf("replica set %s of namespace %s is being deleted; apply again when it is gone", a.Set, namespace)
	case before.Annotations[appliedAnnotation] == "" && !a.Force:
		return "", fmt.Errorf("replica set %s of namespace %s was not made by nave work apply; choose another name, or take it over with --force", a.Set, namespace)
	}
	refs, err := to.refs(before, a.Force)
	if err != nil {
		return "", err
	}
	wanted := &workv1alpha1.ManifestWorkReplicaSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: workv1alpha1.GroupVersion.String(), Kind: "ManifestWorkReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: a.Set, Annotations: map[string]string{appliedAnnotation: a.Set}},
		Spec:       workv1alpha1.ManifestWorkReplicaSetSpec{ManifestWorkTemplate: *template, PlacementRefs: refs, CascadeDeletionPolicy: to.cascade()},
	}
	if before != nil {
		wanted.UID = before.UID // it is the one that was looked at
	}
	body, err := replicaSetBody(wanted)
	if err != nil {
		return "", err
	}
	force := true // of fields; that the set is ours has been made sure of
	after, err := sets.Patch(ctx, a.Set, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
	switch {
	case limitIn(err) > 0:
		return "", fmt.Errorf("%w; a replica set cannot be split into several works: give it fewer objects, or make several sets", err)
	case err != nil:
		return "", fmt.Errorf("apply replica set %s of namespace %s: %w", a.Set, namespace, err)
	case before == nil:
		return Created, nil
	case before.Generation == after.Generation:
		return Unchanged, nil
	}
	return Changed, nil
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

// replicaSetBody is a replica set as it is sent: without the status that Go's types print.
func replicaSetBody(set *workv1alpha1.ManifestWorkReplicaSet) ([]byte, error) {
	raw, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("replica set %s: %w", set.Name, err)
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("replica set %s: %w", set.Name, err)
	}
	unstructured.RemoveNestedField(out.Object, "status")
	unstructured.RemoveNestedField(out.Object, "metadata", "creationTimestamp")
	return out.MarshalJSON()
}
