package hub

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	operatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
	"sigs.k8s.io/yaml"
)

// TestExecutors is who may have works executed by whom, with and without the gate NilExecutorValidating (spec 3.1).
func TestExecutors(t *testing.T) {
	access, ctx := startHub(t)
	kube := kubernetes.NewForConfigOrDie(access)
	const tenant, namespace = "tenant", "harbor-1"
	_, err := kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	works := func(user string) func(name string, executor *workv1.ManifestWorkExecutor) error {
		config := rest.CopyConfig(access)
		config.Impersonate.UserName = user
		client := workclient.NewForConfigOrDie(config).WorkV1().ManifestWorks(namespace)
		return func(name string, executor *workv1.ManifestWorkExecutor) error {
			_, err := client.Create(ctx, &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: workv1.ManifestWorkSpec{
				Executor: executor,
				Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"default"}}`)}}}},
			}}, metav1.CreateOptions{})
			return err
		}
	}
	bind := func(name, role, kind string, rules ...rbacv1.PolicyRule) {
		if kind == "Role" {
			_, err := kube.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: rules}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		_, err := kube.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: tenant}}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	group := []string{workv1.GroupName}
	bind("writer", "writer", "Role",
		rbacv1.PolicyRule{APIGroups: group, Resources: []string{"manifestworks"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: group, Resources: []string{"manifestworks"}, Verbs: []string{"execute-as"}, ResourceNames: []string{"system:serviceaccount:default:errand"}})
	by := func(name string) *workv1.ManifestWorkExecutor {
		return &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{Type: workv1.ExecutorSubjectTypeServiceAccount,
			ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "default", Name: name}}}
	}
	create, adminCreates := works(tenant), works("")
	require.Eventually(t, func() bool { return create("own", by("errand")) == nil }, patience, tick)

	t.Run("an executor that one may not use", func(t *testing.T) {
		err := create("root", by("root"))
		require.True(t, apierrors.IsBadRequest(err), "%v", err)
		require.ErrorContains(t, err, "user tenant cannot manipulate the Manifestwork with executor default/root in namespace harbor-1")
	})
	t.Run("none", func(t *testing.T) { require.NoError(t, create("none", nil)) })
	t.Run("none, checked, from the moment on that the gate is on", func(t *testing.T) {
		_, err := operatorclient.NewForConfigOrDie(access).OperatorV1().ClusterManagers().Patch(ctx, "cluster-manager", types.MergePatchType,
			[]byte(`{"spec":{"workConfiguration":{"featureGates":[{"feature":"NilExecutorValidating","mode":"Enable"}]}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			cm, err := operatorclient.NewForConfigOrDie(access).OperatorV1().ClusterManagers().Get(ctx, "cluster-manager", metav1.GetOptions{})
			return err == nil && cm.Status.ObservedGeneration == cm.Generation
		}, patience, tick)
		err = create("checked", nil)
		require.True(t, apierrors.IsBadRequest(err), "%v", err)
		require.ErrorContains(t, err, "user tenant cannot manipulate the Manifestwork with executor /klusterlet-work-sa in namespace harbor-1")
		require.NoError(t, adminCreates("admin", nil))
		require.NoError(t, create("still-own", by("errand")))
	})
	t.Run("upstream's role lets one do without", func(t *testing.T) {
		bind("agents-rights", "open-cluster-management:cluster-manager-work-executor-admin:webhook", "ClusterRole")
		require.Eventually(t, func() bool { return create("granted", nil) == nil }, patience, tick)
		require.ErrorContains(t, create("root", by("root")), "cannot manipulate")
	})
}

// TestReplicaSetExecutors: the hub makes the works of a set with all its rights, on whichever clusters are selected. So its
// author needs the right to the executor himself, and everywhere.
func TestReplicaSetExecutors(t *testing.T) {
	r := &replicated{newAdministrator(t), "tenants"}
	r.team("tenants", 1)
	r.place("tenants", "p", silent)
	r.chooses("tenants", "p", "tenants-1")
	access := rest.CopyConfig(r.access)
	access.Impersonate.UserName = "tenant"
	sets := workclient.NewForConfigOrDie(access).WorkV1alpha1().ManifestWorkReplicaSets("tenants")
	subject := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "tenant"}
	execute := rbacv1.PolicyRule{APIGroups: []string{workv1.GroupName}, Resources: []string{"manifestworks"}, Verbs: []string{"execute-as"}, ResourceNames: []string{"system:serviceaccount:default:errand"}}
	for namespace, rules := range map[string][]rbacv1.PolicyRule{
		"tenants":   {{APIGroups: []string{workv1.GroupName}, Resources: []string{"manifestworkreplicasets"}, Verbs: []string{"*"}}, execute},
		"tenants-1": {execute},
	} {
		eventually(t, "namespace "+namespace, func() error {
			_, err := r.kube.CoreV1().Namespaces().Get(r.ctx, namespace, metav1.GetOptions{})
			return err
		})
		_, err := r.kube.RbacV1().Roles(namespace).Create(r.ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, Rules: rules}, metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = r.kube.RbacV1().RoleBindings(namespace).Create(r.ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "tenant"},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"}, Subjects: []rbacv1.Subject{subject}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	create := func(name, account string) error {
		set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
		require.NoError(t, yaml.UnmarshalStrict([]byte(oneMap), &set.Spec))
		if account != "" {
			set.Spec.ManifestWorkTemplate.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{Type: workv1.ExecutorSubjectTypeServiceAccount,
				ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "default", Name: account}}}
		}
		_, err := sets.Create(r.ctx, set, metav1.CreateOptions{})
		return err
	}
	executedBy := func(account string) error {
		_, err := sets.Patch(r.ctx, "plain", types.MergePatchType, []byte(`{"spec":{"manifestWorkTemplate":{"executor":{"subject":{"type":"ServiceAccount","serviceAccount":{"namespace":"default","name":"`+account+`"}}}}}}`), metav1.PatchOptions{})
		return err
	}
	refused := func(err error, account string) {
		t.Helper()
		require.True(t, apierrors.IsBadRequest(err), "%v", err)
		require.ErrorContains(t, err, "user tenant cannot manipulate the Manifestwork with executor default/"+account+" in all namespaces")
	}
	require.Eventually(t, func() bool { return create("plain", "") == nil }, patience, tick)
	refused(create("root", "root"), "root")
	refused(create("errand", "errand"), "errand")
	refused(executedBy("errand"), "errand")
	list, err := sets.List(r.ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)

	_, err = r.kube.RbacV1().ClusterRoles().Create(r.ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "errands"}, Rules: []rbacv1.PolicyRule{execute}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = r.kube.RbacV1().ClusterRoleBindings().Create(r.ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "errands"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "errands"}, Subjects: []rbacv1.Subject{subject}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return executedBy("errand") == nil }, patience, tick)
	refused(executedBy("root"), "root")
	require.NoError(t, create("errand", "errand"))
	eventually(t, "the works are executed so", func() error {
		works, err := r.works.WorkV1().ManifestWorks("tenants-1").List(r.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		n := 0
		for _, work := range works.Items {
			if e := work.Spec.Executor; e != nil && e.Subject.ServiceAccount.Name == "errand" {
				n++
			}
		}
		if n != 2 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
}
