package replicaset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/replicas"
)

// maxNames is how many bytes the names of a set's labels may have together. All annotations of an object may have 256 KiB, and
// others need some of them.
const maxNames = 64 << 10

// marks are the labels of the works of a set and a placement: those of the set, and upstream's two. Others may put labels on
// works, too, so the names of these are noted on the work. A mark is, too, that the generation which a work was to have with
// its content is not still to come: a policy may have kept all as it was.
type marks struct {
	labels map[string]string
	names  string
}

func marksOf(set *workv1alpha1.ManifestWorkReplicaSet, placement string) *marks {
	m := &marks{labels: map[string]string{}}
	maps.Copy(m.labels, set.Labels)
	m.labels[replicas.SetLabel] = replicas.SetValue(set.Namespace, set.Name)
	m.labels[replicas.PlacementLabel] = replicas.PlacementValue(placement)
	m.names = strings.Join(slices.Sorted(maps.Keys(m.labels)), ",")
	return m
}

// check says what is wrong with the labels, if anything is.
func (m *marks) check() error {
	if len(m.names) > maxNames {
		return fmt.Errorf("the names of the labels of the set have %d bytes, but works can note only %d: give it fewer labels", len(m.names), maxNames)
	}
	return nil
}

// on tells whether a work has the labels, none that its set had before, and no generation that is still to come.
func (m *marks) on(r *record) bool {
	for key, value := range m.labels {
		if have, ok := r.Labels[key]; !ok || have != value {
			return false
		}
	}
	_, generation := replicas.IntendedOf(r)
	return generation <= r.Generation && r.Annotations[replicas.LabelsAnnotation] == m.names
}

// of tells whether a work is of the set.
func (m *marks) of(work *workv1.ManifestWork) bool {
	return work.Labels[replicas.SetLabel] == m.labels[replicas.SetLabel]
}

// put gives a work the labels, and takes those away that its set had before.
func (m *marks) put(work *workv1.ManifestWork) {
	for key := range strings.SplitSeq(work.Annotations[replicas.LabelsAnnotation], ",") {
		delete(work.Labels, key)
	}
	if work.Labels == nil {
		work.Labels = map[string]string{}
	}
	maps.Copy(work.Labels, m.labels)
	metav1.SetMetaDataAnnotation(&work.ObjectMeta, replicas.LabelsAnnotation, m.names)
	if content, generation := replicas.IntendedOf(work); generation > work.Generation {
		replicas.Intend(work, content, work.Generation)
	}
}
