package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// errand is a namespace on the first cluster with the account errand, in whose name works are applied.
type errand struct {
	*bench
	t         *testing.T
	ctx       context.Context
	namespace string
}

func newErrand(t *testing.T, namespace string) *errand {
	t.Helper()
	b, ctx := start(t)
	_, err := b.spokes[first].CoreV1().Namespaces().Create(ctx, namespaceObject(namespace), metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, b.spokes[first].CoreV1().Namespaces().Delete(context.Background(), namespace, metav1.DeleteOptions{}))
	})
	return &errand{b, t, ctx, namespace}
}

// may grants the account the verbs for a resource of the core group, or of RBAC, and returns what takes them back.
func (e *errand) may(role string, rules ...rbacv1.PolicyRule) (revoke func()) {
	e.t.Helper()
	rbac := e.spokes[first].RbacV1()
	_, err := rbac.Roles(e.namespace).Create(e.ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: rules}, metav1.CreateOptions{})
	require.NoError(e.t, err)
	_, err = rbac.RoleBindings(e.namespace).Create(e.ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: e.namespace, Name: "errand"}},
	}, metav1.CreateOptions{})
	require.NoError(e.t, err)
	return func() {
		require.NoError(e.t, rbac.RoleBindings(e.namespace).Delete(e.ctx, role, metav1.DeleteOptions{}))
	}
}

func onMaps(verbs []string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: names}
}

func onRBAC(verbs []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{rbacv1.GroupName}, Resources: resources}
}

var (
	withoutDelete = []string{"create", "update", "patch", "get", "list"}
	withDelete    = append([]string{"delete"}, withoutDelete...)
)

// work makes a work that the errand's account executes.
func (e *errand) work(name string, option *workv1.DeleteOption, manifests ...string) {
	e.t.Helper()
	e.newExecutedWork(e.t, e.ctx, first, name, e.namespace, option, manifests...)
}

// newExecutedWork makes a work that the account errand of a namespace executes.
func (b *bench) newExecutedWork(t *testing.T, ctx context.Context, cluster, name, namespace string, option *workv1.DeleteOption, manifests ...string) {
	t.Helper()
	_, err := b.works.WorkV1().ManifestWorks(cluster).Create(ctx, &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: workv1.ManifestWorkSpec{
			Workload: workv1.ManifestsTemplate{Manifests: manifestsOf(t, manifests...)}, DeleteOption: option,
			Executor: &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
				Type: workv1.ExecutorSubjectTypeServiceAccount, ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: namespace, Name: "errand"},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { b.removeWork(t, cluster, name) })
}

// becomes waits until the conditions Applied of the manifests are as given, and with them the work's.
func (e *errand) becomes(name string, applied ...bool) {
	e.t.Helper()
	status := map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}
	eventually(e.t, e.ctx, fmt.Sprintf("the manifests of %s are applied: %v", name, applied), func() error {
		work, err := e.works.WorkV1().ManifestWorks(first).Get(e.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(work.Status.ResourceStatus.Manifests) != len(applied) {
			return fmt.Errorf("%d manifests are reported", len(work.Status.ResourceStatus.Manifests))
		}
		all := true
		var errs []error
		for i, m := range work.Status.ResourceStatus.Manifests {
			all = all && applied[i]
			if err := conditionIs(m.Conditions, workv1.ManifestApplied, status[applied[i]], work.Generation); err != nil {
				errs = append(errs, fmt.Errorf("manifest %d: %w", i, err))
			}
		}
		return errors.Join(append(errs, conditionIs(work.Status.Conditions, workv1.WorkApplied, status[all], work.Generation))...)
	})
}

// TestExecutorsVerbs is what an executor needs for a work of two ConfigMaps, by what becomes of them (spec 4.7).
func TestExecutorsVerbs(t *testing.T) {
	orphanOne := &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan, SelectivelyOrphan: &workv1.SelectivelyOrphan{
		OrphaningRules: []workv1.OrphaningRule{{Resource: "configmaps", Namespace: "orphan-one", Name: "one"}},
	}}
	for _, test := range []struct {
		namespace string
		rules     []rbacv1.PolicyRule
		option    *workv1.DeleteOption
		one, two  bool // applied
	}{
		{"none", nil, nil, false, false},
		{"partial", []rbacv1.PolicyRule{onMaps(withDelete, "one")}, nil, true, false},
		{"full", []rbacv1.PolicyRule{onMaps(withDelete, "one", "two")}, nil, true, true},
		{"no-delete", []rbacv1.PolicyRule{onMaps(withoutDelete)}, nil, false, false},
		{"no-delete-orphan", []rbacv1.PolicyRule{onMaps(withoutDelete)}, &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}, true, true},
		{"orphan-one", []rbacv1.PolicyRule{onMaps(withoutDelete)}, orphanOne, true, false},
	} {
		t.Run(test.namespace, func(t *testing.T) {
			e := newErrand(t, test.namespace)
			if len(test.rules) > 0 {
				e.may("granted", test.rules...)
			}
			e.work(test.namespace, test.option, configMap(test.namespace, "one", "v"), configMap(test.namespace, "two", "v"))
			e.becomes(test.namespace, test.one, test.two)
			for i, applied := range []bool{test.one, test.two} {
				name := []string{"one", "two"}[i]
				if applied {
					require.NoError(t, e.valueOf(e.ctx, first, test.namespace, name, "v"))
					continue
				}
				require.NoError(t, e.configMapGone(e.ctx, first, test.namespace, name))
				said, err := e.appliedFalse(e.ctx, first, test.namespace, i)
				require.NoError(t, err)
				require.Contains(t, said, "not allowed to apply the resource  configmaps, "+test.namespace+" "+name)
				require.Contains(t, said, "delete")
			}
		})
	}
}

// TestExecutorsEscalation is a work with a role that grants what its executor may or may not have, new and in place of one.
func TestExecutorsEscalation(t *testing.T) {
	role := func(namespace string) string {
		return fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: reads, namespace: %s}, rules: [{apiGroups: [\"\"], resources: [secrets], verbs: [get]}]}", namespace)
	}
	binding := func(namespace string) string {
		return fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: reads, namespace: %[1]s},
			roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reads}, subjects: [{kind: ServiceAccount, name: errand, namespace: %[1]s}]}`, namespace)
	}
	for _, test := range []struct {
		namespace       string
		escalate, there bool
	}{
		{"escalates", false, false},
		{"escalates-in-place", false, true},
		{"may-escalate", true, false},
		{"may-escalate-in-place", true, true},
	} {
		t.Run(test.namespace, func(t *testing.T) {
			e := newErrand(t, test.namespace)
			rules := []rbacv1.PolicyRule{onMaps(withDelete), onRBAC(withDelete, "roles", "rolebindings")}
			if test.escalate {
				rules = append(rules, onRBAC([]string{"escalate", "bind"}, "roles"))
			}
			e.may("granted", rules...)
			before := onMaps([]string{"get"})
			if test.there {
				_, err := e.spokes[first].RbacV1().Roles(test.namespace).Create(e.ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "reads"}, Rules: []rbacv1.PolicyRule{before}}, metav1.CreateOptions{})
				require.NoError(t, err)
			}
			e.work(test.namespace, nil, role(test.namespace), configMap(test.namespace, "one", "v"), binding(test.namespace))
			if test.escalate {
				e.becomes(test.namespace, true, true, true)
				return
			}
			// To bind the role that is there is within the executor's rights: it grants what the executor has.
			e.becomes(test.namespace, false, true, test.there)
			said, err := e.appliedFalse(e.ctx, first, test.namespace, 0)
			require.NoError(t, err)
			require.Contains(t, said, "error: permission escalation")
			require.Contains(t, said, "secrets", "which right is too much")
			if test.there {
				kept, err := e.spokes[first].RbacV1().Roles(test.namespace).Get(e.ctx, "reads", metav1.GetOptions{})
				require.NoError(t, err)
				require.Equal(t, []rbacv1.PolicyRule{before}, kept.Rules)
			}
		})
	}
}

// TestExecutorsRightsThatChange are followed both ways, without anybody touching the work.
func TestExecutorsRightsThatChange(t *testing.T) {
	e := newErrand(t, "changing")
	e.work("changing", nil, configMap("changing", "one", "v"), configMap("changing", "two", "v"))
	e.becomes("changing", false, false)
	revoke := e.may("granted", onMaps(withDelete, "one", "two"))
	e.becomes("changing", true, true)
	e.changeWork(t, e.ctx, first, "changing", configMap("changing", "one", "v"), configMap("changing", "two", "v"), configMap("changing", "three", "v"))
	e.becomes("changing", true, true, false)

	revoke()
	e.becomes("changing", false, false, false)
	require.NoError(t, e.valueOf(e.ctx, first, "changing", "one", "v"), "what is applied stays")
	e.removeWork(t, first, "changing")
	require.NoError(t, e.configMapGone(e.ctx, first, "changing", "one"), "the executor had agreed to its end when it was applied")
}
