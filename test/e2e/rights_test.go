package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

const (
	agentNamespace = "open-cluster-management-agent"
	agentAccount   = "nave-agent"
	agentUser      = "system:serviceaccount:open-cluster-management-agent:nave-agent"
)

// TestAgentRights is an agent with an account of its own: first with the narrow roles that are shipped, to which one is added
// as the work's condition says (case ocm-384), then with the default ones.
func TestAgentRights(t *testing.T) {
	b, ctx := start(t)
	const cluster = "rights"
	kubectl := func(t *testing.T, arguments ...string) {
		t.Helper()
		_, stderr, code := b.run(t, append([]string{"kubectl", "--kubeconfig", b.ClusterKubeconfig(second)}, arguments...)...)
		require.Zero(t, code, "kubectl %v: %s", arguments, stderr)
	}
	shipped := func(name string) string { return filepath.Join("..", "..", "manifests", "agent", name) }
	t.Cleanup(func() { b.removeAgentRights(t) })
	kubectl(t, "apply", "-f", shipped("account.yaml"))
	kubectl(t, "create", "clusterrole", "nave-agent-maps", "--verb=get,list,watch,create,update,patch,delete", "--resource=configmaps")
	kubectl(t, "label", "clusterrole", "nave-agent-maps", "open-cluster-management.io/aggregate-to-work=true")

	token, stderr, code := b.run(t, "token", "create", "--data-dir", b.hubData(t), "--auto-accept")
	require.Zero(t, code, stderr)
	agent := startAgentWith(t, b, b.agentKubeconfig(t, ctx), strings.TrimSpace(token), cluster, t.TempDir())
	t.Cleanup(func() { _, _, _ = b.run(t, "cluster", "remove", "--data-dir", b.hubData(t), cluster) })
	eventually(t, ctx, "it joins, and says what it sees of the cluster", func() error {
		mc, err := b.managedCluster(ctx, cluster)
		if err != nil {
			return err
		}
		if len(mc.Status.Capacity) == 0 {
			return errors.New("no nodes are reported")
		}
		return conditionIs(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable, metav1.ConditionTrue, 0)
	})

	t.Run("what is forbidden is told, and the rest is applied", func(t *testing.T) {
		b.newWork(t, ctx, cluster, "hooks", webhook("harbour-guard.example.test", "default"), configMap("default", "hooks-ok", "v"))
		eventually(t, ctx, "the other manifest is applied", func() error { return b.valueOf(ctx, second, "default", "hooks-ok", "v") })
		var said string
		eventually(t, ctx, "the condition says what is missing", func() error {
			var err error
			said, err = b.appliedFalse(ctx, cluster, "hooks", 0)
			return err
		})
		for _, part := range []string{agentUser, "patch", `"validatingwebhookconfigurations"`, `"admissionregistration.k8s.io"`} {
			require.Contains(t, said, part)
		}
		require.NotContains(t, agent.log.String(), "panic")

		_, commands, found := strings.Cut(said, "run on the managed cluster: ")
		require.True(t, found, said)
		commands, _, _ = strings.Cut(commands, " (") // what else there is to say
		for command := range strings.SplitSeq(commands, " && ") {
			kubectl(t, strings.Fields(command)[1:]...)
		}
		eventually(t, ctx, "it heals by itself", func() error { return b.appliedAndAvailable(ctx, cluster, "hooks") })
		b.removeWork(t, cluster, "hooks")
	})

	t.Run("what may not be deleted is told", func(t *testing.T) {
		kubectl(t, "create", "clusterrole", "nave-agent-ranges", "--verb=get,list,watch,create,patch", "--resource=limitranges")
		kubectl(t, "label", "clusterrole", "nave-agent-ranges", "open-cluster-management.io/aggregate-to-work=true")
		b.newWork(t, ctx, cluster, "kept", `{apiVersion: v1, kind: LimitRange, metadata: {name: kept, namespace: default}, spec: {limits: [{type: Container, max: {cpu: 1k}}]}}`)
		eventually(t, ctx, "it is applied", func() error { return b.appliedAndAvailable(ctx, cluster, "kept") })
		require.NoError(t, b.works.WorkV1().ManifestWorks(cluster).Delete(ctx, "kept", metav1.DeleteOptions{}))
		eventually(t, ctx, "the work says why it is not gone", func() error {
			work, err := b.works.WorkV1().ManifestWorks(cluster).Get(ctx, "kept", metav1.GetOptions{})
			if err != nil {
				return err
			}
			c := meta.FindStatusCondition(work.Status.Conditions, workv1.WorkDeleting)
			if c == nil || !strings.Contains(c.Message, "limitranges default/kept cannot be taken off") || !strings.Contains(c.Message, "kubectl create clusterrole") {
				return fmt.Errorf("the condition is %v", c)
			}
			return nil
		})
		kubectl(t, "create", "clusterrole", "nave-agent-ranges-too", "--verb=delete", "--resource=limitranges")
		kubectl(t, "label", "clusterrole", "nave-agent-ranges-too", "open-cluster-management.io/aggregate-to-work=true")
		b.removeWork(t, cluster, "kept")
	})

	t.Run("works with an executor", func(t *testing.T) {
		kubectl(t, "create", "clusterrole", "nave-agent-roles", "--verb=get,list,watch,create,update,patch,delete", "--resource=roles.rbac.authorization.k8s.io")
		kubectl(t, "label", "clusterrole", "nave-agent-roles", "open-cluster-management.io/aggregate-to-work=true")
		kubectl(t, "create", "role", "errand", "--verb=get,create,update,patch,delete", "--resource=configmaps,roles.rbac.authorization.k8s.io")
		kubectl(t, "create", "rolebinding", "errand", "--role=errand", "--serviceaccount=default:errand")
		t.Cleanup(func() { kubectl(t, "delete", "role/errand", "rolebinding/errand") })
		b.newExecutedWork(t, ctx, cluster, "errands", "default", nil, configMap("default", "errands", "v"),
			"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: errands, namespace: default}, rules: [{apiGroups: [\"\"], resources: [configmaps], verbs: [get]}]}")
		eventually(t, ctx, "what takes no more than reviews is applied", func() error { return b.valueOf(ctx, second, "default", "errands", "v") })
		eventually(t, ctx, "the condition says what the agent lacks", func() error {
			said, err := b.appliedFalse(ctx, cluster, "errands", 1)
			if err == nil && !strings.Contains(said, "cannot impersonate") {
				err = errors.New(said)
			}
			return err
		})
		kubectl(t, "apply", "-f", shipped("executors.yaml"))
		eventually(t, ctx, "with the shipped role all of it is applied", func() error { return b.appliedAndAvailable(ctx, cluster, "errands") })
		b.removeWork(t, cluster, "errands")
	})

	t.Run("what a chart brings is applied with the default roles", func(t *testing.T) {
		kubectl(t, "apply", "-f", shipped("account.yaml"), "-f", shipped("everything.yaml"))
		b.newWork(t, ctx, cluster, "chart", chart("regatta")...)
		eventually(t, ctx, "all of it is applied", func() error { return b.appliedAndAvailable(ctx, cluster, "chart") })
		eventually(t, ctx, "the deployment is ready", func() error {
			d, err := b.spokes[second].AppsV1().Deployments("regatta-system").Get(ctx, "regatta", metav1.GetOptions{})
			if err == nil && d.Status.ReadyReplicas != 1 {
				err = fmt.Errorf("%d of 1 replicas are ready", d.Status.ReadyReplicas)
			}
			return err
		})
		b.removeWork(t, cluster, "chart")
		_, err := b.spokes[second].CoreV1().Namespaces().Get(ctx, "regatta-system", metav1.GetOptions{})
		require.NoError(t, gone(err), "what is forbidden is not left behind")
	})
}

// agentKubeconfig is a kubeconfig with a token of the shipped account, on the second cluster.
func (b *bench) agentKubeconfig(t *testing.T, ctx context.Context) string {
	t.Helper()
	made, err := b.spokes[second].CoreV1().ServiceAccounts(agentNamespace).CreateToken(ctx, agentAccount, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	admin, err := b.Cluster(second)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: admin.Host, CertificateAuthorityData: admin.CAData, CertificateAuthority: admin.CAFile}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"agent": {Token: made.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "agent"}},
		CurrentContext: "c",
	}, file))
	return file
}

// removeAgentRights takes off what the test gave, and leaves the namespace, which the lab's own agent uses.
func (b *bench) removeAgentRights(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rbac := b.spokes[second].RbacV1()
	roles, err := rbac.ClusterRoles().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	for _, role := range roles.Items {
		if strings.HasPrefix(role.Name, agentAccount) {
			require.NoError(t, rbac.ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{}))
		}
	}
	require.NoError(t, errors.Join(
		rbac.ClusterRoleBindings().Delete(ctx, agentAccount, metav1.DeleteOptions{}),
		rbac.RoleBindings(agentNamespace).Delete(ctx, agentAccount, metav1.DeleteOptions{}),
		rbac.Roles(agentNamespace).Delete(ctx, agentAccount, metav1.DeleteOptions{}),
		b.spokes[second].CoreV1().ServiceAccounts(agentNamespace).Delete(ctx, agentAccount, metav1.DeleteOptions{}),
	))
}

// appliedFalse is what a manifest's condition says that is not applied; an error while it is, or nothing is known of it.
func (b *bench) appliedFalse(ctx context.Context, cluster, name string, ordinal int) (string, error) {
	work, err := b.works.WorkV1().ManifestWorks(cluster).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if len(work.Status.ResourceStatus.Manifests) <= ordinal {
		return "", errors.New("nothing is reported")
	}
	conditions := work.Status.ResourceStatus.Manifests[ordinal].Conditions
	if err := conditionIs(conditions, workv1.ManifestApplied, metav1.ConditionFalse, work.Generation); err != nil {
		return "", err
	}
	return meta.FindStatusCondition(conditions, workv1.ManifestApplied).Message, nil
}

func webhook(name, namespace string) string {
	return fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %s}
webhooks:
- name: guard.example.test
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  clientConfig: {service: {namespace: %s, name: guard, path: /v}}
  rules: [{apiGroups: [fleet.example.test], apiVersions: [v1], operations: [CREATE], resources: [voyages]}]`, name, namespace)
}

// chart is what a Helm chart of an operator comes to: a definition and an object of it, roles that grant what nobody else
// has, workloads, and a webhook; with a namespace on everything, as charts have it.
func chart(name string) []string {
	at := func(name string) string { return "{name: " + name + ", namespace: " + name + "-system}" }
	return []string{
		namespace(name + "-system"),
		fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: voyages.%[1]s.example.test}
spec:
  group: %[1]s.example.test
  scope: Namespaced
  names: {kind: Voyage, listKind: VoyageList, plural: voyages, singular: voyage}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {port: {type: string}}}}}}}]`, name),
		fmt.Sprintf("{apiVersion: %s.example.test/v1, kind: Voyage, metadata: %s, spec: {port: north}}", name, at(name)),
		"{apiVersion: v1, kind: ServiceAccount, metadata: " + at(name) + "}",
		fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: %s
rules:
- {apiGroups: [%s.example.test], resources: ["*"], verbs: ["*"]}
- {apiGroups: [""], resources: [pods/exec, secrets], verbs: [create, get, deletecollection]}
- {nonResourceURLs: [/metrics], verbs: [get]}`, at(name), name),
		fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: %[2]s
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}
subjects: [{kind: ServiceAccount, name: %[1]s, namespace: %[1]s-system}]`, name, at(name)),
		configMap(name+"-system", name, "v"),
		fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: %s, spec: {selector: {app: %s}, ports: [{port: 80}]}}", at(name), name),
		deployment(name+"-system", name, 1),
		fmt.Sprintf("{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: %s, spec: {maxUnavailable: 1, selector: {matchLabels: {app: %s}}}}", at(name), name),
		webhook(name+".example.test", name+"-system"),
		fmt.Sprintf("{apiVersion: batch/v1, kind: Job, metadata: {name: init, namespace: %s-system}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: init, image: example.com/none:1}]}}}}", name),
	}
}
