package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/hub"
	"nave/test/hubtest"
)

// The managed cluster of these tests is a hub: its authorization, its roles and their rules are Kubernetes' own, and it
// starts in seconds.

const (
	patience = time.Minute
	tick     = 10 * time.Millisecond
)

var shared = sync.OnceValues(func() (*hubtest.Hub, error) {
	h, err := hubtest.Start(hub.Config{})
	if err == nil {
		stop = h.Stop
	}
	return h, err
})

var stop = func() error { return nil }

func TestMain(m *testing.M) {
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// site is a namespace for one test, with a service account that executes.
type site struct {
	t    *testing.T
	ctx  context.Context
	name string
	kube kubernetes.Interface
	cfg  *rest.Config
}

func newSite(t *testing.T, name string) *site {
	t.Helper()
	h, err := shared()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	p := &site{t: t, ctx: ctx, name: name, kube: kubernetes.NewForConfigOrDie(h.Admin), cfg: h.Admin}
	_, err = p.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return p
}

func (p *site) executor() *workv1.ManifestWorkExecutor {
	return &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type: workv1.ExecutorSubjectTypeServiceAccount, ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: p.name, Name: "errand"},
	}}
}

// grant lets the executor do something in the namespace, and returns what takes it back.
func (p *site) grant(name string, rules ...rbacv1.PolicyRule) (revoke func()) {
	p.t.Helper()
	p.makeRole(name, rules...)
	p.makeBindingTo(name, name, "errand")
	return func() {
		require.NoError(p.t, p.kube.RbacV1().RoleBindings(p.name).Delete(p.ctx, name, metav1.DeleteOptions{}))
	}
}

// settled waits until the API server knows of the last grant: authorizers read from caches of their own.
func (p *site) settled(c *Checker, q question, allowed bool) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		a, err := c.review(p.ctx, q)
		return err == nil && a.allowed == allowed
	}, patience, tick)
}

func (p *site) checker() *Checker {
	c, err := New(Config{Log: quiet(), Spoke: p.cfg})
	require.NoError(p.t, err)
	return c
}

func quiet() logrus.FieldLogger {
	l := logrus.New()
	l.SetLevel(logrus.ErrorLevel)
	return l
}

func rule(verbs []string, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
}

var (
	applying = []string{"create", "update", "patch", "get"}
	owning   = []string{"create", "update", "patch", "get", "delete"}

	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

func (p *site) configMap(name string, verbs []string) Request {
	return Request{GVR: configMaps, Namespace: p.name, Name: name, Verbs: verbs, Object: object(p.t, &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: p.name},
	})}
}

func object(t *testing.T, typed any) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	require.NoError(t, err)
	return &unstructured.Unstructured{Object: content}
}

func TestVerbs(t *testing.T) {
	p := newSite(t, "verbs")
	p.grant("all", rule(owning, "", "configmaps", "one", "two"))
	p.grant("apply", rule(applying, "", "configmaps", "kept"))
	p.grant("look", rule([]string{"get"}, "", "configmaps", "seen"))
	c := p.checker()
	p.settled(c, question{account: account{p.name, "errand"}, verb: "get", gvr: configMaps, namespace: p.name, name: "seen"}, true)
	for _, test := range []struct {
		name    string
		request Request
		missing []string
	}{
		{"everything", p.configMap("one", owning), nil},
		{"another name", p.configMap("other", owning), owning},
		{"no delete, and the object would be owned", p.configMap("kept", owning), []string{"delete"}},
		{"no delete, and it is orphaned", p.configMap("kept", applying), nil},
		{"get alone", p.configMap("seen", applying), []string{"create", "update", "patch"}},
		{"get alone, and no more is wanted", p.configMap("seen", []string{"get"}), nil},
		{"another namespace", Request{GVR: configMaps, Namespace: "default", Name: "one", Verbs: []string{"get"}}, []string{"get"}},
		{"of the cluster", Request{GVR: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Name: "verbs", Verbs: []string{"patch"}}, []string{"patch"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for range 2 { // asked, and remembered
				err := c.Check(p.ctx, p.executor(), test.request)
				if test.missing == nil {
					require.NoError(t, err)
					continue
				}
				var denied *Denied
				require.ErrorAs(t, err, &denied)
				require.Equal(t, test.missing, denied.Missing)
				require.Equal(t, "system:serviceaccount:verbs:errand", denied.Executor)
				require.False(t, denied.Escalation)
			}
		})
	}
}

// TestEscalation has an executor that may write roles and bindings, and read ConfigMaps.
func TestEscalation(t *testing.T) {
	p := newSite(t, "escalation")
	within, beyond := rule([]string{"get"}, "", "configmaps"), rule([]string{"get"}, "", "secrets")
	p.makeRole("within", within)
	p.makeRole("beyond", beyond)
	p.makeBinding("bound", "within")
	aggregating := &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"no": "where"}}}}
	_, err := p.kube.RbacV1().ClusterRoles().Create(p.ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "aggregating"}, AggregationRule: aggregating}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = p.kube.RbacV1().ClusterRoles().Delete(context.Background(), "aggregating", metav1.DeleteOptions{})
	})
	// The grants come last: who knows of them knows of the roles, too.
	p.grant("writer", rule(owning, rbacv1.GroupName, "*"), rule([]string{"get", "list"}, "", "configmaps"))
	t.Cleanup(p.clusterGrant("escalation", rule(owning, rbacv1.GroupName, "clusterroles"), rule([]string{"get"}, "", "nodes")))
	c := p.checker()
	p.settled(c, question{account: account{p.name, "errand"}, verb: "get", gvr: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, name: "x"}, true)
	p.settled(c, question{account: account{p.name, "errand"}, verb: "get", gvr: configMaps, namespace: p.name}, true)

	readNodes := rule([]string{"get"}, "", "nodes")
	for _, test := range []struct {
		name      string
		request   Request
		escalates bool
	}{
		{"new role within its rights", p.role("new", within), false},
		{"new role beyond them", p.role("new", beyond), true},
		{"role that is there, within them", p.role("within", within), false},
		{"role that is there, changed beyond them", p.role("within", beyond), true},
		{"role beyond them that is there, as it is", p.role("beyond", beyond), true},
		{"role beyond them that is there, made smaller", p.role("beyond", within), false},
		{"new binding of a role within them", p.binding("new", "within"), false},
		{"new binding of a role beyond them", p.binding("new", "beyond"), true},
		{"binding that is there", p.binding("bound", "within"), false},
		{"binding that is there, to another role; nobody may do that", p.binding("bound", "beyond"), true},
		{"new role of the cluster", p.clusterRole("new", nil, readNodes), false},
		{"new role of the cluster that gathers others", p.clusterRole("new", aggregating), true},
		{"role of the cluster that gathers others, made an ordinary one", p.clusterRole("aggregating", nil, readNodes), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := c.Check(p.ctx, p.executor(), test.request)
			if !test.escalates {
				require.NoError(t, err)
				return
			}
			var denied *Denied
			require.ErrorAs(t, err, &denied)
			require.True(t, denied.Escalation, "%v", err)
			require.ErrorContains(t, err, "error: permission escalation, will try again in 1m0s")
		})
	}
	t.Run("nothing was written", func(t *testing.T) {
		_, err := p.kube.RbacV1().Roles(p.name).Get(p.ctx, "new", metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
		there, err := p.kube.RbacV1().Roles(p.name).Get(p.ctx, "beyond", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, []rbacv1.PolicyRule{beyond}, there.Rules)
	})
	t.Run("with escalate and bind anything goes, of what they are given for", func(t *testing.T) {
		p.grant("escalate", rule([]string{"escalate"}, rbacv1.GroupName, "roles", "within"), rule([]string{"bind"}, rbacv1.GroupName, "roles", "beyond"))
		p.settled(c, question{account: account{p.name, "errand"}, verb: "bind", gvr: rolesOf("roles"), namespace: p.name, name: "beyond"}, true)
		c := p.checker() // remembers nothing
		require.NoError(t, c.Check(p.ctx, p.executor(), p.role("within", beyond)))
		require.NoError(t, c.Check(p.ctx, p.executor(), p.binding("new", "beyond")))
		var denied *Denied
		require.ErrorAs(t, c.Check(p.ctx, p.executor(), p.role("new", beyond)), &denied)
		p.makeRole("worse", rule([]string{"*"}, "", "*"))
		require.Eventually(t, func() bool { return errors.As(c.Check(p.ctx, p.executor(), p.binding("new", "worse")), &denied) }, patience, tick)
	})
	t.Run("an object without rights to write it", func(t *testing.T) {
		r := p.clusterRole("new", nil, readNodes)
		r.GVR, r.Object = rolesOf("clusterrolebindings"), nil
		var denied *Denied
		require.ErrorAs(t, c.Check(p.ctx, p.executor(), r), &denied)
		require.Equal(t, owning, denied.Missing)
	})
	t.Run("to look at a role takes no trial", func(t *testing.T) {
		require.NoError(t, c.Check(p.ctx, p.executor(), Request{GVR: rolesOf("roles"), Namespace: p.name, Name: "beyond", Verbs: []string{"get"}}))
	})
}

func rolesOf(resource string) schema.GroupVersionResource {
	return rbacv1.SchemeGroupVersion.WithResource(resource)
}

func (p *site) makeRole(name string, rules ...rbacv1.PolicyRule) {
	_, err := p.kube.RbacV1().Roles(p.name).Create(p.ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	require.NoError(p.t, err)
}

func (p *site) makeBinding(name, role string) { p.makeBindingTo(name, role) }

func (p *site) makeBindingTo(name, role string, accounts ...string) {
	p.t.Helper()
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role}}
	for _, name := range accounts {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: p.name, Name: name})
	}
	_, err := p.kube.RbacV1().RoleBindings(p.name).Create(p.ctx, binding, metav1.CreateOptions{})
	require.NoError(p.t, err)
}

// clusterGrant lets the executor do something anywhere.
func (p *site) clusterGrant(name string, rules ...rbacv1.PolicyRule) (revoke func()) {
	p.t.Helper()
	_, err := p.kube.RbacV1().ClusterRoles().Create(p.ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	require.NoError(p.t, err)
	_, err = p.kube.RbacV1().ClusterRoleBindings().Create(p.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: p.name, Name: "errand"}},
	}, metav1.CreateOptions{})
	require.NoError(p.t, err)
	return func() {
		_ = p.kube.RbacV1().ClusterRoleBindings().Delete(context.Background(), name, metav1.DeleteOptions{})
		_ = p.kube.RbacV1().ClusterRoles().Delete(context.Background(), name, metav1.DeleteOptions{})
	}
}

func (p *site) role(name string, rules ...rbacv1.PolicyRule) Request {
	return Request{GVR: rolesOf("roles"), Namespace: p.name, Name: name, Verbs: owning, Object: object(p.t, &rbacv1.Role{
		TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: p.name}, Rules: rules,
	})}
}

func (p *site) binding(name, role string) Request {
	return Request{GVR: rolesOf("rolebindings"), Namespace: p.name, Name: name, Verbs: owning, Object: object(p.t, &rbacv1.RoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: p.name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: p.name, Name: "errand"}},
	})}
}

func (p *site) clusterRole(name string, aggregation *rbacv1.AggregationRule, rules ...rbacv1.PolicyRule) Request {
	return Request{GVR: rolesOf("clusterroles"), Name: name, Verbs: owning, Object: object(p.t, &rbacv1.ClusterRole{
		TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: rules, AggregationRule: aggregation,
	})}
}

// TestRightsThatChange are heard of at once, both ways, by whatever object they change. What does not concern the executor
// leaves its answers alone.
func TestRightsThatChange(t *testing.T) {
	p := newSite(t, "changing")
	c := p.checker()
	notices := p.run(c)
	check := func() error { return c.Check(p.ctx, p.executor(), p.configMap("one", owning)) }
	var denied *Denied
	require.ErrorAs(t, check(), &denied)
	require.Eventually(t, c.answers.listening, patience, tick)
	told := notices.Load()
	becomes := func(t *testing.T, allowed bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			err := check()
			return notices.Load() > told && (err == nil) == allowed && (allowed || errors.As(err, &denied))
		}, patience, tick)
		told = notices.Load()
	}
	all := rule(owning, "", "configmaps")
	var revoke func()
	for _, step := range []struct {
		name    string
		change  func()
		allowed bool
	}{
		{"a binding comes", func() { revoke = p.grant("all", all) }, true},
		{"its role says less", func() { p.changeRole("all", rule([]string{"get"}, "", "configmaps")) }, false},
		{"and as much as before", func() { p.changeRole("all", all) }, true},
		{"the binding goes", func() { revoke() }, false},
		{"a binding of the cluster comes", func() { revoke = p.clusterGrant("changing", all) }, true},
		{"and goes", func() { revoke() }, false},
	} {
		t.Run(step.name, func(t *testing.T) {
			step.change()
			becomes(t, step.allowed)
		})
	}

	t.Run("others' rights are no news", func(t *testing.T) {
		t.Cleanup(p.clusterGrant("changing", all))
		becomes(t, true)
		c.answers.mu.Lock()
		epoch := c.answers.epoch
		c.answers.mu.Unlock()
		p.makeRole("others", all)
		p.makeBinding("others", "others")
		p.changeRole("others", rule([]string{"get"}, "", "configmaps"))
		p.makeBindingTo("last", "others", "another") // once this one is known, so are the others
		require.Eventually(t, func() bool {
			c.bindings.mu.Lock()
			defer c.bindings.mu.Unlock()
			return len(c.bindings.bound[place{"changing", "last"}].subjects) == 1
		}, patience, tick)
		c.answers.mu.Lock()
		defer c.answers.mu.Unlock()
		require.Equal(t, epoch, c.answers.epoch)
		require.Equal(t, told, notices.Load())
	})
}

// run lets a checker watch until the test ends, and counts what it tells.
func (p *site) run(c *Checker) *atomic.Int32 {
	p.t.Helper()
	notices := &atomic.Int32{}
	running, end := context.WithCancel(p.ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(running, func() { notices.Add(1) }) }()
	p.t.Cleanup(func() {
		end()
		require.NoError(p.t, <-ended)
	})
	return notices
}

func (p *site) changeRole(name string, rules ...rbacv1.PolicyRule) {
	p.t.Helper()
	role, err := p.kube.RbacV1().Roles(p.name).Get(p.ctx, name, metav1.GetOptions{})
	require.NoError(p.t, err)
	role.Rules = rules
	_, err = p.kube.RbacV1().Roles(p.name).Update(p.ctx, role, metav1.UpdateOptions{})
	require.NoError(p.t, err)
}

func (a *answers) listening() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.watched()
}

// TestAgentWithFewRights may review and nothing else: it cannot watch, and cannot speak in an executor's name.
func TestAgentWithFewRights(t *testing.T) {
	p := newSite(t, "few")
	t.Cleanup(p.clusterGrant("few", rule([]string{"create"}, "authorization.k8s.io", "subjectaccessreviews")))
	p.grant("writer", rule(owning, rbacv1.GroupName, "roles"))
	p.settled(p.checker(), question{account: account{p.name, "errand"}, verb: "get", gvr: rolesOf("roles"), namespace: p.name}, true)
	p.settled(p.checker(), question{account: account{p.name, "errand"}, verb: "create", gvr: schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews"}}, true)
	clock := clocktesting.NewFakeClock(time.Now())
	c, err := New(Config{Log: quiet(), Spoke: p.token("errand"), Clock: clock})
	require.NoError(t, err)
	p.run(c)
	require.NoError(t, c.Check(p.ctx, p.executor(), Request{GVR: rolesOf("roles"), Namespace: p.name, Name: "x", Verbs: []string{"get"}}))
	require.Eventually(t, func() bool {
		c.answers.mu.Lock()
		defer c.answers.mu.Unlock()
		return len(c.answers.running) == len(deciding)
	}, patience, tick)
	require.False(t, c.answers.listening())

	err = c.Check(p.ctx, p.executor(), p.role("new", rule([]string{"get"}, "", "configmaps")))
	require.ErrorContains(t, err, "cannot impersonate")
	var denied *Denied
	require.False(t, errors.As(err, &denied), "it is the agent that lacks something, not the executor: %v", err)

	p.grant("escalates", rule([]string{"escalate"}, rbacv1.GroupName, "roles"))
	p.settled(c, question{account: account{p.name, "errand"}, verb: "escalate", gvr: rolesOf("roles"), namespace: p.name}, true)
	clock.Step(deniedAge + time.Second)
	require.NoError(t, c.Check(p.ctx, p.executor(), p.role("new", rule([]string{"get"}, "", "configmaps"))), "reviews alone say that this executor may")

	t.Cleanup(p.clusterGrant("few-watches", rule([]string{"list", "watch"}, rbacv1.GroupName, "*")))
	require.Eventually(t, func() bool {
		clock.Step(forbiddenAgain / 2)
		return c.answers.listening()
	}, patience, tick, "it watches once it may")
}

// token is the access of a service account.
func (p *site) token(name string) *rest.Config {
	p.t.Helper()
	_, err := p.kube.CoreV1().ServiceAccounts(p.name).Create(p.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(p.t, err)
	made, err := p.kube.CoreV1().ServiceAccounts(p.name).CreateToken(p.ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(p.t, err)
	config := rest.AnonymousClientConfig(p.cfg)
	config.BearerToken = made.Status.Token
	return config
}
