package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// State is where a manifest stands.
type State string

// The states of a manifest. Each is about the work as it is now: what an agent said of an earlier generation is pending.
const (
	Pending  State = "pending"  // the agent has not said anything yet
	Failed   State = "failed"   // it could not be applied
	Applied  State = "applied"  // it is on the cluster as it is wanted
	Complete State = "complete" // it has finished, and is left alone from then on
)

// ManifestStatus is what is known of one manifest of a work.
type ManifestStatus struct {
	Work      string `json:"work"`
	Ordinal   int    `json:"ordinal"` // place in the work
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`

	State     State    `json:"state"`
	Available string   `json:"available"`          // True, False or Unknown; empty while nobody knows
	Feedback  []string `json:"feedback,omitempty"` // values that the work asks for, as name=value
	Message   string   `json:"message,omitempty"`  // what is wrong, if anything is
}

// String names the manifest for people.
func (m ManifestStatus) String() string { return named(m.Kind, m.Namespace, m.Name) }

// well tells whether there is nothing left to wait for.
func (m ManifestStatus) well() bool {
	return m.State == Complete || m.State == Applied && m.Available == string(metav1.ConditionTrue)
}

// trouble says what keeps a manifest from being well.
func (m ManifestStatus) trouble() string {
	text := fmt.Sprintf("%s is %s", m, m.State)
	if m.State == Applied {
		text = fmt.Sprintf("%s is applied and not available", m)
	}
	if m.Message != "" {
		text += ": " + m.Message
	}
	return text
}

// States are the manifests of a work with what its agent says of them.
func States(work *workv1.ManifestWork) []ManifestStatus {
	var all []ManifestStatus
	for ordinal, manifest := range work.Spec.Workload.Manifests {
		m := ManifestStatus{Work: work.Name, Ordinal: ordinal, State: Pending, Kind: "manifest", Name: strconv.Itoa(ordinal)}
		objects, err := parse(fmt.Sprintf("manifest %d", ordinal), manifest.Raw)
		if err != nil || len(objects) != 1 {
			m.State, m.Message = Failed, "it is no object of Kubernetes"
			all = append(all, m)
			continue
		}
		o := objects[0]
		m.Group, m.Kind, m.Namespace, m.Name = o.Group, o.Kind, o.namespace(), o.Name
		if said := statusOf(work, ordinal, o); said != nil {
			m.read(work.Generation, said)
		}
		all = append(all, m)
	}
	return all
}

// statusOf finds what was said of an object, which may stand at another place if it was said of an earlier generation.
func statusOf(work *workv1.ManifestWork, ordinal int, o Object) *workv1.ManifestCondition {
	said := work.Status.ResourceStatus.Manifests
	is := func(c workv1.ManifestCondition) bool {
		r := c.ResourceMeta
		return r.Group == o.Group && r.Kind == o.Kind && r.Name == o.Name && (r.Namespace == o.Namespace || r.Namespace == o.namespace() || r.Namespace == "")
	}
	if i := slices.IndexFunc(said, func(c workv1.ManifestCondition) bool { return int(c.ResourceMeta.Ordinal) == ordinal && is(c) }); i >= 0 {
		return &said[i]
	}
	if i := slices.IndexFunc(said, is); i >= 0 {
		return &said[i]
	}
	return nil
}

func (m *ManifestStatus) read(generation int64, said *workv1.ManifestCondition) {
	current := func(kind string) *metav1.Condition {
		if c := meta.FindStatusCondition(said.Conditions, kind); c != nil && c.ObservedGeneration >= generation {
			return c
		}
		return nil
	}
	applied, available := current(workv1.ManifestApplied), current(workv1.ManifestAvailable)
	if available != nil {
		m.Available = string(available.Status)
	}
	switch {
	case applied == nil:
	case applied.Status == metav1.ConditionTrue:
		m.State = Applied
	case applied.Status == metav1.ConditionFalse:
		m.State, m.Message = Failed, applied.Message
	}
	if done := current(workv1.ManifestComplete); done != nil && done.Status == metav1.ConditionTrue {
		m.State = Complete
	}
	if m.State == Applied && available != nil && available.Status != metav1.ConditionTrue {
		m.Message = available.Message
	}
	// What is fed back has no generation of its own.
	if synced := meta.FindStatusCondition(said.Conditions, "StatusFeedbackSynced"); m.Message == "" && synced != nil && synced.Status == metav1.ConditionFalse {
		m.Message = synced.Message
	}
	for _, v := range said.StatusFeedbacks.Values {
		m.Feedback = append(m.Feedback, v.Name+"="+value(v.Value))
	}
}

// value is what was fed back, as text.
func value(v workv1.FieldValue) string {
	switch {
	case v.Integer != nil:
		return strconv.FormatInt(*v.Integer, 10)
	case v.Boolean != nil:
		return strconv.FormatBool(*v.Boolean)
	case v.String != nil:
		return *v.String
	case v.JsonRaw != nil:
		return *v.JsonRaw
	}
	return ""
}

// Condition is the status of a work's condition as far as it is about the work as it is now, or "-".
func Condition(work *workv1.ManifestWork, kind string) string {
	c := meta.FindStatusCondition(work.Status.Conditions, kind)
	if c == nil || c.ObservedGeneration < work.Generation {
		return "-"
	}
	return string(c.Status)
}

// Deleting is what a work that is being deleted waits for.
func Deleting(work *workv1.ManifestWork) string {
	if c := meta.FindStatusCondition(work.Status.Conditions, workv1.WorkDeleting); c != nil && c.Message != "" {
		return c.Message
	}
	if len(work.Finalizers) > 0 {
		return "its agent has not said anything yet; it is held by " + strings.Join(work.Finalizers, ", ")
	}
	return "the hub has not removed it yet"
}

// settled tells whether a work and all its manifests are applied and available.
func settled(work *workv1.ManifestWork) bool {
	if Condition(work, workv1.WorkComplete) == string(metav1.ConditionTrue) {
		return true
	}
	for _, kind := range []string{workv1.WorkApplied, workv1.WorkAvailable} {
		if Condition(work, kind) != string(metav1.ConditionTrue) {
			return false
		}
	}
	return !slices.ContainsFunc(States(work), func(m ManifestStatus) bool { return !m.well() })
}
