// Package cluster is one managed cluster of a lab, without nodes: a real kube-apiserver with etcd in the same process, and
// a real kube-controller-manager, both as libraries. Each runs in a process of its own; what they share is the folder that
// Prepare fills, so no secret ever stands on a command line.
package cluster

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"

	"nave/pkg/pki"
)

const (
	// loopback is where a cluster listens. A lab is for the people on this machine.
	loopback = "127.0.0.1"

	// services is the range of service addresses, and firstService the address of the service "kubernetes" in it.
	services     = "10.96.0.0/16"
	firstService = "10.96.0.1"
)

// folder names the files of one cluster.
type folder string

func (f folder) authority() string     { return filepath.Join(string(f), "pki", "ca.pem") } // with the key
func (f folder) authorityCert() string { return filepath.Join(string(f), "pki", "ca.crt") } // without: clusters publish it
func (f folder) server() string        { return filepath.Join(string(f), "pki", "server.pem") }
func (f folder) admin() string         { return filepath.Join(string(f), "pki", "admin.pem") }
func (f folder) serviceAccount() string {
	return filepath.Join(string(f), "pki", "service-account.key")
}
func (f folder) kubeconfig() string { return filepath.Join(string(f), "admin.kubeconfig") }
func (f folder) etcd() string       { return filepath.Join(string(f), "etcd") }

// Prepare makes what the processes of the cluster need in its folder: certificates, keys, and a kubeconfig for the address.
// What is there already stays, except the kubeconfig. It returns the content of the kubeconfig, which is an administrator's.
func Prepare(name, dir, address string, now time.Time) ([]byte, error) {
	f := folder(dir)
	ca, err := pki.LoadAuthority(f.authority(), name+"-ca", now)
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", name, err)
	}
	hosts := []string{loopback, firstService, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	if _, err := ca.LoadLeaf(f.server(), pki.Leaf{CommonName: "kube-apiserver", Hosts: hosts}, now); err != nil {
		return nil, fmt.Errorf("prepare %s: %w", name, err)
	}
	admin, err := ca.LoadLeaf(f.admin(), pki.Leaf{CommonName: "lab-admin", Organizations: []string{"system:masters"}}, now)
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", name, err)
	}
	text, err := kubeconfig(name, address, ca.Certificate, admin)
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", name, err)
	}
	err = errors.Join(
		pki.WriteFile(f.authorityCert(), pki.CertificatePEM(ca.Certificate), 0o600),
		keepKey(f.serviceAccount()),
		pki.WriteFile(f.kubeconfig(), text, 0o600),
	)
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", name, err)
	}
	return text, nil
}

// keepKey makes a private key unless the file has one.
func keepKey(file string) error {
	_, err := os.Stat(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, err := pki.NewKey()
	if err != nil {
		return err
	}
	// Kubernetes reads the public half out of this older encoding, and not out of PKCS #8.
	text, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	return pki.WriteFile(file, text, 0o600)
}

func kubeconfig(name, address string, ca *x509.Certificate, admin *pki.Pair) ([]byte, error) {
	key, err := pki.KeyPEM(admin.Key)
	if err != nil {
		return nil, err
	}
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + address, CertificateAuthorityData: pki.CertificatePEM(ca)}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: pki.CertificatePEM(admin.Certificate), ClientKeyData: key}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	text, err := clientcmd.Write(*c)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return text, nil
}

// Kubeconfig is where Prepare leaves the administrator's kubeconfig of the cluster in this folder.
func Kubeconfig(dir string) string { return folder(dir).kubeconfig() }
