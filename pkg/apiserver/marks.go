package apiserver

import (
	"k8s.io/apiserver/pkg/admission"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/identity"
)

// markCluster records on a new cluster who made it, and with which join token, and keeps everyone from writing such a
// record otherwise: acceptance without a person depends on it (spec 10.1, S5).
func markCluster(a admission.Attributes, mc, old *clusterv1.ManagedCluster) {
	marks := map[string]string{JoinedWithAnnotation: "", identity.CreatedByAnnotation: ""}
	for name := range marks {
		if old != nil {
			marks[name] = old.Annotations[name]
		}
	}
	if old == nil {
		marks[identity.CreatedByAnnotation] = a.GetUserInfo().GetName()
		if id, ok := joinToken(a); ok {
			marks[JoinedWithAnnotation] = id
		}
	}
	for name, mark := range marks {
		if mark == "" {
			delete(mc.Annotations, name)
			continue
		}
		if mc.Annotations == nil {
			mc.Annotations = map[string]string{}
		}
		mc.Annotations[name] = mark
	}
}
