package simulator

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// reasonCompleted is what a kubelet says of a container that ended well.
const reasonCompleted = "Completed"

// setRunning gives the pod the status of one whose containers have started and are ready.
func setRunning(pod *corev1.Pod, ip string, now metav1.Time) {
	host := nodeAddress(pod.Spec.NodeName)
	if pod.Spec.HostNetwork {
		ip = host
	}
	s := &pod.Status
	s.Phase = corev1.PodRunning
	s.StartTime = &now
	s.HostIP, s.HostIPs = host, []corev1.HostIP{{IP: host}}
	s.PodIP, s.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	s.InitContainerStatuses = nil
	for _, c := range pod.Spec.InitContainers {
		state := ended(now, now)
		if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways { // a sidecar
			state = running
		}
		s.InitContainerStatuses = append(s.InitContainerStatuses, containerStatus(pod, c, state))
	}
	s.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, containerStatus(pod, c, running))
	}
	setPodConditions(pod, corev1.ConditionTrue, "", now)
}

// setSucceeded gives the pod the status of one whose containers have ended well.
func setSucceeded(pod *corev1.Pod, now metav1.Time) {
	s := &pod.Status
	s.Phase = corev1.PodSucceeded
	started := now
	if s.StartTime != nil {
		started = *s.StartTime
	}
	s.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		status := containerStatus(pod, c, ended(started, now))
		status.Ready, status.Started = false, ptr.To(false)
		s.ContainerStatuses = append(s.ContainerStatuses, status)
	}
	setPodConditions(pod, corev1.ConditionFalse, "PodCompleted", now)
}

func ended(started, now metav1.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reasonCompleted, StartedAt: started, FinishedAt: now}}
}

func containerStatus(pod *corev1.Pod, c corev1.Container, state corev1.ContainerState) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name:        c.Name,
		State:       state,
		Ready:       true,
		Started:     ptr.To(true),
		Image:       c.Image,
		ImageID:     c.Image,
		ContainerID: "simulated://" + string(pod.UID) + "/" + c.Name,
	}
}

// setPodConditions sets the conditions that depend on readiness to ready, and the others to what a pod on a node has.
func setPodConditions(pod *corev1.Pod, ready corev1.ConditionStatus, reason string, now metav1.Time) {
	for _, c := range []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		{Type: corev1.PodReadyToStartContainers, Status: ready, Reason: reason},
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: ready, Reason: reason},
		{Type: corev1.PodReady, Status: ready, Reason: reason},
	} {
		c.LastTransitionTime = now
		setPodCondition(&pod.Status, c)
	}
}

func setPodCondition(status *corev1.PodStatus, c corev1.PodCondition) {
	for i, old := range status.Conditions {
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		status.Conditions[i] = c
		return
	}
	status.Conditions = append(status.Conditions, c)
}
