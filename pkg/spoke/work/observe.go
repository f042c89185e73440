package work

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"open-cluster-management.io/api/feature"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/settings"
	"nave/pkg/spoke/work/feedback"
)

// watchedEvery is how often an object is looked at that changes all the time, where the work wants to know of each change.
const watchedEvery = 250 * time.Millisecond

// ruledEvery is how often one is looked at that has condition rules: a work that is complete is not to wait for that to be seen.
const ruledEvery = time.Second

// findings are what an object says about itself by the rules of a work.
type findings struct {
	rules      [sha256.Size]byte // by which it was looked at
	missing    bool              // there was no object
	wanted     bool              // there are rules for values
	values     []workv1.FeedbackValue
	feedback   string // what went wrong with the values
	conditions []metav1.Condition
}

// observe looks at an object by the work's rules for it, if there are any. An object that has not changed since is not asked
// for again; one that changes all the time is looked at as often as the work wants.
func (a *Agent) observe(ctx context.Context, p pass, r *result, live *unstructured.Unstructured) {
	config := r.config
	if len(config.FeedbackRules)+len(config.ConditionRules) == 0 {
		return
	}
	every := a.lookEvery(config)
	rules := a.hashOfRules(config)
	if live == nil {
		var wait time.Duration
		if r.findings, wait = a.watcher.found(r.id(), p.work.Name, rules, every); r.findings != nil {
			r.again = sooner(r.again, wait)
			r.noteDone()
			return
		}
		var err error
		live, err = a.resource(r.manifest).Get(ctx, r.object.GetName(), metav1.GetOptions{})
		if err != nil {
			r.findings = unseen(err)
			r.findings.wanted = len(config.FeedbackRules) > 0
			return
		}
	}
	r.findings = a.look(ctx, live, config)
	r.findings.rules = rules
	if a.watcher.find(r.id(), p.work.Name, every, r.findings, live) {
		r.again = sooner(r.again, every) // it has changed since
	}
	if a.watcher.blind(r.gvr, r.object.GetNamespace()) {
		r.again = sooner(r.again, every)
	}
	r.noteDone()
}

// lookEvery is how often an object is looked at, at most.
func (a *Agent) lookEvery(config workv1.ManifestConfigOption) time.Duration {
	interval := a.Settings.Get().StatusSyncInterval
	switch {
	case config.FeedbackScrapeType == workv1.FeedbackWatchType:
		return watchedEvery
	case len(config.ConditionRules) > 0:
		return min(interval, ruledEvery)
	}
	return interval
}

// noteDone notes that the object has completed: it is not applied again then, not even when it is gone, until its manifest
// changes.
func (r *result) noteDone() {
	for _, c := range r.findings.conditions {
		r.done = r.done || (c.Type == workv1.WorkComplete && c.Status == metav1.ConditionTrue)
	}
}

func unseen(err error) *findings {
	if apierrors.IsNotFound(err) {
		return &findings{missing: true, feedback: "the resource is not on the cluster"}
	}
	return &findings{missing: true, feedback: err.Error()}
}

// look evaluates rules on an object.
func (a *Agent) look(ctx context.Context, live *unstructured.Unstructured, config workv1.ManifestConfigOption) *findings {
	f := &findings{wanted: len(config.FeedbackRules) > 0}
	if f.wanted {
		var err error
		if f.values, err = feedback.Values(live, config.FeedbackRules, a.limits()); err != nil {
			f.feedback = err.Error()
		}
	}
	f.conditions = a.rules.Evaluate(ctx, live, config.ConditionRules)
	return f
}

func (a *Agent) limits() feedback.Limits {
	s := a.Settings.Get()
	return feedback.Limits{Raw: s.Features.Enabled(feature.RawFeedbackJsonString, feature.DefaultSpokeWorkFeatureGates), MaxRawBytes: s.MaxFeedbackBytes}
}

// reportsOtherwise tells whether other settings change what is reported of objects.
func reportsOtherwise(before, after settings.Agent) bool {
	gate, defaults := feature.RawFeedbackJsonString, feature.DefaultSpokeWorkFeatureGates
	return before.Features.Enabled(gate, defaults) != after.Features.Enabled(gate, defaults) ||
		before.MaxFeedbackBytes != after.MaxFeedbackBytes || before.StatusSyncInterval != after.StatusSyncInterval
}

// hashOfRules changes with the rules and with the settings that they depend on.
func (a *Agent) hashOfRules(config workv1.ManifestConfigOption) [sha256.Size]byte {
	text, err := json.Marshal([]any{config.FeedbackRules, config.ConditionRules})
	if err != nil {
		text = nil // never: they came as JSON
	}
	return sha256.Sum256(fmt.Append(text, a.limits()))
}

// find notes what was found of an object at a version, and tells whether a newer one has been seen.
func (w *watcher) find(id identity, work string, every time.Duration, f *findings, live metav1.Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.works[work][id]
	if u == nil {
		return false
	}
	u.every, u.looked, u.version, u.findings = every, w.clock.Now(), number(live.GetResourceVersion()), f
	return w.objects[id].seenVersion > u.version
}

// found is what was found of an object by these rules, if it has not changed since, or if it is too soon to look again. The
// time says after how long it may then be looked at; 0 if there is nothing new to see.
func (w *watcher) found(id identity, work string, rules [sha256.Size]byte, every time.Duration) (*findings, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.works[work][id]
	if u == nil || u.findings == nil || u.findings.rules != rules {
		return nil, 0
	}
	changed := w.objects[id].seenVersion > u.version
	if !changed && w.watched(u.gvr, id.Namespace) {
		return u.findings, 0
	}
	if wait := u.looked.Add(every).Sub(w.clock.Now()); wait > 0 {
		return u.findings, wait
	}
	return nil, 0
}
