package api

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"
	"sigs.k8s.io/yaml"
)

// through decodes a text as the API server does, and encodes it in the wanted version as it answers.
func through(t *testing.T, a *API, text, version string) *unstructured.Unstructured {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	gv, err := runtimeschema.ParseGroupVersion(version)
	require.NoError(t, err)
	internal := runtimeschema.GroupVersion{Group: gv.Group, Version: runtime.APIVersionInternal}
	serializer, _ := runtime.SerializerInfoForMediaType(a.codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	object, _, err := a.codecs.DecoderToVersion(serializer.Serializer, internal).Decode(body, nil, nil)
	require.NoError(t, err)
	out, err := runtime.Encode(a.codecs.EncoderForVersion(serializer.Serializer, gv), object)
	require.NoError(t, err)
	answer := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal(out, &answer.Object))
	return answer
}

func TestDefaultsAndConversion(t *testing.T) {
	a, err := New()
	require.NoError(t, err)
	for _, test := range []struct {
		name, object, version string
		path                  []string
		want                  any // nil where the field must be absent
	}{
		{"lease duration", `{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: c}, spec: {}}`,
			"cluster.open-cluster-management.io/v1", []string{"spec", "leaseDurationSeconds"}, 60.0},
		{"lease duration of 0", `{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: c}, spec: {leaseDurationSeconds: 0}}`,
			"cluster.open-cluster-management.io/v1", []string{"spec", "leaseDurationSeconds"}, 60.0},
		{"selector type of a set without spec", `{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSet, metadata: {name: s}}`,
			"cluster.open-cluster-management.io/v1beta2", []string{"spec", "clusterSelector", "selectorType"}, "ExclusiveClusterSetLabel"},
		{"mode of a placement", `{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, metadata: {name: p}, spec: {}}`,
			"cluster.open-cluster-management.io/v1beta1", []string{"spec", "prioritizerPolicy", "mode"}, "Additive"},
		{"weight of a prioritizer", `{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, metadata: {name: p}, spec: {prioritizerPolicy: {configurations: [{}]}}}`,
			"cluster.open-cluster-management.io/v1beta1", []string{"spec", "prioritizerPolicy", "configurations", "0", "weight"}, 1.0},
		{"weight of 0 stays", `{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, metadata: {name: p}, spec: {prioritizerPolicy: {configurations: [{weight: 0}]}}}`,
			"cluster.open-cluster-management.io/v1beta1", []string{"spec", "prioritizerPolicy", "configurations", "0", "weight"}, 0.0},
		{"update strategy", `{apiVersion: work.open-cluster-management.io/v1, kind: ManifestWork, metadata: {name: w}, spec: {workload: {}, manifestConfigs: [{resourceIdentifier: {resource: r, name: x}, updateStrategy: {serverSideApply: {ignoreFields: [{jsonPaths: [.a]}]}}}]}}`,
			"work.open-cluster-management.io/v1", []string{"spec", "manifestConfigs", "0", "updateStrategy", "type"}, "Update"},
		{"field manager", `{apiVersion: work.open-cluster-management.io/v1, kind: ManifestWork, metadata: {name: w}, spec: {workload: {}, manifestConfigs: [{resourceIdentifier: {resource: r, name: x}, updateStrategy: {serverSideApply: {}}}]}}`,
			"work.open-cluster-management.io/v1", []string{"spec", "manifestConfigs", "0", "updateStrategy", "serverSideApply", "fieldManager"}, "work-agent"},
		{"propagation only where there is an option", `{apiVersion: work.open-cluster-management.io/v1, kind: ManifestWork, metadata: {name: w}, spec: {workload: {}}}`,
			"work.open-cluster-management.io/v1", []string{"spec", "deleteOption"}, nil},
		{"install namespace in v1beta1 is an annotation", `{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: ManagedClusterAddOn, metadata: {name: a}, spec: {installNamespace: here}}`,
			"addon.open-cluster-management.io/v1beta1", []string{"metadata", "annotations", "addon.open-cluster-management.io/v1alpha1-install-namespace"}, "here"},
		{"the annotation in v1alpha1 is the field", `{apiVersion: addon.open-cluster-management.io/v1beta1, kind: ManagedClusterAddOn, metadata: {name: a, annotations: {addon.open-cluster-management.io/v1alpha1-install-namespace: here}}}`,
			"addon.open-cluster-management.io/v1alpha1", []string{"spec", "installNamespace"}, "here"},
		{"and no annotation", `{apiVersion: addon.open-cluster-management.io/v1beta1, kind: ManagedClusterAddOn, metadata: {name: a, annotations: {addon.open-cluster-management.io/v1alpha1-install-namespace: here}}}`,
			"addon.open-cluster-management.io/v1alpha1", []string{"metadata", "annotations"}, nil},
		{"driver of a registration", `{apiVersion: addon.open-cluster-management.io/v1beta1, kind: ManagedClusterAddOn, metadata: {name: a}, status: {registrations: [{type: kubeClient, kubeClient: {driver: token, subject: {user: u, groups: [g]}}}]}}`,
			"addon.open-cluster-management.io/v1alpha1", []string{"status", "kubeClientDriver"}, "token"},
		{"signer of a registration", `{apiVersion: addon.open-cluster-management.io/v1beta1, kind: ManagedClusterAddOn, metadata: {name: a}, status: {registrations: [{type: kubeClient, kubeClient: {subject: {user: u, groups: [g]}}}]}}`,
			"addon.open-cluster-management.io/v1alpha1", []string{"status", "registrations", "0", "signerName"}, "kubernetes.io/kube-apiserver-client"},
		{"configuration without a default", `{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: ClusterManagementAddOn, metadata: {name: a}, spec: {supportedConfigs: [{group: g, resource: r}]}}`,
			"addon.open-cluster-management.io/v1beta1", []string{"spec", "defaultConfigs", "0", "name"}, "__reserved_no_default__"},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, at(through(t, a, test.object, test.version).Object, test.path))
		})
	}
}

// at follows a path of keys and, through lists, of indices below ten.
func at(value any, path []string) any {
	for _, element := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[element]
		case []any:
			value = v[element[0]-'0']
		default:
			return nil
		}
	}
	return value
}

func TestCompression(t *testing.T) {
	c, err := NewCompression()
	require.NoError(t, err)
	works := c.TransformerForResource(runtimeschema.GroupResource{Group: "work.open-cluster-management.io", Resource: "manifestworks"})
	text := []byte(`{"kind":"ManifestWork","spec":"` + string(make([]byte, 4096)) + `"}`)
	ctx := context.Background()

	packed, err := works.TransformToStorage(ctx, text, value.DefaultContext("key"))
	require.NoError(t, err)
	require.Less(t, len(packed), len(text)/4)
	out, stale, err := works.TransformFromStorage(ctx, packed, value.DefaultContext("key"))
	require.NoError(t, err)
	require.False(t, stale)
	require.Equal(t, text, out)

	out, stale, err = works.TransformFromStorage(ctx, text, value.DefaultContext("key"))
	require.NoError(t, err, "a value from before compression is read")
	require.True(t, stale, "and written compressed the next time")
	require.Equal(t, text, out)

	_, _, err = works.TransformFromStorage(ctx, packed[:len(packed)-3], value.DefaultContext("key"))
	require.Error(t, err)

	others := c.TransformerForResource(runtimeschema.GroupResource{Resource: "secrets"})
	same, err := others.TransformToStorage(ctx, text, value.DefaultContext("key"))
	require.NoError(t, err)
	require.Equal(t, text, same)
}
