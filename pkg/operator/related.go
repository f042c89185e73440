package operator

import (
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"
)

// Deployment is a related resource by the name that a part of ours has upstream, where it is a deployment. There is none:
// the part runs in this process. But clusteradm looks each part up by what is related, and gives up at the first one that is
// not, while it passes over one that cannot be found.
func Deployment(namespace, name string) operatorv1.RelatedResourceMeta {
	return operatorv1.RelatedResourceMeta{Group: appsv1.GroupName, Version: "v1", Resource: "deployments", Namespace: namespace, Name: name}
}

// Definition is a related resource that is a CustomResourceDefinition.
func Definition(name string) operatorv1.RelatedResourceMeta {
	return operatorv1.RelatedResourceMeta{Group: apiextensionsv1.GroupName, Version: "v1", Resource: "customresourcedefinitions", Name: name}
}
