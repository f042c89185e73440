package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"nave/pkg/spoke/work/ignore"
)

// ignoreFieldError says that fields that a work wants to leave alone cannot be told.
type ignoreFieldError struct{ error }

// Unwrap implements errors.Unwrap.
func (e *ignoreFieldError) Unwrap() error { return e.error }

// ignored are the fields that a strategy leaves to others.
type ignored struct {
	present *ignore.Fields // once the object exists
	all     *ignore.Fields // those, and others until the manifest changes
	bySpoke bool           // there are any others
}

func compileIgnored(entries []workv1.IgnoreField) (ignored, error) {
	present, err := ignore.Compile(entries, workv1.IgnoreFieldsConditionOnSpokePresent)
	if err != nil {
		return ignored{}, &ignoreFieldError{err}
	}
	all, err := ignore.Compile(entries, workv1.IgnoreFieldsConditionOnSpokePresent, workv1.IgnoreFieldsConditionOnSpokeChange)
	if err != nil {
		return ignored{}, &ignoreFieldError{err}
	}
	bySpoke := slices.ContainsFunc(entries, func(e workv1.IgnoreField) bool { return e.Condition == workv1.IgnoreFieldsConditionOnSpokeChange })
	return ignored{present, all, bySpoke}, nil
}

// applyIgnoring applies an object but for the fields that the work leaves to others (spec 4.2; 10.2, C7). A field that is left
// alone has to be let go of first: server-side apply takes away what its manager holds and does not declare any more. All
// other fields are enforced as ever, and so is who owns the object.
func (w *writer) applyIgnoring(ctx context.Context, config *workv1.ServerSideApplyConfig, manager string) (*unstructured.Unstructured, error) {
	fields, err := compileIgnored(config.IgnoreFields)
	if err != nil {
		return nil, err
	}
	live, err := w.client.Get(ctx, w.object.GetName(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	exists := err == nil
	hash, err := w.hashWithout(ctx, fields.present)
	if err != nil {
		return nil, err
	}
	leave := &ignore.Fields{}
	switch {
	case exists && fields.bySpoke && live.GetAnnotations()[workv1.ManifestConfigSpecHashAnnotationKey] != hash:
		leave = fields.present // the manifest has changed
	case exists:
		leave = fields.all
	}
	if exists {
		if _, err = w.letGo(ctx, live, leave, manager); err != nil {
			return nil, err
		}
	}
	if err := without(ctx, w.object.Object, leave); err != nil {
		return nil, err
	}
	w.object.SetAnnotations(merged(w.object.GetAnnotations(), map[string]string{workv1.ManifestConfigSpecHashAnnotationKey: hash}))
	if live, err = w.apply(ctx, manager, config.Force); err != nil {
		return nil, err
	}
	return w.letGo(ctx, live, fields.all, manager)
}

// without drops fields from an object.
func without(ctx context.Context, object map[string]any, fields *ignore.Fields) error {
	paths, err := fields.Locate(ctx, object)
	if err != nil {
		return &ignoreFieldError{err}
	}
	ignore.Remove(object, paths)
	return nil
}

// hashWithout is a hash of what the manifest says besides some fields.
func (w *writer) hashWithout(ctx context.Context, fields *ignore.Fields) (string, error) {
	rest := w.manifest.object.DeepCopy()
	if err := without(ctx, rest.Object, fields); err != nil {
		return "", err
	}
	text, err := json.Marshal(rest.Object) // maps are marshalled in the order of their keys
	if err != nil {
		return "", fmt.Errorf("hash of %s: %w", w, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// letGo takes fields out of what this work is known to hold of an object, without changing the object.
func (w *writer) letGo(ctx context.Context, live *unstructured.Unstructured, fields *ignore.Fields, manager string) (*unstructured.Unstructured, error) {
	paths, err := fields.Locate(ctx, live.Object)
	if err != nil {
		return nil, &ignoreFieldError{err}
	}
	_, others := ownersOf(live, w.amw)
	ours := sets.New(append(w.formerManagers(others), manager)...)
	var kept []metav1.ManagedFieldsEntry
	changed := false
	for _, entry := range live.GetManagedFields() {
		if ours.Has(entry.Manager) && entry.Subresource == "" && entry.FieldsV1 != nil {
			var less bool
			if entry, less, err = lessOf(entry, live, paths); err != nil {
				return nil, fmt.Errorf("managed fields of %s: %w", w, err)
			}
			changed = changed || less
		}
		if entry.FieldsV1 != nil {
			kept = append(kept, entry)
		}
	}
	if !changed {
		return live, nil
	}
	body, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": kept},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
	})
	if err != nil {
		return nil, fmt.Errorf("managed fields of %s: %w", w, err)
	}
	after, err := w.client.Patch(ctx, live.GetName(), types.JSONPatchType, body, metav1.PatchOptions{FieldManager: ownersManager})
	if err != nil {
		return nil, fmt.Errorf("managed fields of %s: %w", w, err)
	}
	return after, nil
}

// lessOf is an entry of an object's managed fields without those at the paths; it has no fields if none are left.
func lessOf(entry metav1.ManagedFieldsEntry, live *unstructured.Unstructured, paths []ignore.Path) (metav1.ManagedFieldsEntry, bool, error) {
	held := &fieldpath.Set{}
	if err := held.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return entry, false, err
	}
	left, changed := ignore.LetGo(held, live.Object, paths)
	if !changed {
		return entry, false, nil
	}
	if left.Empty() {
		entry.FieldsV1 = nil
		return entry, true, nil
	}
	raw, err := left.ToJSON()
	if err != nil {
		return entry, false, err
	}
	entry.FieldsV1 = metav1.NewFieldsV1(string(raw))
	return entry, true, nil
}
