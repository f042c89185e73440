package apiserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"nave/pkg/apiserver"
	"nave/pkg/pki"
	"nave/pkg/store"
)

// patience is how long a step may take on a slow machine before a test gives up on it.
const patience = 2 * time.Minute

// server is one real API server on a real store, which the tests of this package share: each works on objects of its own
// names.
type server struct {
	config *rest.Config
	audit  string // file of the audit log
	store  *store.Store
}

var shared = sync.OnceValues(startServer)

func startServer() (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	dir, err := os.MkdirTemp("", "nave-apiserver-test-")
	if err != nil {
		return nil, err
	}
	c, err := serverConfig(dir)
	if err != nil {
		return nil, err
	}
	database, err := store.New(store.Config{Dir: filepath.Join(dir, "etcd"), Log: c.Log, Zap: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	if err := database.Start(ctx); err != nil {
		return nil, err
	}
	c.Endpoint = database.Endpoint()
	s, err := apiserver.New(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	cleanUp = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			return err
		}
		if err := database.Stop(ctx); err != nil {
			return err
		}
		return os.RemoveAll(dir)
	}
	config := s.Loopback()
	config.QPS = -1
	return &server{config: config, audit: c.AuditFile, store: database}, nil
}

// cleanUp ends the shared server; it is set once the server runs.
var cleanUp = func() error { return nil }

func TestMain(m *testing.M) {
	code := m.Run()
	if err := cleanUp(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the server of the tests:", err)
		code = 1
	}
	os.Exit(code)
}

func serverConfig(dir string) (apiserver.Config, error) {
	log := logrus.New()
	log.SetLevel(logrus.WarnLevel)
	c := apiserver.Config{
		AdvertiseHost:         "127.0.0.1",
		ServerCertFile:        filepath.Join(dir, "server.pem"),
		ClientCAFile:          filepath.Join(dir, "client-ca.crt"),
		ServiceAccountKeyFile: filepath.Join(dir, "sa.key"),
		EncryptionFile:        filepath.Join(dir, "encryption.yaml"),
		AuditFile:             filepath.Join(dir, "audit.log"),
		CABundle:              func() []byte { return nil },
		Clock:                 clock.RealClock{},
		Log:                   log,
	}
	ca, err := pki.LoadAuthority(filepath.Join(dir, "ca.pem"), "test-ca", time.Now())
	if err != nil {
		return c, err
	}
	if _, err := ca.LoadLeaf(c.ServerCertFile, pki.Leaf{CommonName: "hub", Hosts: []string{"127.0.0.1"}}, time.Now()); err != nil {
		return c, err
	}
	key, err := keyutil.MarshalPrivateKeyToPEM(ca.Key)
	if err != nil {
		return c, err
	}
	encryption := `{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [{"resources": ["secrets"],
		"providers": [{"secretbox": {"keys": [{"name": "key1", "secret": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}]}}, {"identity": {}}]}]}`
	for file, text := range map[string][]byte{c.ClientCAFile: pki.CertificatePEM(ca.Certificate), c.ServiceAccountKeyFile: key, c.EncryptionFile: []byte(encryption)} {
		if err := pki.WriteFile(file, text, 0o600); err != nil {
			return c, err
		}
	}
	c.Listener, err = net.Listen("tcp", "127.0.0.1:0")
	return c, err
}

func start(t *testing.T) (*server, dynamic.Interface, context.Context) {
	t.Helper()
	s, err := shared()
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(s.config)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return s, client, ctx
}

var (
	clusters = schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"}
	works    = schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "manifestworks"}
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	o := &unstructured.Unstructured{}
	require.NoError(t, o.UnmarshalJSON(body)) // keeps large integers
	return o
}

func cluster(t *testing.T, name string) *unstructured.Unstructured {
	return object(t, `{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: `+name+`}, spec: {}}`)
}

func TestEveryKindIsServedNatively(t *testing.T) {
	s, _, ctx := start(t)
	kube, err := kubernetes.NewForConfig(s.config)
	require.NoError(t, err)
	lists, err := kube.Discovery().ServerPreferredResources()
	require.NoError(t, err)
	found := map[string]metav1.APIResource{}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			found[list.GroupVersion+" "+resource.Name] = resource
		}
	}
	for name, short := range map[string]string{
		"cluster.open-cluster-management.io/v1 managedclusters":                "mcl,mcls",
		"cluster.open-cluster-management.io/v1beta2 managedclustersets":        "mclset,mclsets",
		"cluster.open-cluster-management.io/v1beta2 managedclustersetbindings": "mclsetbinding,mclsetbindings",
		"cluster.open-cluster-management.io/v1beta1 placements":                "",
		"cluster.open-cluster-management.io/v1beta1 placementdecisions":        "",
		"cluster.open-cluster-management.io/v1alpha1 addonplacementscores":     "",
		"work.open-cluster-management.io/v1 manifestworks":                     "",
		"work.open-cluster-management.io/v1alpha1 manifestworkreplicasets":     "mwrs",
		"addon.open-cluster-management.io/v1alpha1 clustermanagementaddons":    "cma,cmas",
		"addon.open-cluster-management.io/v1alpha1 managedclusteraddons":       "mca,mcas",
		"addon.open-cluster-management.io/v1alpha1 addondeploymentconfigs":     "",
		"addon.open-cluster-management.io/v1alpha1 addontemplates":             "",
	} {
		resource, ok := found[name]
		require.True(t, ok, name)
		require.Equal(t, short, strings.Join(resource.ShortNames, ","), name)
	}
	crds, err := kube.RESTClient().Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").DoRaw(ctx)
	require.NoError(t, err)
	require.NotContains(t, string(crds), "open-cluster-management.io")
}

func TestColumns(t *testing.T) {
	s, client, ctx := start(t)
	_, err := client.Resource(clusters).Create(ctx, cluster(t, "columns"), metav1.CreateOptions{})
	require.NoError(t, err)
	kube, err := kubernetes.NewForConfig(s.config)
	require.NoError(t, err)
	body, err := kube.RESTClient().Get().AbsPath("/apis/cluster.open-cluster-management.io/v1/managedclusters/columns").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
	require.NoError(t, err)
	table := &metav1.Table{}
	require.NoError(t, json.Unmarshal(body, table))
	var names []string
	for _, c := range table.ColumnDefinitions {
		names = append(names, c.Name)
	}
	require.Equal(t, []string{"Name", "Hub Accepted", "Managed Cluster URLs", "Joined", "Available", "Age"}, names)
	require.Equal(t, "columns", table.Rows[0].Cells[0])
	require.Equal(t, false, table.Rows[0].Cells[1])
}

func TestOpenAPI(t *testing.T) {
	s, _, ctx := start(t)
	kube, err := kubernetes.NewForConfig(s.config)
	require.NoError(t, err)
	v3, err := kube.RESTClient().Get().AbsPath("/openapi/v3/apis/work.open-cluster-management.io/v1").DoRaw(ctx)
	require.NoError(t, err)
	require.Contains(t, string(v3), "workload represents the manifest workload to be deployed on a managed cluster")
	v2, err := kube.Discovery().OpenAPISchema()
	require.NoError(t, err)
	text := fmt.Sprint(v2)
	require.Contains(t, text, "io.open-cluster-management.api.work.v1.ManifestWork")
	require.Contains(t, text, "io.open-cluster-management.api.addon.v1beta1.ManagedClusterAddOn")
}

func TestStatusIsASubresource(t *testing.T) {
	_, client, ctx := start(t)
	mc := cluster(t, "status")
	require.NoError(t, unstructured.SetNestedField(mc.Object, "v1", "status", "version", "kubernetes"))
	mc, err := client.Resource(clusters).Create(ctx, mc, metav1.CreateOptions{})
	require.NoError(t, err)
	_, found, _ := unstructured.NestedString(mc.Object, "status", "version", "kubernetes")
	require.False(t, found, "a create cannot set the status")
	require.EqualValues(t, 1, mc.GetGeneration())

	mc, err = client.Resource(clusters).Patch(ctx, "status", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"x":"y"},"finalizers":["a/b"]},"spec":{"hubAcceptsClient":true},"status":{"version":{"kubernetes":"v2"}}}`), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	require.NotContains(t, mc.GetLabels(), "x")
	require.Empty(t, mc.GetFinalizers())
	accepted, _, _ := unstructured.NestedBool(mc.Object, "spec", "hubAcceptsClient")
	require.False(t, accepted)
	version, _, _ := unstructured.NestedString(mc.Object, "status", "version", "kubernetes")
	require.Equal(t, "v2", version)
	require.EqualValues(t, 1, mc.GetGeneration())

	mc, err = client.Resource(clusters).Patch(ctx, "status", types.MergePatchType,
		[]byte(`{"spec":{"leaseDurationSeconds":30},"status":{"version":{"kubernetes":"v3"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	version, _, _ = unstructured.NestedString(mc.Object, "status", "version", "kubernetes")
	require.Equal(t, "v2", version)
	require.EqualValues(t, 2, mc.GetGeneration())

	mc, err = client.Resource(clusters).Patch(ctx, "status", types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 2, mc.GetGeneration(), "metadata does not count")
}

// TestDecisionsAreWhole: the hub's own parts write a decision with its clusters at once, and nobody else does.
func TestDecisionsAreWhole(t *testing.T) {
	s, _, ctx := start(t)
	namespace(ctx, t, s, "whole")
	administrator := rest.CopyConfig(s.config)
	administrator.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"system:masters"}}
	decisions := schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1beta1", Resource: "placementdecisions"}
	for _, test := range []struct {
		name   string
		config *rest.Config
		whole  bool
	}{
		{"hub", s.config, true}, {"administrator", administrator, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			everything, err := dynamic.NewForConfig(test.config)
			require.NoError(t, err)
			client := everything.Resource(decisions).Namespace("whole")
			decided := func(d *unstructured.Unstructured) []any {
				list, _, _ := unstructured.NestedSlice(d.Object, "status", "decisions")
				return list
			}
			with := func(cluster string) []any { return []any{map[string]any{"clusterName": cluster, "reason": ""}} }
			d, err := client.Create(ctx, object(t, `{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: PlacementDecision,
				metadata: {name: `+test.name+`, namespace: whole}, status: {decisions: [{clusterName: c1, reason: ""}]}}`), metav1.CreateOptions{})
			require.NoError(t, err)
			if test.whole {
				require.Equal(t, with("c1"), decided(d))
			} else {
				require.Empty(t, decided(d))
			}
			before := decided(d)
			require.NoError(t, unstructured.SetNestedSlice(d.Object, with("c2"), "status", "decisions"))
			d.SetLabels(map[string]string{"a": "b"})
			d, err = client.Update(ctx, d, metav1.UpdateOptions{})
			require.NoError(t, err)
			require.Equal(t, map[string]string{"a": "b"}, d.GetLabels())
			if test.whole {
				require.Equal(t, with("c2"), decided(d))
			} else {
				require.Equal(t, before, decided(d))
			}
		})
	}
}

// TestMergePatchPreconditions is what upstream's controllers rely on (spec 0.4).
func TestMergePatchPreconditions(t *testing.T) {
	_, client, ctx := start(t)
	mc, err := client.Resource(clusters).Create(ctx, cluster(t, "preconditions"), metav1.CreateOptions{})
	require.NoError(t, err)
	for _, test := range []struct {
		name, patch string
		conflict    bool
	}{
		{"uid and version as they are", fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q,"labels":{"a":"b"}}}`, mc.GetUID(), mc.GetResourceVersion()), false},
		{"stale version", fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q,"labels":{"a":"c"}}}`, mc.GetUID(), mc.GetResourceVersion()), true},
		{"stale version for the status", fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"status":{}}`, mc.GetResourceVersion()), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, subresources := range [][]string{nil, {"status"}} {
				if !test.conflict && subresources != nil {
					continue // the first patch changed the version
				}
				_, err := client.Resource(clusters).Patch(ctx, "preconditions", types.MergePatchType, []byte(test.patch), metav1.PatchOptions{}, subresources...)
				require.Equal(t, test.conflict, apierrors.IsConflict(err), "%v", err)
			}
		})
	}
	_, err = client.Resource(clusters).Patch(ctx, "preconditions", types.MergePatchType, []byte(`{"metadata":{"uid":"00000000-0000-0000-0000-000000000000"}}`), metav1.PatchOptions{})
	require.ErrorContains(t, err, "metadata.uid", "an object of another life is never changed")
}

func TestServerSideApply(t *testing.T) {
	_, client, ctx := start(t)
	apply := func(manager, spec string) (*unstructured.Unstructured, error) {
		return client.Resource(clusters).Apply(ctx, "applied", object(t, `{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: applied}, spec: `+spec+`}`),
			metav1.ApplyOptions{FieldManager: manager})
	}
	mc, err := apply("one", `{leaseDurationSeconds: 30}`)
	require.NoError(t, err)
	seconds, _, _ := unstructured.NestedInt64(mc.Object, "spec", "leaseDurationSeconds")
	require.EqualValues(t, 30, seconds)
	_, err = apply("two", `{leaseDurationSeconds: 40}`)
	require.True(t, apierrors.IsConflict(err), "%v", err)
	mc, err = apply("one", `{}`)
	require.NoError(t, err)
	seconds, _, _ = unstructured.NestedInt64(mc.Object, "spec", "leaseDurationSeconds")
	require.EqualValues(t, 60, seconds, "a field that nobody applies any more has its default")
	_, err = apply("one", `{taints: [{key: k, effect: Sometimes}]}`)
	require.True(t, apierrors.IsInvalid(err), "%v", err)
}

func TestManifestsKeepTheirGeneration(t *testing.T) {
	s, client, ctx := start(t)
	kube, err := kubernetes.NewForConfig(s.config)
	require.NoError(t, err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "works"}}
	_, err = kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	require.NoError(t, err)
	work := object(t, `
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: w, namespace: works}
spec: {workload: {manifests: [{kind: ConfigMap, apiVersion: v1, metadata: {namespace: d, name: m}, data: {z: "1", a: "<&>"}, extra: {big: 9007199254740993, none: null}}]}}`)
	work, err = client.Resource(works).Namespace("works").Create(ctx, work, metav1.CreateOptions{})
	require.NoError(t, err)
	manifests, _, _ := unstructured.NestedSlice(work.Object, "spec", "workload", "manifests")
	require.Equal(t, map[string]any{"big": int64(9007199254740993), "none": nil}, manifests[0].(map[string]any)["extra"], "unknown fields of manifests are kept as they are")

	for _, patch := range []string{`{"metadata":{"labels":{"a":"b"}}}`, `{"spec":{"deleteOption":null}}`} {
		work, err = client.Resource(works).Namespace("works").Patch(ctx, "w", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err)
		require.EqualValues(t, 1, work.GetGeneration(), "%s changes no manifest", patch)
	}
	_, err = client.Resource(works).Namespace("works").Patch(ctx, "w", types.MergePatchType, []byte(`{"spec":{"workload":{"manifests":[]}}}`), metav1.PatchOptions{})
	require.ErrorContains(t, err, "manifests should not be empty")
}

func TestUnknownFields(t *testing.T) {
	_, client, ctx := start(t)
	mc := cluster(t, "unknown")
	require.NoError(t, unstructured.SetNestedField(mc.Object, true, "spec", "hubAcceptClient"))
	_, err := client.Resource(clusters).Create(ctx, mc, metav1.CreateOptions{FieldValidation: "Strict"})
	require.ErrorContains(t, err, `unknown field "spec.hubAcceptClient"`)
	mc, err = client.Resource(clusters).Create(ctx, mc, metav1.CreateOptions{})
	require.NoError(t, err)
	_, found, _ := unstructured.NestedBool(mc.Object, "spec", "hubAcceptClient")
	require.False(t, found)
}

func TestAtRest(t *testing.T) {
	s, client, ctx := start(t)
	kube, err := kubernetes.NewForConfig(s.config)
	require.NoError(t, err)
	_, err = kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "at-rest"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = kube.CoreV1().Secrets("at-rest").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"key": "open sesame"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	text := strings.Repeat("all work and no play ", 200)
	_, err = client.Resource(works).Namespace("at-rest").Create(ctx, object(t, `
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: w, namespace: at-rest}
spec: {workload: {manifests: [{kind: ConfigMap, apiVersion: v1, metadata: {namespace: d, name: m}, data: {text: "`+text+`"}}]}}`), metav1.CreateOptions{})
	require.NoError(t, err)

	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{s.store.Endpoint()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer etcd.Close()
	secret, err := etcd.Get(ctx, "/registry/secrets/at-rest/s")
	require.NoError(t, err)
	require.Len(t, secret.Kvs, 1)
	require.True(t, bytes.HasPrefix(secret.Kvs[0].Value, []byte("k8s:enc:secretbox:")), "secrets are encrypted")
	require.NotContains(t, string(secret.Kvs[0].Value), "open sesame")
	work, err := etcd.Get(ctx, "/registry/work.open-cluster-management.io/manifestworks/at-rest/w")
	require.NoError(t, err)
	require.Len(t, work.Kvs, 1)
	require.True(t, bytes.HasPrefix(work.Kvs[0].Value, []byte("nave:zstd:1:")), "works are compressed")
	require.Less(t, len(work.Kvs[0].Value), len(text)/4)
}

// requireNoNulls fails on a list that is null: clients without the Go type (kubectl wait) expect a list or nothing.
func requireNoNulls(t *testing.T, value any, path string) {
	t.Helper()
	switch v := value.(type) {
	case nil:
		require.Equal(t, "AddOnPlacementScore.status.validUntil", path, "is null") // a time, of which null is the zero
	case map[string]any:
		for key, element := range v {
			requireNoNulls(t, element, path+"."+key)
		}
	case []any:
		for i, element := range v {
			requireNoNulls(t, element, fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

// TestEveryKindCanBeMadeWithoutStatus and relabelled before anybody wrote one.
func TestEveryKindCanBeMadeWithoutStatus(t *testing.T) {
	s, client, ctx := start(t)
	kube, err := kubernetes.NewForConfig(s.config)
	require.NoError(t, err)
	_, err = kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "stateless"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	for _, test := range []struct{ version, resource, kind, namespace, spec string }{
		{"cluster.open-cluster-management.io/v1", "managedclusters", "ManagedCluster", "", `{}`},
		{"cluster.open-cluster-management.io/v1beta2", "managedclustersets", "ManagedClusterSet", "", `{}`},
		{"cluster.open-cluster-management.io/v1beta2", "managedclustersetbindings", "ManagedClusterSetBinding", "stateless", `{clusterSet: stateless}`},
		{"cluster.open-cluster-management.io/v1beta1", "placements", "Placement", "stateless", `{}`},
		{"cluster.open-cluster-management.io/v1beta1", "placementdecisions", "PlacementDecision", "stateless", ``},
		{"cluster.open-cluster-management.io/v1alpha1", "addonplacementscores", "AddOnPlacementScore", "stateless", ``},
		{"work.open-cluster-management.io/v1", "manifestworks", "ManifestWork", "stateless", `{workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}]}}`},
		{"work.open-cluster-management.io/v1alpha1", "manifestworkreplicasets", "ManifestWorkReplicaSet", "stateless",
			`{placementRefs: [{name: p}], manifestWorkTemplate: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}]}}}`},
		{"addon.open-cluster-management.io/v1alpha1", "clustermanagementaddons", "ClusterManagementAddOn", "", `{}`},
		{"addon.open-cluster-management.io/v1beta1", "managedclusteraddons", "ManagedClusterAddOn", "stateless", `{}`},
		{"addon.open-cluster-management.io/v1beta1", "addondeploymentconfigs", "AddOnDeploymentConfig", "stateless", `{}`},
		{"addon.open-cluster-management.io/v1alpha1", "addontemplates", "AddOnTemplate", "", `{addonName: a, agentSpec: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}]}}}`},
	} {
		t.Run(test.kind, func(t *testing.T) {
			o := object(t, `{apiVersion: `+test.version+`, kind: `+test.kind+`, metadata: {name: stateless}}`)
			if test.spec != "" {
				o = object(t, `{apiVersion: `+test.version+`, kind: `+test.kind+`, metadata: {name: stateless}, spec: `+test.spec+`}`)
			}
			gv, err := schema.ParseGroupVersion(test.version)
			require.NoError(t, err)
			var resource dynamic.ResourceInterface = client.Resource(gv.WithResource(test.resource))
			if test.namespace != "" {
				resource = client.Resource(gv.WithResource(test.resource)).Namespace(test.namespace)
			}
			o, err = resource.Create(ctx, o, metav1.CreateOptions{FieldValidation: "Strict"})
			require.NoError(t, err)
			requireNoNulls(t, o.Object, test.kind)
			o, err = resource.Patch(ctx, "stateless", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
			require.NoError(t, err)
			require.EqualValues(t, 1, o.GetGeneration())
			requireNoNulls(t, o.Object, test.kind)
			_, err = resource.Update(ctx, o, metav1.UpdateOptions{})
			require.NoError(t, err)
			require.NoError(t, resource.Delete(ctx, "stateless", metav1.DeleteOptions{}))
		})
	}
}
