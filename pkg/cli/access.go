package cli

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"

	"nave/pkg/hub"
)

// access is how verbs that act on a hub reach it: by its administrator's kubeconfig, or any other.
type access struct {
	dataDir    string
	kubeconfig string
}

func (a *access) addFlags(flags *pflag.FlagSet) {
	addDataDir(flags, &a.dataDir)
	flags.StringVar(&a.kubeconfig, "kubeconfig", "", "access to the hub; its administrator's in --data-dir if empty")
}

func (a *access) file() string {
	if a.kubeconfig != "" {
		return a.kubeconfig
	}
	return hub.AdminKubeconfig(a.dataDir)
}

// clients of the hub.
type clients struct {
	config   *rest.Config
	kube     *kubernetes.Clientset
	clusters *clusterclient.Clientset
	works    *workclient.Clientset
	addons   *addonclient.Clientset
	metadata metadata.Interface
}

func (a *access) connect() (*clients, error) {
	file := a.file()
	if _, err := os.Stat(file); err != nil {
		if errors.Is(err, fs.ErrNotExist) && a.kubeconfig == "" {
			return nil, fmt.Errorf("no hub has its data in %s (there is no %s); name its directory with --data-dir, or a kubeconfig with --kubeconfig", a.dataDir, file)
		}
		return nil, fmt.Errorf("kubeconfig of the hub: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s cannot be used: %w", file, err)
	}
	config.QPS = -1 // a person waits, and the hub's own priority and fairness is the limit
	c := &clients{config: config}
	var errs [5]error
	c.kube, errs[0] = kubernetes.NewForConfig(config)
	c.clusters, errs[1] = clusterclient.NewForConfig(config)
	c.works, errs[2] = workclient.NewForConfig(config)
	c.addons, errs[3] = addonclient.NewForConfig(config)
	c.metadata, errs[4] = metadata.NewForConfig(config)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("kubeconfig %s cannot be used: %w", file, err)
	}
	if _, err := c.kube.Discovery().ServerVersion(); err != nil {
		return nil, fmt.Errorf("hub at %s does not answer: %w; is it running", config.Host, err)
	}
	return c, nil
}

// ca is the hub's CA, which tokens pin.
func (c *clients) ca() (*x509.Certificate, error) {
	if err := rest.LoadTLSFiles(c.config); err != nil {
		return nil, fmt.Errorf("CA of the hub: %w", err)
	}
	block, _ := pem.Decode(c.config.CAData)
	if block == nil {
		return nil, errors.New("the kubeconfig holds no CA of the hub, so a token cannot pin it")
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("CA of the hub: %w", err)
	}
	return ca, nil
}
