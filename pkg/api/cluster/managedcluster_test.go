package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// rules allow what is listed as "verb resource/subresource name", and know one namespace that is going away.
func rules(allowed ...string) *Rules {
	return &Rules{
		Clock: testingclock.NewFakePassiveClock(now),
		Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			asked := a.GetVerb() + " " + a.GetResource() + "/" + a.GetSubresource() + " " + a.GetName()
			for _, right := range allowed {
				if right == asked {
					return authorizer.DecisionAllow, "", nil
				}
			}
			return authorizer.DecisionNoOpinion, "", nil
		}),
		Namespace: func(_ context.Context, name string) (*corev1.Namespace, error) {
			if name == "leaving" {
				return &corev1.Namespace{Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}}, nil
			}
			return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
		},
	}
}

func attributes(operation admission.Operation, obj, old runtime.Object, groups ...string) admission.Attributes {
	accessor := obj.(metav1.Object)
	version := schema.GroupVersion(clusterv1.GroupVersion)
	resource := version.WithResource("managedclusters")
	return admission.NewAttributesRecord(obj, old, version.WithKind("ManagedCluster"), accessor.GetNamespace(), accessor.GetName(),
		resource, "", operation, nil, false, &user.DefaultInfo{Name: "alice", Groups: groups})
}

func managed(name string, change ...func(*clusterv1.ManagedCluster)) *clusterv1.ManagedCluster {
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1beta2.ClusterSetLabel: DefaultSet}}}
	for _, c := range change {
		c(mc)
	}
	return mc
}

func accepted(mc *clusterv1.ManagedCluster) { mc.Spec.HubAcceptsClient = true }

func inSet(set string) func(*clusterv1.ManagedCluster) {
	return func(mc *clusterv1.ManagedCluster) { mc.Labels[clusterv1beta2.ClusterSetLabel] = set }
}

func reachedAt(url string) func(*clusterv1.ManagedCluster) {
	return func(mc *clusterv1.ManagedCluster) {
		mc.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{URL: url}}
	}
}

func TestValidateCluster(t *testing.T) {
	const join, accept = "create managedclustersets/join default", "update managedclusters/accept c1"
	for _, test := range []struct {
		name    string
		mc, old *clusterv1.ManagedCluster
		allowed []string
		groups  []string
		want    string // text of the refusal, empty where it is admitted
		code    int32
	}{
		{name: "create", mc: managed("c1"), allowed: []string{join}},
		{name: "create in a set that one may not join", mc: managed("c1"),
			want: `user "alice" cannot add/remove a ManagedCluster to/from ManagedClusterSet "default"`, code: 403},
		{name: "name that is no namespace", mc: managed("c1.example"), allowed: []string{join}, want: "metadata.name format is not correct: ", code: 400},
		{name: "name of the group of all clusters", mc: managed("managed-clusters"), allowed: []string{join}, want: "metadata.name format is not correct: ", code: 400},
		{name: "name of a namespace of the hub", mc: managed("kube-system"), allowed: []string{join}, want: "metadata.name format is not correct: the name is reserved", code: 400},
		{name: "url without TLS", mc: managed("c1", reachedAt("http://c1")), allowed: []string{join}, want: `url "http://c1" is invalid in client configs`, code: 400},
		{name: "url without host", mc: managed("c1", reachedAt("https://")), allowed: []string{join}, want: `url "https://" is invalid in client configs`, code: 400},
		{name: "url", mc: managed("c1", reachedAt("https://c1:6443")), allowed: []string{join}},
		{name: "create accepted", mc: managed("c1", accepted), allowed: []string{join}, want: `user "alice" cannot update the HubAcceptsClient field`, code: 403},
		{name: "create accepted with the right", mc: managed("c1", accepted), allowed: []string{join, accept}},
		{name: "create accepted as administrator", mc: managed("c1", accepted), groups: []string{"system:masters"}},
		{name: "accept", mc: managed("c1", accepted), old: managed("c1"), allowed: []string{accept}},
		{name: "accept without the right", mc: managed("c1", accepted), old: managed("c1"), want: `user "alice" cannot update the HubAcceptsClient field`, code: 403},
		{name: "accept while the namespace of an earlier life goes", mc: managed("leaving", accepted), old: managed("leaving"),
			allowed: []string{"update managedclusters/accept leaving"}, want: `cluster namespace "leaving" is terminating`, code: 403},
		{name: "deny without the right", mc: managed("c1"), old: managed("c1", accepted), want: `user "alice" cannot update the HubAcceptsClient field`, code: 403},
		{name: "deny while the namespace goes", mc: managed("leaving"), old: managed("leaving", accepted), allowed: []string{"update managedclusters/accept leaving"}},
		{name: "change of something else", mc: managed("c1", accepted, reachedAt("https://c1")), old: managed("c1", accepted)},
		{name: "change of set", mc: managed("c1", inSet("prod")), old: managed("c1"), allowed: []string{join},
			want: `user "alice" cannot add/remove a ManagedCluster to/from ManagedClusterSet "prod"`, code: 403},
		{name: "change of set, not allowed to leave", mc: managed("c1", inSet("prod")), old: managed("c1"), allowed: []string{"create managedclustersets/join prod"},
			want: `user "alice" cannot add/remove a ManagedCluster to/from ManagedClusterSet "default"`, code: 403},
		{name: "change of set with both rights", mc: managed("c1", inSet("prod")), old: managed("c1"), allowed: []string{join, "create managedclustersets/join prod"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			operation := admission.Create
			var old runtime.Object
			if test.old != nil {
				operation, old = admission.Update, test.old
			}
			err := rules(test.allowed...).ValidateCluster(context.Background(), attributes(operation, test.mc, old, test.groups...), test.mc, test.old)
			requireRefusal(t, err, test.want, test.code)
		})
	}
}

func requireRefusal(t *testing.T, err error, want string, code int32) {
	t.Helper()
	if want == "" {
		require.NoError(t, err)
		return
	}
	var status apierrors.APIStatus
	require.ErrorAs(t, err, &status)
	require.Contains(t, status.Status().Message, want)
	require.Equal(t, code, status.Status().Code)
}

func TestMutateCluster(t *testing.T) {
	earlier, sent := metav1.NewTime(now.Add(-time.Hour)), metav1.NewTime(now.Add(time.Hour))
	taint := func(key, value string, effect clusterv1.TaintEffect, added metav1.Time) clusterv1.Taint {
		return clusterv1.Taint{Key: key, Value: value, Effect: effect, TimeAdded: added}
	}
	at := metav1.NewTime(now)
	const no, prefer = clusterv1.TaintEffectNoSelect, clusterv1.TaintEffectPreferNoSelect
	for _, test := range []struct {
		name          string
		old, in, want []clusterv1.Taint
		create        bool
		refusal       string
	}{
		{name: "create stamps whatever was sent", create: true, in: []clusterv1.Taint{taint("a", "", no, sent)}, want: []clusterv1.Taint{taint("a", "", no, at)}},
		{name: "new", in: []clusterv1.Taint{taint("a", "", no, metav1.Time{})}, want: []clusterv1.Taint{taint("a", "", no, at)}},
		{name: "new with a time", in: []clusterv1.Taint{taint("a", "", no, sent)}, refusal: `It is not allowed to set TimeAdded of Taint "a".`},
		{name: "unchanged", old: []clusterv1.Taint{taint("a", "", no, earlier)}, in: []clusterv1.Taint{taint("a", "", no, earlier)}, want: []clusterv1.Taint{taint("a", "", no, earlier)}},
		{name: "unchanged and without its time, as kubectl apply sends it", old: []clusterv1.Taint{taint("a", "", no, earlier)},
			in: []clusterv1.Taint{taint("a", "", no, metav1.Time{})}, want: []clusterv1.Taint{taint("a", "", no, earlier)}},
		{name: "unchanged with another time", old: []clusterv1.Taint{taint("a", "", no, earlier)}, in: []clusterv1.Taint{taint("a", "", no, sent)},
			refusal: `It is not allowed to set TimeAdded of Taint "a".`},
		{name: "value changed", old: []clusterv1.Taint{taint("a", "1", no, earlier)}, in: []clusterv1.Taint{taint("a", "2", no, metav1.Time{})}, want: []clusterv1.Taint{taint("a", "2", no, at)}},
		{name: "value changed, old time sent", old: []clusterv1.Taint{taint("a", "1", no, earlier)}, in: []clusterv1.Taint{taint("a", "2", no, earlier)},
			refusal: `It is not allowed to set TimeAdded of Taint "a".`},
		{name: "one key, two effects", old: []clusterv1.Taint{taint("a", "", no, earlier)},
			in:   []clusterv1.Taint{taint("a", "", prefer, metav1.Time{}), taint("a", "", no, earlier)},
			want: []clusterv1.Taint{taint("a", "", prefer, at), taint("a", "", no, earlier)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			mc := &clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{Taints: test.in}}
			old := &clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{Taints: test.old}}
			if test.create {
				old = nil
			}
			err := rules().MutateCluster(mc, old)
			requireRefusal(t, err, test.refusal, 400)
			if test.refusal == "" {
				require.Equal(t, test.want, mc.Spec.Taints)
				require.Equal(t, DefaultSet, mc.Labels[clusterv1beta2.ClusterSetLabel])
			}
		})
	}
}

func TestValidateBinding(t *testing.T) {
	binding := func(name, set string) *clusterv1beta2.ManagedClusterSetBinding {
		return &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n"},
			Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set}}
	}
	for _, test := range []struct {
		name      string
		operation admission.Operation
		binding   *clusterv1beta2.ManagedClusterSetBinding
		allowed   []string
		want      string
		code      int32
	}{
		{"bind", admission.Create, binding("s", "s"), []string{"create managedclustersets/bind s"}, "", 0},
		{"bind without the right", admission.Create, binding("s", "s"), nil, `user "alice" is not allowed to bind cluster set "s"`, 403},
		{"other name", admission.Create, binding("b", "s"), []string{"create managedclustersets/bind s"}, "The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet", 400},
		{"labels later need no right", admission.Update, binding("s", "s"), nil, "", 0},
		{"other name later", admission.Update, binding("b", "s"), nil, "The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet", 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := rules(test.allowed...).ValidateBinding(context.Background(), attributes(test.operation, test.binding, nil), test.binding)
			requireRefusal(t, err, test.want, test.code)
		})
	}
}
