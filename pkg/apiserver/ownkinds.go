package apiserver

import (
	"errors"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	operatorv1 "open-cluster-management.io/api/operator/v1"
)

const (
	// clusterManagers is the kind that the hub defines in itself, and clusterManager its one object (spec 7.1).
	clusterManagers = "clustermanagers"
	clusterManager  = "cluster-manager"
)

// ownKinds keeps the groups that the hub serves natively (D2) to itself, and the definition of ClusterManager. A definition
// in one of the groups would be stored, said to be established, and never serve an object. It is what upstream's installer,
// clusteradm init, applies first; refused here, it leaves nothing behind and its user reads how to go on.
type ownKinds struct{ groups sets.Set[string] }

// Initialize implements admission.PluginInitializer.
func (k ownKinds) Initialize(plugin admission.Interface) {
	if r, ok := plugin.(*rules); ok {
		r.own = k
	}
}

func (k ownKinds) validate(a admission.Attributes, crd *apiextensions.CustomResourceDefinition) error {
	native := k.groups.Has(crd.Spec.Group) && a.GetOperation() == admission.Create
	hubs := crd.Spec.Group == operatorv1.GroupName && crd.Spec.Names.Plural == clusterManagers && !byHub(a)
	if !native && !hubs {
		return nil
	}
	return apierrors.NewForbidden(a.GetResource().GroupResource(), crd.Name, fmt.Errorf(
		"the kinds of group %s are part of this hub and cannot be defined again; "+
			"a hub is initialized when it starts and needs no clusteradm init: go on with clusteradm get token, or nave token create", crd.Spec.Group))
}

// validateManager keeps the hub's one ClusterManager. Upstream's operator removes the hub when its object is deleted, and
// makes one hub more for every further object; this hub is the process that serves the object.
func validateManager(a admission.Attributes) error {
	resource := a.GetResource()
	switch {
	case byHub(a):
		return nil
	case resource.Group == "apiextensions.k8s.io" && a.GetName() == clusterManagers+"."+operatorv1.GroupName && a.GetOperation() == admission.Delete,
		resource.Group == operatorv1.GroupName && resource.Resource == clusterManagers && a.GetOperation() == admission.Delete:
		return apierrors.NewForbidden(resource.GroupResource(), a.GetName(), errors.New(
			"the hub that serves this object is a process and ends with it: stop nave hub, and remove its data directory to forget everything; nothing was changed"))
	case resource.Group == operatorv1.GroupName && resource.Resource == clusterManagers && a.GetOperation() == admission.Create && a.GetName() != clusterManager:
		return apierrors.NewForbidden(resource.GroupResource(), a.GetName(), fmt.Errorf(
			"a hub has one ClusterManager, %s, and it is there already; start nave hub with another data directory for another hub", clusterManager))
	}
	return nil
}

// byHub tells whether a request is the hub's own.
func byHub(a admission.Attributes) bool { return a.GetUserInfo().GetName() == user.APIServerUser }
