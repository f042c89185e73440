package simulator

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// leaseSeconds and leaseRenewal are a kubelet's, so that whoever judges nodes by their lease finds them alive.
	leaseSeconds = 40
	leaseRenewal = 10 * time.Second
)

// nodeName names the node with this index, counted from one for people.
func nodeName(cluster string, index int) string { return fmt.Sprintf("%s-node-%d", cluster, index+1) }

// nodeNumber is the inverse; it also serves nodes that somebody else made, which share the number zero.
func nodeNumber(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil || n < 1 || n > maxNodes {
		return 0
	}
	return n
}

// reconcileNode makes the node if it is missing, keeps its status, and renews its lease; it asks to be called again for that.
func (s *Simulator) reconcileNode(ctx context.Context, name string) (time.Duration, error) {
	nodes := s.Client.CoreV1().Nodes()
	node, err := nodes.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		node, err = nodes.Create(ctx, newNode(name), metav1.CreateOptions{})
	}
	if err != nil {
		return 0, fmt.Errorf("node %s: %w", name, err)
	}
	version, err := s.Client.Discovery().ServerVersion()
	if err != nil {
		return 0, fmt.Errorf("node %s: version of the cluster: %w", name, err)
	}
	wanted := nodeStatus(node, version.GitVersion, metav1.NewTime(s.Clock.Now()))
	if !equality.Semantic.DeepEqual(node.Status, wanted) {
		node.Status = wanted
		if _, err := nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
			return 0, fmt.Errorf("status of node %s: %w", name, err)
		}
	}
	return leaseRenewal, s.renewLease(ctx, node)
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname:   name,
			corev1.LabelOSStable:   "linux",
			corev1.LabelArchStable: runtime.GOARCH,
		}},
		Spec: corev1.NodeSpec{PodCIDR: address(nodeNumber(name), 0) + "/16", PodCIDRs: []string{address(nodeNumber(name), 0) + "/16"}},
	}
}

// nodeStatus is the status that the node should have; what it has of it already keeps its times.
func nodeStatus(node *corev1.Node, version string, now metav1.Time) corev1.NodeStatus {
	status := *node.Status.DeepCopy()
	status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("8"),
		corev1.ResourceMemory:           resource.MustParse("32Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		corev1.ResourcePods:             resource.MustParse("1000"),
	}
	status.Allocatable = status.Capacity.DeepCopy()
	status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: nodeAddress(node.Name)},
		{Type: corev1.NodeHostName, Address: node.Name},
	}
	status.NodeInfo.KubeletVersion = version
	status.NodeInfo.ContainerRuntimeVersion = "simulated://"
	status.NodeInfo.OperatingSystem = "linux"
	status.NodeInfo.Architecture = runtime.GOARCH
	for _, c := range []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "Simulated"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "Simulated"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "Simulated"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated", Message: "the node is simulated"},
	} {
		setNodeCondition(&status, c, now)
	}
	return status
}

func setNodeCondition(status *corev1.NodeStatus, c corev1.NodeCondition, now metav1.Time) {
	c.LastTransitionTime, c.LastHeartbeatTime = now, now
	for i, old := range status.Conditions {
		if old.Type == c.Type {
			if old.Status != c.Status {
				status.Conditions[i] = c
			}
			return
		}
	}
	status.Conditions = append(status.Conditions, c)
}

func (s *Simulator) renewLease(ctx context.Context, node *corev1.Node) error {
	leases := s.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	spec := coordinationv1.LeaseSpec{
		HolderIdentity:       ptr.To(node.Name),
		LeaseDurationSeconds: ptr.To[int32](leaseSeconds),
		RenewTime:            ptr.To(metav1.NewMicroTime(s.Clock.Now())),
	}
	lease, err := leases.Get(ctx, node.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: []metav1.OwnerReference{owner}},
			Spec:       spec,
		}, metav1.CreateOptions{})
	} else if err == nil {
		lease.Spec = spec
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("lease of node %s: %w", node.Name, err)
	}
	return nil
}
