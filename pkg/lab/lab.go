package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Lab is a handle on the lab in one folder, whether or not its parts run.
type Lab struct {
	dir   string
	mu    sync.Mutex // over state and its file
	state state
}

// Open returns the lab in dir, or an error that is ErrNotALab.
func Open(dir string) (*Lab, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	s, err := loadState(dir)
	if err != nil {
		return nil, err
	}
	return &Lab{dir: dir, state: s}, nil
}

// HubPart is the name of the hub among the parts.
const HubPart = string(RoleHub)

// APIServerPart names the part that is a cluster's kube-apiserver with its database.
func APIServerPart(cluster string) string { return partName(RoleAPIServer, cluster) }

// ControllerManagerPart names the part that is a cluster's kube-controller-manager with its simulated nodes.
func ControllerManagerPart(cluster string) string { return partName(RoleControllerManager, cluster) }

// AgentPart names the part that is a cluster's agent.
func AgentPart(cluster string) string { return partName(RoleAgent, cluster) }

func partName(role Role, cluster string) string { return string(role) + "-" + cluster }

// ClusterName is the name of the n-th cluster of a lab, counted from one.
func ClusterName(n int) string { return fmt.Sprintf("cluster%d", n) }

// Dir is the lab's folder.
func (l *Lab) Dir() string { return l.dir }

// Clusters names the managed clusters.
func (l *Lab) Clusters() []string {
	var names []string
	for _, p := range l.Parts() {
		if p.Role == RoleAPIServer {
			names = append(names, p.Cluster)
		}
	}
	return names
}

// HubKubeconfig is the file with an administrator's access to the hub.
func (l *Lab) HubKubeconfig() string { return filepath.Join(l.dir, "hub.kubeconfig") }

// ClusterKubeconfig is the file with an administrator's access to a managed cluster.
func (l *Lab) ClusterKubeconfig(cluster string) string {
	return filepath.Join(l.dir, cluster+".kubeconfig")
}

// Hub is an administrator's access to the hub.
func (l *Lab) Hub() (*rest.Config, error) { return readKubeconfig(l.HubKubeconfig()) }

// Cluster is an administrator's access to a managed cluster.
func (l *Lab) Cluster(name string) (*rest.Config, error) {
	return readKubeconfig(l.ClusterKubeconfig(name))
}

func readKubeconfig(file string) (*rest.Config, error) {
	c, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", file, err)
	}
	return c, nil
}

// LogFile is where a part writes its log.
func (l *Lab) LogFile(part string) string { return filepath.Join(l.logs(), part+".log") }

// DataDir is the folder that a part has for itself. The two processes of a managed cluster share one.
func (l *Lab) DataDir(p Part) string {
	switch p.Role {
	case RoleHub, RoleAgent:
		return filepath.Join(l.dir, p.Name)
	default:
		return filepath.Join(l.dir, p.Cluster)
	}
}

func (l *Lab) logs() string { return filepath.Join(l.dir, "logs") }

// tokenFile is where a cluster's join token waits for its agent.
func (l *Lab) tokenFile(cluster string) string { return filepath.Join(l.dir, cluster, "join-token") }

// made lists what a lab puts into its folder, the state last: with it, what is left can still be removed.
func (l *Lab) made() []string {
	names := []string{l.logs(), l.HubKubeconfig()}
	for _, p := range l.Parts() {
		names = append(names, l.DataDir(p))
		if p.Cluster != "" {
			names = append(names, l.ClusterKubeconfig(p.Cluster))
		}
	}
	slices.Sort(names)
	return append(slices.Compact(names), filepath.Join(l.dir, stateFile))
}

// lock keeps every other command that changes the lab in dir out until the returned function is called, or this process
// ends.
func lock(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lab in %s: %w", dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lab in %s: another command is bringing it up or taking it down; wait for it or end it", dir)
		}
		return nil, fmt.Errorf("lab in %s: lock: %w", dir, err)
	}
	return func() { f.Close() }, nil
}
