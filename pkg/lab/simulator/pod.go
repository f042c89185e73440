package simulator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
)

// podsPerNode bounds the addresses of one node: its /16 without the first.
const podsPerNode = 1<<16 - 1

// reconcilePod takes the pod one step further in its life. The next step follows from the event that this one causes.
func (s *Simulator) reconcilePod(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, fmt.Errorf("pod %s: %w", key, err)
	}
	pod, err := s.pods.Pods(namespace).Get(name)
	if err != nil {
		return 0, ignoreGone(err)
	}
	var again time.Duration
	switch {
	case pod.DeletionTimestamp != nil:
		err = s.finish(ctx, pod)
	case pod.Spec.NodeName == "":
		err = s.bind(ctx, pod)
	case pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "":
		err = s.start(ctx, pod)
	case pod.Status.Phase == corev1.PodRunning && pod.Spec.RestartPolicy != corev1.RestartPolicyAlways:
		again, err = s.complete(ctx, pod)
	}
	if err := ignoreGone(err); err != nil {
		return 0, fmt.Errorf("pod %s: %w", key, err)
	}
	return again, nil
}

// finish takes a deleted pod away as a kubelet does once its containers have ended, which here is at once.
func (s *Simulator) finish(ctx context.Context, pod *corev1.Pod) error {
	if ptr.Deref(pod.DeletionGracePeriodSeconds, 1) == 0 {
		return nil // only finalizers hold it now, and they are somebody else's
	}
	options := *metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	return s.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
}

// bind puts the pod on the next node that it may run on. Without one it stays pending until the nodes change.
func (s *Simulator) bind(ctx context.Context, pod *corev1.Pod) error {
	if len(pod.Spec.SchedulingGates) > 0 {
		return nil
	}
	node, err := s.nextNode(pod)
	if err != nil || node == "" {
		return err
	}
	return s.Client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

func (s *Simulator) nextNode(pod *corev1.Pod) (string, error) {
	nodes, err := s.nodes.List(labels.Everything())
	if err != nil {
		return "", fmt.Errorf("list nodes in the cache: %w", err)
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	s.turn.Lock()
	defer s.turn.Unlock()
	for i := range nodes {
		node := nodes[(s.turn.node+i)%len(nodes)]
		ok, err := fits(pod, node)
		if err != nil {
			return "", err
		}
		if ok {
			s.turn.node += i + 1
			return node.Name, nil
		}
	}
	return "", nil
}

// fits checks what decides where a pod runs on a real cluster, except resources: simulated ones never run out.
func fits(pod *corev1.Pod, node *corev1.Node) (bool, error) {
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil {
		return false, fmt.Errorf("node affinity: %w", err)
	}
	taints := slices.Clone(node.Spec.Taints)
	if node.Spec.Unschedulable {
		taints = append(taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	keepsOut := func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
	_, untolerated := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Background(), taints, pod.Spec.Tolerations, keepsOut, false)
	return matches && !untolerated, nil
}

// start makes the pod run and be ready.
func (s *Simulator) start(ctx context.Context, pod *corev1.Pod) error {
	ip, err := s.nextAddress(pod.Spec.NodeName)
	if err != nil {
		return err
	}
	pod = pod.DeepCopy()
	setRunning(pod, ip, metav1.NewTime(s.Clock.Now()))
	_, err = s.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// complete ends a pod that is meant to end, once it has run for long enough; before, it says how long that will be.
func (s *Simulator) complete(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	now := s.Clock.Now()
	if left := s.Completion - now.Sub(pod.Status.StartTime.Time); left > 0 {
		return left, nil
	}
	pod = pod.DeepCopy()
	setSucceeded(pod, metav1.NewTime(now))
	_, err := s.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return 0, err
}

// nextAddress takes the next address of the node that no pod has.
func (s *Simulator) nextAddress(node string) (string, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	for range podsPerNode {
		s.turn.address[node] = s.turn.address[node]%podsPerNode + 1
		ip := address(nodeNumber(node), s.turn.address[node])
		used, err := s.addresses.ByIndex(byIP, ip)
		if err != nil {
			return "", fmt.Errorf("look up address %s: %w", ip, err)
		}
		if len(used) == 0 {
			return ip, nil
		}
	}
	return "", errors.New("all addresses of the node are in use")
}

// address is the n-th of the /16 that belongs to the node with this number.
func address(node, n int) string { return fmt.Sprintf("10.%d.%d.%d", 128+node, n>>8, n&0xff) }

// nodeAddress is the address of the node itself, outside of every range for pods and services.
func nodeAddress(node string) string { return fmt.Sprintf("10.127.0.%d", nodeNumber(node)) }

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
