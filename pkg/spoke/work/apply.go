package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/reconcile"
)

// fieldManagerPrefix begins the name under which a work's fields are known on an object. Each work has a name of its own,
// so that two works can own one object without taking each other's fields away.
const fieldManagerPrefix = "work-agent"

// maxFieldManager is Kubernetes' limit for such a name.
const maxFieldManager = 128

func fieldManager(work string) string {
	name := fieldManagerPrefix + "-" + work
	if len(name) <= maxFieldManager {
		return name
	}
	sum := sha256.Sum256([]byte(work))
	return fieldManagerPrefix + "-" + hex.EncodeToString(sum[:])
}

// errUnsupported says that the work asks for something that this agent cannot do yet. Nothing is applied then, since
// applying it in another way is not what was asked for.
var errUnsupported = errors.New("is not supported yet")

// errUnseen says that it is not known whether the object is there.
var errUnseen = errors.New("and it cannot be looked at")

// apply brings one object in line with its manifest and returns it as it then is; nil if it could not be read either.
//
// The default strategy, Update, is server-side apply with force: what the manifest declares is enforced, what it declared
// before and no longer does is removed, and what others fill in (defaults, selectors of jobs, cluster IPs, injected
// containers) is left to them. It takes one request, whether the object exists or not.
func (a *Agent) apply(ctx context.Context, work *workv1.ManifestWork, m *manifest, owner metav1.OwnerReference) (*unstructured.Unstructured, error) {
	client := a.resource(m.key())
	strategy := workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeUpdate}
	if s := configFor(work, m).UpdateStrategy; s != nil {
		strategy = *s
	}
	object := m.object.DeepCopy()
	if owned(work, m) {
		object.SetOwnerReferences([]metav1.OwnerReference{owner})
	}
	manager, force := fieldManager(work.Name), true
	switch strategy.Type {
	case workv1.UpdateStrategyTypeUpdate, "":
	case workv1.UpdateStrategyTypeServerSideApply:
		if s := strategy.ServerSideApply; s != nil {
			if len(s.IgnoreFields) > 0 {
				return a.existing(ctx, client, m, fmt.Errorf("serverSideApply.ignoreFields %w", errUnsupported))
			}
			force = s.Force
			if s.FieldManager != "" {
				manager = s.FieldManager
			}
		}
	case workv1.UpdateStrategyTypeCreateOnly:
		return a.createOnly(ctx, client, m, object, manager)
	case workv1.UpdateStrategyTypeReadOnly:
		live, err := client.Get(ctx, m.object.GetName(), metav1.GetOptions{})
		return live, err
	default:
		return a.existing(ctx, client, m, fmt.Errorf("update strategy %s %w", strategy.Type, errUnsupported))
	}
	live, err := client.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: manager, Force: force})
	if err != nil && cannotApply(err) {
		live, err = a.replace(ctx, client, object, manager)
	}
	if err != nil {
		return a.existing(ctx, client, m, explain(err, m))
	}
	return a.handOver(ctx, client, work, live, manager)
}

// handOver gives up the fields that the work holds under its own name, once it holds what it wants under another one.
// Otherwise a key that the manifest drops later would stay, held by a manager that no longer speaks.
func (a *Agent) handOver(ctx context.Context, client dynamic.ResourceInterface, work *workv1.ManifestWork, live *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	own := fieldManager(work.Name)
	held := slices.ContainsFunc(live.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == own && f.Operation == metav1.ManagedFieldsOperationApply
	})
	if manager == own || !held {
		return live, nil
	}
	nothing := &unstructured.Unstructured{}
	nothing.SetGroupVersionKind(live.GroupVersionKind())
	nothing.SetName(live.GetName())
	nothing.SetNamespace(live.GetNamespace())
	after, err := client.Apply(ctx, live.GetName(), nothing, metav1.ApplyOptions{FieldManager: own, Force: true})
	if err != nil {
		return live, fmt.Errorf("give fields of manager %s up: %w", own, err)
	}
	return after, nil
}

// existing adds to an error the object as it is, since an object that cannot be changed may well be available.
func (a *Agent) existing(ctx context.Context, client dynamic.ResourceInterface, m *manifest, cause error) (*unstructured.Unstructured, error) {
	live, err := client.Get(ctx, m.object.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, cause
	case err != nil:
		return nil, fmt.Errorf("%w (%w: %v)", cause, errUnseen, err)
	}
	return live, cause
}

// createOnly never changes the content of an object that is there; only who owns it.
func (a *Agent) createOnly(ctx context.Context, client dynamic.ResourceInterface, m *manifest, object *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	live, err := client.Create(ctx, object, metav1.CreateOptions{FieldManager: manager})
	if !apierrors.IsAlreadyExists(err) {
		return live, err
	}
	// Not by server-side apply: declaring less under the same name would take away what was declared before.
	live, err = client.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil {
		return a.existing(ctx, client, m, err)
	}
	owners := mergedOwners(live.GetOwnerReferences(), object.GetOwnerReferences())
	if len(owners) == len(live.GetOwnerReferences()) {
		return live, nil
	}
	owned, err := a.setOwners(ctx, m.key(), live, owners)
	if err != nil {
		return live, err
	}
	return owned, nil
}

// cannotApply tells whether server-side apply is not to be had for this object: the API behind it does not know it, or its
// lists have entries with the same key, which it refuses although the API allows them.
func cannotApply(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusUnsupportedMediaType, http.StatusMethodNotAllowed:
		return true
	}
	return strings.Contains(err.Error(), "duplicate entries for key")
}

// replace writes the whole object. What others have put into its metadata stays.
func (a *Agent) replace(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	live, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return client.Create(ctx, object, metav1.CreateOptions{FieldManager: manager})
	}
	if err != nil {
		return nil, err
	}
	next := object.DeepCopy()
	next.SetResourceVersion(live.GetResourceVersion())
	next.SetFinalizers(live.GetFinalizers())
	next.SetLabels(merged(live.GetLabels(), object.GetLabels()))
	next.SetAnnotations(merged(live.GetAnnotations(), object.GetAnnotations()))
	next.SetOwnerReferences(mergedOwners(live.GetOwnerReferences(), object.GetOwnerReferences()))
	if status, ok := live.Object["status"]; ok {
		next.Object["status"] = status
	}
	return client.Update(ctx, next, metav1.UpdateOptions{FieldManager: manager})
}

func merged(base, over map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range []map[string]string{base, over} {
		for key, value := range m {
			out[key] = value
		}
	}
	return out
}

func mergedOwners(base, over []metav1.OwnerReference) []metav1.OwnerReference {
	out := slices.Clone(base)
	for _, o := range over {
		if !slices.ContainsFunc(out, func(b metav1.OwnerReference) bool { return b.UID == o.UID }) {
			out = append(out, o)
		}
	}
	return out
}

// explain says what a person can do about errors that no retry mends.
func explain(err error, m *manifest) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; give the agent's user a role for %s", err, m.gvr.GroupResource())
	case apierrors.IsInvalid(err) && strings.Contains(err.Error(), "immutable"):
		return fmt.Errorf("%w; a field that cannot be changed needs the object to be deleted first", err)
	}
	return err
}

// disown takes our reference off an object, which then no longer goes with the work.
func (a *Agent) disown(ctx context.Context, k key, live metav1.Object, owner types.UID) error {
	owners := live.GetOwnerReferences()
	left := slices.DeleteFunc(slices.Clone(owners), func(o metav1.OwnerReference) bool { return o.UID == owner })
	if len(left) == len(owners) {
		return nil
	}
	_, err := a.setOwners(ctx, k, live, left)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// setOwners writes the owners of the very version of an object that was looked at.
func (a *Agent) setOwners(ctx context.Context, k key, live metav1.Object, owners []metav1.OwnerReference) (*unstructured.Unstructured, error) {
	body, err := reconcile.MergePatch(live, map[string]any{"metadata": map[string]any{"ownerReferences": owners}})
	if err != nil {
		return nil, err
	}
	changed, err := a.resource(k).Patch(ctx, k.name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManagerPrefix})
	if err != nil {
		return nil, fmt.Errorf("owners of %s: %w", k, err)
	}
	return changed, nil
}

// resource is the client for an object.
func (a *Agent) resource(k key) dynamic.ResourceInterface {
	if k.namespace == "" {
		return a.spoke.Resource(k.gvr)
	}
	return a.spoke.Resource(k.gvr).Namespace(k.namespace)
}

// String names the object as kubectl does.
func (k key) String() string {
	name := k.name
	if k.namespace != "" {
		name = k.namespace + "/" + k.name
	}
	return k.gvr.GroupResource().String() + " " + name
}
