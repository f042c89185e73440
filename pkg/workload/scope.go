package workload

import "slices"

// kinds of Kubernetes that have no namespace, by group. Of a custom resource only its definition tells.
func builtinClusterScoped(group string) []string {
	switch group {
	case "":
		return []string{"Namespace", "Node", "PersistentVolume"}
	case "rbac.authorization.k8s.io":
		return []string{"ClusterRole", "ClusterRoleBinding"}
	case "apiextensions.k8s.io":
		return []string{"CustomResourceDefinition"}
	case "apiregistration.k8s.io":
		return []string{"APIService"}
	case "admissionregistration.k8s.io":
		return []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
			"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}
	case "storage.k8s.io":
		return []string{"StorageClass", "CSIDriver", "CSINode", "VolumeAttachment", "VolumeAttributesClass"}
	case "scheduling.k8s.io":
		return []string{"PriorityClass"}
	case "node.k8s.io":
		return []string{"RuntimeClass"}
	case "networking.k8s.io":
		return []string{"IngressClass", "IPAddress", "ServiceCIDR"}
	case "certificates.k8s.io":
		return []string{"CertificateSigningRequest", "ClusterTrustBundle"}
	case "flowcontrol.apiserver.k8s.io":
		return []string{"FlowSchema", "PriorityLevelConfiguration"}
	case "resource.k8s.io":
		return []string{"DeviceClass", "ResourceSlice", "DeviceTaintRule"}
	}
	return nil
}

func clusterScoped(group, kind string) bool {
	return slices.Contains(builtinClusterScoped(group), kind)
}

// WithNamespace puts objects that name no namespace into one. Kinds without namespaces are left alone, as far as they are
// Kubernetes' own or their definition is among the objects; of any other kind agents drop it on the cluster.
func WithNamespace(objects []Object, namespace string) error {
	unscoped := map[ID]bool{}
	for _, o := range objects {
		if spec, ok := o.Content["spec"].(map[string]any); ok && o.Kind == "CustomResourceDefinition" && text(spec, "scope") == "Cluster" {
			names, _ := spec["names"].(map[string]any)
			unscoped[ID{Group: text(spec, "group"), Kind: text(names, "kind")}] = true
		}
	}
	for i := range objects {
		o := &objects[i]
		if o.namespace() != "" || clusterScoped(o.Group, o.Kind) || unscoped[ID{Group: o.Group, Kind: o.Kind}] {
			continue
		}
		o.Content["metadata"].(map[string]any)["namespace"] = namespace
		if err := o.settle(); err != nil {
			return err
		}
	}
	return checkTwice(objects)
}

// fundament tells whether other objects need this one to exist first.
func (o Object) fundament() bool {
	return o.Kind == "Namespace" && o.Group == "" || o.Kind == "CustomResourceDefinition" && o.Group == "apiextensions.k8s.io"
}
