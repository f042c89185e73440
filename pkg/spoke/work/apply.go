package work

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/spoke/work/executor"
	"nave/pkg/workspec"
)

// errUnknownStrategy says that the work asks for a strategy that this agent does not know. Nothing is applied then, since
// applying it in another way is not what was asked for.
var errUnknownStrategy = errors.New("is not known to this agent")

// errUnseen says that it is not known whether the object is there.
var errUnseen = errors.New("and it cannot be looked at")

// result is what came of one manifest.
type result struct {
	*manifest
	err      error // why it was not applied
	exists   bool  // the object is on the cluster
	uid      string
	manager  string        // under which the work holds its fields, where that is not the work's own
	done     bool          // it has completed, and is not applied again
	findings *findings     // what the object says about itself, by the work's rules; nil without rules
	again    time.Duration // when to look again though nothing happens; 0 for never
}

// applyAll applies every manifest, rank by rank; one that fails does not keep the others back. The results are in the order
// of the work.
func (a *Agent) applyAll(ctx context.Context, p pass) []result {
	results := make([]result, len(p.manifests))
	for _, group := range inRanks(p.manifests) {
		inParallel(len(group), func(i int) {
			if m := group[i]; m.instead == nil {
				results[m.ordinal] = a.treat(ctx, p, m)
			}
		})
	}
	for i, m := range p.manifests {
		if m.instead != nil {
			results[i] = results[m.instead.ordinal]
			results[i].manifest = m
		}
	}
	return results
}

// treat does with one manifest what the work wants, and looks at what became of it.
func (a *Agent) treat(ctx context.Context, p pass, m *manifest) result {
	if m.err != nil {
		a.mapper.refresh()
		return result{manifest: m, err: m.err}
	}
	r, live := a.bring(ctx, p, m)
	a.observe(ctx, p, &r, live)
	if a.watcher.blind(m.gvr, m.object.GetNamespace()) {
		r.again = sooner(r.again, blindEvery)
	}
	return r
}

// bring brings one object in line with its manifest, unless it is known to be. It returns the object as it then is, where it
// had to be asked for.
func (a *Agent) bring(ctx context.Context, p pass, m *manifest) (result, *unstructured.Unstructured) {
	r := result{manifest: m, manager: p.inventory.items[m.id()].manager}
	r.done = p.inventory.items[m.id()].done == short(m)
	if err := a.permitted(ctx, p, m); err != nil {
		live, err := a.existing(ctx, a.resource(m), m, err)
		return r.with(live, err), live
	}
	t := treatmentOf(m)
	if r.done {
		t = sha256.Sum256(append(t[:], "done"...))
	}
	if uid, ok := a.watcher.settled(m.id(), p.work.Name, t); ok {
		r.exists, r.uid = true, uid
		return r, nil
	}
	// Watched before it is written, so that no change goes by unseen.
	a.watcher.begin(m.gvr, m.id(), p.work.Name)
	begun := a.Clock.Now()
	live, manager, err := a.apply(ctx, p, m, r.done)
	metricApply.WithLabelValues(string(m.strategy().Type), outcome(err)).Observe(a.Clock.Since(begun).Seconds())
	meanwhile := false
	if err == nil && live != nil {
		r.manager = manager
		meanwhile = a.watcher.settle(m.gvr, m.id(), p.work.Name, t, live)
	} else {
		meanwhile = a.watcher.fail(m.id(), p.work.Name)
	}
	if meanwhile {
		r.again = max(a.pace.drift(p.work.Name), time.Millisecond)
	}
	return r.with(live, err), live
}

// with is a result with what was found of its object.
func (r result) with(live *unstructured.Unstructured, err error) result {
	r.err = err
	if live != nil {
		r.exists, r.uid = true, string(live.GetUID())
	}
	return r
}

// permitted asks whether the work's executor may do what the work wants.
func (a *Agent) permitted(ctx context.Context, p pass, m *manifest) error {
	if p.work.Spec.Executor == nil {
		return nil
	}
	verbs := []string{"create", "update", "patch", "get"}
	if m.owned {
		verbs = append(verbs, "delete")
	}
	if m.readOnly() {
		verbs = []string{"get"}
	}
	return a.executor.Check(ctx, p.work.Spec.Executor, executor.Request{
		GVR: m.gvr, Namespace: m.object.GetNamespace(), Name: m.object.GetName(), Object: m.object, Verbs: verbs,
	})
}

// apply brings one object in line with its manifest and returns it as it then is (nil if it could not be read either), and
// the manager under which the work holds its fields, where that is not its own.
//
// The default strategy, Update, is server-side apply with force: what the manifest declares is enforced, what it declared
// before and no longer does is removed, and what others fill in (defaults, selectors of jobs, cluster IPs, injected
// containers) is left to them. It takes one request, whether the object exists or not.
func (a *Agent) apply(ctx context.Context, p pass, m *manifest, done bool) (*unstructured.Unstructured, string, error) {
	client := a.resource(m)
	strategy := m.strategy()
	if done || strategy.Type == workv1.UpdateStrategyTypeReadOnly {
		live, err := client.Get(ctx, m.object.GetName(), metav1.GetOptions{})
		if done && apierrors.IsNotFound(err) {
			return nil, "", nil // it has done its work, and is not made again
		}
		return live, "", err
	}
	object := m.object.DeepCopy()
	if m.owned {
		object.SetOwnerReferences(append(object.GetOwnerReferences(), ownerOf(p.amw)))
	}
	w := writer{Agent: a, pass: p, manifest: m, client: client, object: object}
	var live *unstructured.Unstructured
	var manager string
	var err error
	switch strategy.Type {
	case workv1.UpdateStrategyTypeUpdate, "":
		live, err = w.apply(ctx, workspec.FieldManager(p.work.Name), true)
	case workv1.UpdateStrategyTypeServerSideApply:
		live, manager, err = w.serverSideApply(ctx, strategy.ServerSideApply)
	case workv1.UpdateStrategyTypeCreateOnly:
		live, err = w.createOnly(ctx)
	default:
		err = fmt.Errorf("update strategy %s %w", strategy.Type, errUnknownStrategy)
	}
	if err != nil {
		if noSuchKind(err) {
			a.mapper.refresh()
		}
		live, err = a.existing(ctx, client, m, err)
		err = explain(err, m)
	}
	return live, manager, err
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

// resource is the client for a manifest's object.
func (a *Agent) resource(m *manifest) dynamic.ResourceInterface {
	if namespace := m.object.GetNamespace(); namespace != "" {
		return a.spoke.Resource(m.gvr).Namespace(namespace)
	}
	return a.spoke.Resource(m.gvr)
}

// writer writes one object for a work.
type writer struct {
	*Agent
	pass
	*manifest
	client dynamic.ResourceInterface
	object *unstructured.Unstructured // as it is to be
}

// apply declares the object under a manager's name.
func (w *writer) apply(ctx context.Context, manager string, force bool) (*unstructured.Unstructured, error) {
	live, err := w.client.Apply(ctx, w.object.GetName(), w.object, metav1.ApplyOptions{FieldManager: manager, Force: force})
	if err != nil && !force && w.onlyOwnConflicts(ctx, err) {
		live, err = w.client.Apply(ctx, w.object.GetName(), w.object, metav1.ApplyOptions{FieldManager: manager, Force: true})
	}
	if err != nil && cannotApply(err) {
		live, err = w.replace(ctx, manager)
	}
	if err != nil {
		return nil, err
	}
	return w.takeOver(ctx, live, manager)
}

// createOnly never changes the content of an object that is there; only who owns it.
func (w *writer) createOnly(ctx context.Context) (*unstructured.Unstructured, error) {
	live, err := w.client.Create(ctx, w.object, metav1.CreateOptions{FieldManager: workspec.FieldManager(w.work.Name)})
	if !apierrors.IsAlreadyExists(err) {
		return live, err
	}
	// Not by server-side apply: declaring less under the same name would take away what was declared before.
	live, err = w.client.Get(ctx, w.object.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return w.own(ctx, live)
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
func (w *writer) replace(ctx context.Context, manager string) (*unstructured.Unstructured, error) {
	live, err := w.client.Get(ctx, w.object.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return w.client.Create(ctx, w.object, metav1.CreateOptions{FieldManager: manager})
	}
	if err != nil {
		return nil, err
	}
	next := w.object.DeepCopy()
	next.SetResourceVersion(live.GetResourceVersion())
	next.SetFinalizers(live.GetFinalizers())
	next.SetLabels(merged(live.GetLabels(), w.object.GetLabels()))
	next.SetAnnotations(merged(live.GetAnnotations(), w.object.GetAnnotations()))
	next.SetOwnerReferences(mergedOwners(live.GetOwnerReferences(), w.object.GetOwnerReferences()))
	if status, ok := live.Object["status"]; ok {
		next.Object["status"] = status
	}
	return w.client.Update(ctx, next, metav1.UpdateOptions{FieldManager: manager})
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
