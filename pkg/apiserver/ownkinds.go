package apiserver

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
)

// ownKinds keeps the groups that the hub serves natively (D2) to itself. A definition in one of them would be stored, said
// to be established, and never serve an object. It is what upstream's installer, clusteradm init, applies first; refused
// here, it leaves nothing behind and its user reads how to go on.
type ownKinds struct{ groups sets.Set[string] }

// Initialize implements admission.PluginInitializer.
func (k ownKinds) Initialize(plugin admission.Interface) {
	if r, ok := plugin.(*rules); ok {
		r.own = k
	}
}

func (k ownKinds) validate(a admission.Attributes, crd *apiextensions.CustomResourceDefinition) error {
	if a.GetOperation() != admission.Create || !k.groups.Has(crd.Spec.Group) {
		return nil
	}
	return apierrors.NewForbidden(a.GetResource().GroupResource(), crd.Name, fmt.Errorf(
		"the kinds of group %s are part of this hub and cannot be defined again; "+
			"a hub is initialized when it starts and needs no clusteradm init: go on with clusteradm get token, or nave token create", crd.Spec.Group))
}
