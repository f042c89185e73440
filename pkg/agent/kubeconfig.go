package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// k3sKubeconfig is where k3s keeps its administrator's kubeconfig.
const k3sKubeconfig = "/etc/rancher/k3s/k3s.yaml"

// source is a place where access to the managed cluster may be found.
type source struct {
	name string
	load func() (*rest.Config, error)
}

// errAbsent says that a source is not there, as opposed to broken.
var errAbsent = errors.New("is not there")

// SpokeConfig finds access to the managed cluster: the given file, or else the pod's own, k3s's, or that of kubectl.
func SpokeConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig != "" {
		return fromFile(kubeconfig)
	}
	sources := []source{
		{"in-cluster access", func() (*rest.Config, error) {
			config, err := rest.InClusterConfig()
			if errors.Is(err, rest.ErrNotInCluster) {
				return nil, errAbsent
			}
			return config, err
		}},
		{k3sKubeconfig, func() (*rest.Config, error) { return fromFile(k3sKubeconfig) }},
	}
	if home, err := os.UserHomeDir(); err == nil {
		file := filepath.Join(home, ".kube", "config")
		sources = append(sources, source{file, func() (*rest.Config, error) { return fromFile(file) }})
	}
	return firstOf(sources)
}

// firstOf takes the first source that is there. One that is there and broken is not passed over: the next one may be
// another cluster.
func firstOf(sources []source) (*rest.Config, error) {
	var tried []string
	for _, s := range sources {
		config, err := s.load()
		if errors.Is(err, errAbsent) {
			tried = append(tried, s.name)
			continue
		}
		return config, err
	}
	return nil, fmt.Errorf("no access to the cluster that is to be managed: tried %s; name a kubeconfig with --kubeconfig", strings.Join(tried, ", "))
}

func fromFile(file string) (*rest.Config, error) {
	if _, err := os.Stat(file); err != nil {
		if os.IsNotExist(err) {
			return nil, fmt.Errorf("kubeconfig %s %w", file, errAbsent)
		}
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("kubeconfig %s names no cluster", file)
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s cannot be used: %w", file, err)
	}
	return config, nil
}

// certificateAuthority is the CA of the managed cluster as PEM; none if its certificate is a public one.
func certificateAuthority(config *rest.Config) ([]byte, error) {
	if len(config.CAData) > 0 || config.CAFile == "" {
		return config.CAData, nil
	}
	ca, err := os.ReadFile(config.CAFile)
	if err != nil {
		return nil, fmt.Errorf("CA of the managed cluster: %w", err)
	}
	return ca, nil
}
