package replicas

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OnePerCluster divides the works of one placement of a set: one for each cluster, by which the rollout goes, and those that
// there are besides, which are to be deleted. Of two for one cluster the older one stays, unless it is going.
func OnePerCluster[W metav1.Object](works []W) (one map[string]W, surplus []W) {
	one = make(map[string]W, len(works))
	for _, work := range works {
		cluster := work.GetNamespace()
		other, taken := one[cluster]
		if taken && !goesFirst(work, other) {
			work, other = other, work
		}
		one[cluster] = work
		if taken && other.GetDeletionTimestamp() == nil {
			surplus = append(surplus, other)
		}
	}
	return one, surplus
}

func goesFirst(work, other metav1.Object) bool {
	if going := work.GetDeletionTimestamp() != nil; going != (other.GetDeletionTimestamp() != nil) {
		return !going
	}
	made, before := work.GetCreationTimestamp(), other.GetCreationTimestamp()
	return cmp.Or(made.Compare(before.Time), cmp.Compare(work.GetName(), other.GetName())) < 0
}
