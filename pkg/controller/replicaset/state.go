package replicaset

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/reconcile"
	"nave/pkg/replicas"
	"nave/pkg/rollout"
)

// contentAnnotation is where Keep leaves the hash of a work's content, in caches only.
const contentAnnotation = "nave.dev/content"

// kept are the conditions of a work that this controller looks at.
var kept = []string{workv1.WorkApplied, workv1.WorkAvailable, workv1.WorkProgressing, workv1.WorkDegraded}

// Keep gives what this controller looks at of a work of some set, besides its metadata: the hash of its content in an
// annotation, and some conditions. For other works it gives nothing. Works in caches lack their manifests, and have been here
// before.
func Keep(work *workv1.ManifestWork) []metav1.Condition {
	if work.Labels[replicas.SetLabel] == "" {
		return nil
	}
	if len(work.Spec.Workload.Manifests) > 0 || work.Annotations[contentAnnotation] == "" {
		metav1.SetMetaDataAnnotation(&work.ObjectMeta, contentAnnotation, replicas.Content(&work.Spec))
	}
	conditions := []metav1.Condition{}
	for _, kind := range kept {
		if c := meta.FindStatusCondition(work.Status.Conditions, kind); c != nil {
			conditions = append(conditions, metav1.Condition{
				Type: c.Type, Status: c.Status, ObservedGeneration: c.ObservedGeneration, LastTransitionTime: c.LastTransitionTime,
			})
		}
	}
	return conditions
}

// trim makes of a work what caches have of it.
func trim(work *workv1.ManifestWork) {
	work.ManagedFields = nil
	work.Status = workv1.ManifestWorkStatus{Conditions: Keep(work)}
	work.Spec = workv1.ManifestWorkSpec{}
}

// state is a set with all that is kept about it.
type state struct {
	object  *workv1alpha1.ManifestWorkReplicaSet // nil: there are only works that say they are of this set
	content string                               // of the template
	ruled   bool

	works    map[string]*record // by namespace/name
	troubled bool               // works could not be written, and it was logged; only for the one worker that has the set
	gone     map[types.UID]bool // works that went while others were written, whose writes may be answered later; else nil
}

// record is a work as it was last seen or written.
type record struct {
	*workv1.ManifestWork // as caches have it: without content
	content              string
	placement            string // value of its label

	judged rollout.Status // by its conditions, if it is judged as it is
	by     criteria

	last moment // that it was last found in
	at   time.Time
}

// criteria are what a work is judged by, besides its conditions.
type criteria struct {
	known          bool // the work was judged
	current, ruled bool
}

// moment is a state of a work with some content.
type moment struct {
	generation int64
	state      rollout.State
}

// take takes over the newest state of the set. It tells whether that was news.
func (s *state) take(set *workv1alpha1.ManifestWorkReplicaSet) bool {
	if s.object != nil && s.object.UID == set.UID && !reconcile.Newer(set.ResourceVersion, s.object.ResourceVersion) {
		return false
	}
	if s.object == nil || s.object.UID != set.UID || s.object.Generation != set.Generation {
		s.content, s.ruled = replicas.Content(&set.Spec.ManifestWorkTemplate), replicas.Ruled(&set.Spec.ManifestWorkTemplate)
	}
	s.object = set
	return true
}

func keyOf(work *workv1.ManifestWork) string { return work.Namespace + "/" + work.Name }

// see takes over a work, unless a newer one was seen. It tells whether that was news: most of what agents write is not.
func (s *state) see(work *workv1.ManifestWork) bool {
	key := keyOf(work)
	before := s.works[key]
	after := &record{ManifestWork: work, content: work.Annotations[contentAnnotation], placement: work.Labels[replicas.PlacementLabel]}
	if before != nil && before.UID == work.UID {
		if !reconcile.Newer(work.ResourceVersion, before.ResourceVersion) {
			return false
		}
		after.last, after.at = before.last, before.at
	}
	s.works[key] = after
	return before == nil || !before.as(after)
}

// as tells whether two states of works are the same in all that is looked at.
func (r *record) as(other *record) bool {
	if r.UID != other.UID || r.Generation != other.Generation || r.content != other.content || r.deleting() != other.deleting() || !maps.Equal(r.Labels, other.Labels) {
		return false
	}
	for _, key := range []string{replicas.WrittenAnnotation, replicas.IntendedAnnotation, replicas.LabelsAnnotation} {
		if r.Annotations[key] != other.Annotations[key] {
			return false
		}
	}
	for _, kind := range kept {
		a, b := meta.FindStatusCondition(r.Status.Conditions, kind), meta.FindStatusCondition(other.Status.Conditions, kind)
		if (a == nil) != (b == nil) {
			return false
		}
		if a != nil && (a.Status != b.Status || a.ObservedGeneration != b.ObservedGeneration || !a.LastTransitionTime.Equal(&b.LastTransitionTime)) {
			return false
		}
	}
	return true
}

// unsee forgets a work that is gone, or that is of the set no more in the state that is given. It does not if another one has
// its name by now, or a newer state is known of one that is not gone. It tells whether that was news.
func (s *state) unsee(work *workv1.ManifestWork, gone bool) bool {
	if gone && s.gone != nil {
		s.gone[work.UID] = true
	}
	key := keyOf(work)
	known := s.works[key]
	if known == nil || known.UID != work.UID || !gone && reconcile.Newer(known.ResourceVersion, work.ResourceVersion) {
		return false
	}
	delete(s.works, key)
	return true
}

// leaves takes notice that a work is being deleted, before an event tells of it.
func (s *state) leaves(r *record, now time.Time) {
	key := keyOf(r.ManifestWork)
	if known := s.works[key]; known == nil || known.UID != r.UID || known.deleting() {
		return
	}
	work := *r.ManifestWork // shared with the cache
	work.DeletionTimestamp = &metav1.Time{Time: now}
	leaving := *r
	leaving.ManifestWork, leaving.by = &work, criteria{}
	s.works[key] = &leaving
}

// wrote takes over a work as the API server returned it.
func (s *state) wrote(work *workv1.ManifestWork) {
	if s.gone[work.UID] {
		return
	}
	trim(work)
	s.see(work)
}

// current tells whether a work has the content of the template.
func (s *state) current(r *record) bool {
	return replicas.HasContent(r, r.content, s.content)
}

func (r *record) deleting() bool { return r.DeletionTimestamp != nil }

// status is how far a work is with the content of its set, and since when. A change that comes about while this process
// watches counts from now: conditions that stay as they were keep the time of former content. Of what was there before, only
// the conditions tell.
func (r *record) status(current, ruled bool, now time.Time) rollout.Status {
	if by := (criteria{true, current, ruled}); r.by != by {
		r.judged, r.by = replicas.Judge(r.ManifestWork, current, ruled), by
	}
	judged := r.judged
	is := moment{r.Generation, judged.State}
	switch {
	case r.last == is:
		judged.Since = r.at
	case r.last.generation != 0:
		judged.Since = now
	}
	r.last, r.at = is, judged.Since
	return judged
}

// byPlacement are all works by the value of their placement's label.
func (s *state) byPlacement() map[string][]*record {
	all := map[string][]*record{}
	for _, r := range s.works {
		all[r.placement] = append(all[r.placement], r)
	}
	return all
}

// clusters are those that have works, in the order of names.
func (s *state) clusters() []string {
	var all []string
	for _, r := range s.works {
		all = append(all, r.Namespace)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
