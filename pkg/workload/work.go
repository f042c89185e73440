package workload

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"
)

// Options say how works treat what they hold. What they leave out is left to whoever has set it on the work.
type Options struct {
	Strategy workv1.UpdateStrategyType // of every object; agents' own choice, Update, if empty
	Orphan   bool                      // objects stay on the cluster when the work goes
	Feedback bool                      // report the well-known status of the kinds that have one
}

// CheckStrategy tells whether there is such a strategy.
func CheckStrategy(name string) error {
	known := []workv1.UpdateStrategyType{workv1.UpdateStrategyTypeUpdate, workv1.UpdateStrategyTypeCreateOnly,
		workv1.UpdateStrategyTypeServerSideApply, workv1.UpdateStrategyTypeReadOnly}
	if name != "" && !slices.Contains(known, workv1.UpdateStrategyType(name)) {
		return fmt.Errorf("strategy %q is unknown; there are %v", name, known)
	}
	return nil
}

// wellKnown are the kinds of which agents know what of their status matters, with their resources (spec 4.6).
func wellKnown() []struct{ group, kind, resource string } {
	return []struct{ group, kind, resource string }{
		{"apps", "Deployment", "deployments"}, {"apps", "DaemonSet", "daemonsets"}, {"batch", "Job", "jobs"}, {"", "Pod", "pods"},
	}
}

// configs are the entries of a work that say what the options ask for. Agents take each field from the first entry that
// matches an object and has it.
func (o Options) configs(objects []Object) []workv1.ManifestConfigOption {
	var all []workv1.ManifestConfigOption
	if o.Strategy != "" {
		all = append(all, workv1.ManifestConfigOption{
			ResourceIdentifier: workv1.ResourceIdentifier{Group: "*", Resource: "*", Namespace: "*", Name: "*"},
			UpdateStrategy:     &workv1.UpdateStrategy{Type: o.Strategy},
		})
	}
	if !o.Feedback {
		return all
	}
	for _, known := range wellKnown() {
		if slices.ContainsFunc(objects, func(o Object) bool { return o.Group == known.group && o.Kind == known.kind }) {
			all = append(all, workv1.ManifestConfigOption{
				ResourceIdentifier: workv1.ResourceIdentifier{Group: known.group, Resource: known.resource, Namespace: "*", Name: "*"},
				FeedbackRules:      []workv1.FeedbackRule{{Type: workv1.WellKnownStatusType}},
				FeedbackScrapeType: workv1.FeedbackWatchType, // who asks by a command looks at the answer soon after
			})
		}
	}
	return all
}

// newWork is a part of a set as it is to be declared: with what this program decides and nothing else.
func newWork(cluster, set string, number int, objects []Object, options Options) *workv1.ManifestWork {
	work := &workv1.ManifestWork{
		TypeMeta: metav1.TypeMeta{APIVersion: workv1.GroupVersion.String(), Kind: "ManifestWork"},
		ObjectMeta: metav1.ObjectMeta{
			Name: partName(set, number), Namespace: cluster, Labels: map[string]string{SetLabel: setValue(set)},
		},
	}
	for _, o := range objects {
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, o.Manifest())
	}
	work.Spec.ManifestConfigs = options.configs(objects)
	if options.Orphan {
		work.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
	}
	return work
}

// whole is a ManifestWork of the input for a cluster, marked as applied by this program and otherwise as it was written.
func whole(o Object, cluster string) (*unstructured.Unstructured, error) {
	work := &unstructured.Unstructured{}
	if err := work.UnmarshalJSON(o.Raw); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Place, err)
	}
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "finalizers"} {
		unstructured.RemoveNestedField(work.Object, "metadata", field) // of a work that was read from a hub
	}
	unstructured.RemoveNestedField(work.Object, "status")
	work.SetNamespace(cluster)
	labels := work.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[SetLabel] = setValue(o.Name)
	work.SetLabels(labels)
	return work, nil
}

// IsWork tells whether an object is a ManifestWork, which is applied as it is rather than put into one.
func (o Object) IsWork() bool { return o.Group == workv1.GroupName && o.Kind == "ManifestWork" }

// declared is a work as it is sent: without the status and the empty fields that Go's types print.
func declared(work *workv1.ManifestWork) (*unstructured.Unstructured, error) {
	raw, err := json.Marshal(work)
	if err != nil {
		return nil, fmt.Errorf("work %s: %w", work.Name, err)
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("work %s: %w", work.Name, err)
	}
	unstructured.RemoveNestedField(out.Object, "status")
	unstructured.RemoveNestedField(out.Object, "metadata", "creationTimestamp")
	return out, nil
}

// objectsIn are the objects that a work holds. One that cannot be read is left out: no agent can apply it either.
func objectsIn(work *workv1.ManifestWork) []Object {
	var all []Object
	for i, m := range work.Spec.Workload.Manifests {
		if objects, err := parse(fmt.Sprintf("work %s, manifest %d", work.Name, i), m.Raw); err == nil {
			all = append(all, objects...)
		}
	}
	return all
}
