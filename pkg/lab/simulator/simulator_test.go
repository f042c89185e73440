package simulator

import (
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// The life of pods in a real cluster is tested in pkg/lab. Here is what is decided without one.

func TestFits(t *testing.T) {
	named := func(name string) *corev1.Affinity { // as the daemon set controller writes it
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name},
			}}}},
		}}}
	}
	tainted := func(effect corev1.TaintEffect) corev1.NodeSpec {
		return corev1.NodeSpec{Taints: []corev1.Taint{{Key: "gpu", Effect: effect}}}
	}
	for name, row := range map[string]struct {
		pod  corev1.PodSpec
		node corev1.NodeSpec
		want bool
	}{
		"any pod, any node":            {corev1.PodSpec{}, corev1.NodeSpec{}, true},
		"selector that matches":        {corev1.PodSpec{NodeSelector: map[string]string{"disk": "fast"}}, corev1.NodeSpec{}, true},
		"selector that does not match": {corev1.PodSpec{NodeSelector: map[string]string{"disk": "slow"}}, corev1.NodeSpec{}, false},
		"affinity to this node":        {corev1.PodSpec{Affinity: named("n-1")}, corev1.NodeSpec{}, true},
		"affinity to another node":     {corev1.PodSpec{Affinity: named("n-2")}, corev1.NodeSpec{}, false},
		"taint":                        {corev1.PodSpec{}, tainted(corev1.TaintEffectNoSchedule), false},
		"taint that is a preference":   {corev1.PodSpec{}, tainted(corev1.TaintEffectPreferNoSchedule), true},
		"taint that is tolerated":      {corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}, tainted(corev1.TaintEffectNoExecute), true},
		"cordoned node":                {corev1.PodSpec{}, corev1.NodeSpec{Unschedulable: true}, false},
		"cordoned node, tolerated": {corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}},
			corev1.NodeSpec{Unschedulable: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-1", Labels: map[string]string{"disk": "fast"}}, Spec: row.node}
			got, err := fits(&corev1.Pod{Spec: row.pod}, node)
			require.NoError(t, err)
			assert.Equal(t, row.want, got)
		})
	}
}

func TestPodStatus(t *testing.T) {
	began := metav1.NewTime(time.Unix(1000, 0))
	later := metav1.NewTime(time.Unix(1060, 0))
	for name, row := range map[string]struct {
		spec   corev1.PodSpec
		wantIP string
	}{
		"with an init container and a sidecar": {corev1.PodSpec{InitContainers: []corev1.Container{
			{Name: "init"}, {Name: "sidecar", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
		}}, "10.129.0.1"},
		"on the node's network": {corev1.PodSpec{HostNetwork: true}, "10.127.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: row.spec}
			pod.Spec.NodeName = "c-node-1"
			pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}

			setRunning(pod, "10.129.0.1", began)
			assert.Equal(t, corev1.PodRunning, pod.Status.Phase)
			assert.Equal(t, row.wantIP, pod.Status.PodIP)
			assert.Equal(t, "10.127.0.1", pod.Status.HostIP)
			require.Len(t, pod.Status.ContainerStatuses, 1)
			assert.True(t, pod.Status.ContainerStatuses[0].Ready)
			require.Len(t, pod.Status.InitContainerStatuses, len(row.spec.InitContainers))
			for i, c := range row.spec.InitContainers {
				assert.Equal(t, c.RestartPolicy == nil, pod.Status.InitContainerStatuses[i].State.Terminated != nil, c.Name)
			}
			assert.Equal(t, corev1.ConditionTrue, condition(pod, corev1.PodReady).Status)

			setSucceeded(pod, later)
			assert.Equal(t, corev1.PodSucceeded, pod.Status.Phase)
			end := pod.Status.ContainerStatuses[0].State.Terminated
			require.NotNil(t, end)
			assert.Equal(t, began, end.StartedAt)
			assert.Equal(t, later, end.FinishedAt)
			assert.Equal(t, corev1.ConditionFalse, condition(pod, corev1.PodReady).Status)
			assert.Equal(t, later, condition(pod, corev1.PodReady).LastTransitionTime)
			assert.Equal(t, began, condition(pod, corev1.PodScheduled).LastTransitionTime, "it did not change")
			assert.Len(t, pod.Status.Conditions, 5)
		})
	}
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

func TestNodeStatusIsWrittenOnce(t *testing.T) {
	node := newNode("c-node-2")
	assert.Equal(t, "10.130.0.0/16", node.Spec.PodCIDR)
	node.Status = nodeStatus(node, "v1", metav1.NewTime(time.Unix(1000, 0)))
	later := nodeStatus(node, "v1", metav1.NewTime(time.Unix(2000, 0)))
	assert.Equal(t, node.Status, later)
	node.Status.Conditions[3].Status = corev1.ConditionUnknown
	assert.Equal(t, corev1.ConditionTrue, nodeStatus(node, "v1", metav1.NewTime(time.Unix(2000, 0))).Conditions[3].Status)
}

func TestNodeNumber(t *testing.T) {
	for name, want := range map[string]int{"c-node-1": 1, "c-node-100": 100, "c-node-101": 0, "mine": 0, "mine-x": 0, "7": 7} {
		assert.Equal(t, want, nodeNumber(name), name)
	}
	assert.Equal(t, 12, nodeNumber(nodeName("any-cluster-3", 11)))
}

func TestHowManyNodes(t *testing.T) {
	for nodes, ok := range map[int]bool{-1: false, 0: false, 1: true, maxNodes: true, maxNodes + 1: false} {
		_, err := New(Config{Log: logrus.New(), Client: fake.NewClientset(), Cluster: "c", Nodes: nodes, Clock: clock.RealClock{}})
		assert.Equal(t, ok, err == nil, "%d nodes: %v", nodes, err)
	}
}
