package agent

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	operatorv1 "open-cluster-management.io/api/operator/v1"

	"nave/manifests"
	"nave/pkg/log"
	"nave/pkg/operator"
)

// installDefinitions makes the managed cluster serve the kinds that the agent needs there, and returns their names. An agent
// that may not do that goes on with the kinds that are served already; only a Klusterlet it can do without.
func (a *Agent) installDefinitions(ctx context.Context) ([]string, error) {
	client, err := apiextensions.NewForConfig(a.spoke)
	if err != nil {
		return nil, fmt.Errorf("client of the managed cluster: %w", err)
	}
	definitions, err := operator.Definitions(manifests.SpokeCRDs, "spoke/*.yaml")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, crd := range definitions {
		err := operator.Install(ctx, client, crd)
		switch {
		case apierrors.IsForbidden(err) && (crd.Spec.Group == operatorv1.GroupName || a.serves(crd)):
			a.config.Log.WithField(log.FieldComponent, "definitions").WithError(err).Warn("the agent may not install a definition on its cluster and goes on with what is there")
		case err != nil:
			return nil, fmt.Errorf("managed cluster: %w", err)
		default:
			names = append(names, crd.Name)
		}
	}
	return names, nil
}

// serves tells whether the cluster serves a kind that the agent may not look at the definition of.
func (a *Agent) serves(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, version := range crd.Spec.Versions {
		list, err := a.kube.Discovery().ServerResourcesForGroupVersion(crd.Spec.Group + "/" + version.Name)
		if err != nil {
			continue
		}
		for _, resource := range list.APIResources {
			if resource.Name == crd.Spec.Names.Plural {
				return true
			}
		}
	}
	return false
}
