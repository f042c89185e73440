package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/workspec"
)

// ownersManager is the name under which owner references are written where the object itself is not.
const ownersManager = "nave-agent"

// serverSideApply applies by the strategy of that name (spec 4.2). Its manager is upstream's unless the work names one.
func (w *writer) serverSideApply(ctx context.Context, config *workv1.ServerSideApplyConfig) (live *unstructured.Unstructured, manager string, err error) {
	if config == nil {
		config = &workv1.ServerSideApplyConfig{}
	}
	if manager = config.FieldManager; manager == "" {
		manager = workv1.DefaultFieldManager
	}
	if len(config.IgnoreFields) > 0 {
		live, err = w.applyIgnoring(ctx, config, manager)
		return live, manager, err
	}
	live, err = w.apply(ctx, manager, config.Force)
	return live, manager, err
}

// formerManagers are names under which this work may have held the object's fields before it did under another one. A name
// that works share counts only while no other work owns the object.
func (w *writer) formerManagers(others bool) []string {
	var names []string
	for _, name := range []string{workspec.FieldManager(w.work.Name), w.inventory.items[w.id()].manager, workv1.DefaultFieldManager} {
		if name == "" || (others && name != workspec.FieldManager(w.work.Name)) || slices.Contains(names, name) {
			continue
		}
		names = append(names, name)
	}
	return names
}

// takeOver brings all fields that the work has ever held under one manager, once it holds what it wants under that one.
// Otherwise a key that the manifest drops later would stay, held by a manager that no longer speaks: the one of another
// strategy, of the time before server-side apply, or of upstream's agent.
func (w *writer) takeOver(ctx context.Context, live *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	_, others := ownersOf(live, w.amw)
	names := w.formerManagers(others)
	if wrote := wroteWithoutApplying(live, names); len(wrote) > 0 {
		body, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(wrote...), manager)
		if err != nil {
			return nil, fmt.Errorf("managed fields of %s: %w", w, err)
		}
		if live, err = w.client.Patch(ctx, live.GetName(), types.JSONPatchType, body, metav1.PatchOptions{FieldManager: ownersManager}); err != nil {
			return nil, fmt.Errorf("managed fields of %s: %w", w, err)
		}
		if live, err = w.client.Apply(ctx, live.GetName(), w.object, metav1.ApplyOptions{FieldManager: manager, Force: true}); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		if name == manager || !applies(live, name) {
			continue
		}
		var err error
		if live, err = w.giveUp(ctx, live, name); err != nil {
			return nil, err
		}
	}
	return live, nil
}

// wroteWithoutApplying are those managers that have written an object by other means than server-side apply.
func wroteWithoutApplying(live *unstructured.Unstructured, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !slices.ContainsFunc(live.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
			return f.Manager == name && f.Operation == metav1.ManagedFieldsOperationUpdate && f.Subresource == ""
		})
	})
}

func applies(live *unstructured.Unstructured, manager string) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == manager && f.Operation == metav1.ManagedFieldsOperationApply
	})
}

// giveUp declares nothing under a manager's name, so that it holds no field any more; fields that nobody else holds go.
func (w *writer) giveUp(ctx context.Context, live *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	nothing := &unstructured.Unstructured{}
	nothing.SetGroupVersionKind(live.GroupVersionKind())
	nothing.SetName(live.GetName())
	nothing.SetNamespace(live.GetNamespace())
	after, err := w.client.Apply(ctx, live.GetName(), nothing, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err != nil {
		return nil, fmt.Errorf("give fields of manager %s up: %w", manager, err)
	}
	return after, nil
}

// onlyOwnConflicts tells whether all that an apply without force ran into are fields that this work holds under other names.
func (w *writer) onlyOwnConflicts(ctx context.Context, err error) bool {
	holders := conflicting(err)
	if len(holders) == 0 {
		return false
	}
	live, getErr := w.client.Get(ctx, w.object.GetName(), metav1.GetOptions{})
	if getErr != nil {
		return false
	}
	_, others := ownersOf(live, w.amw)
	own := append(w.formerManagers(others), ownersManager)
	return !slices.ContainsFunc(holders, func(h string) bool { return !slices.Contains(own, h) })
}

// conflicting are the managers that a conflict of server-side apply names.
func conflicting(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var names []string
	for _, cause := range status.Status().Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		_, rest, _ := strings.Cut(cause.Message, "conflict with ")
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil // a server that words it otherwise: not ours, as far as anyone can tell
		}
		name, err := strconv.Unquote(quoted)
		if err != nil {
			return nil
		}
		names = append(names, name)
	}
	return names
}
