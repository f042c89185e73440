package registration

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nave/pkg/identity"
	"nave/pkg/uplink"
)

// Keys of the secret, and names of the files, in which an agent's identity is kept (spec 2.1).
const (
	keyKubeconfig  = "kubeconfig"
	keyCluster     = "cluster-name"
	keyAgent       = "agent-name"
	keyCertificate = "tls.crt"
	keyKey         = "tls.key"

	// Beside those of upstream: the mark of the bootstrap kubeconfig, and the id of the join token, that it was got with.
	keyMark  = "nave-bootstrap"
	keyToken = "nave-join-token"
	// keySigner is Credentials.Signer.
	keySigner = "nave-signer"
	// keyPending holds the identity that the hub has been asked for, as JSON of the keys of this one.
	keyPending = "nave-pending"
)

// Credentials are an agent's identity on a hub.
type Credentials struct {
	Server      string // URL of the hub
	ServerName  string // that the hub's certificate is for, if it is not the host of the URL
	Proxy       string // URL
	Entry       string // what the hub is called in the kubeconfig
	CA          []byte // PEM of the hub's CA; the system's if empty
	Agent       identity.Agent
	Certificate []byte // PEM; empty while the hub has not issued one
	Key         []byte // PEM
	Mark        string // of the bootstrap kubeconfig that led here, see Bootstrap.mark
	Token       string // id of the join token that led here
	// Signer names the CA that signed for the hub when the certificate was issued; empty where that is not known. A hub
	// replaces the CA that signs for agents together with it.
	Signer string
}

// data is the form in which upstream's klusterlet keeps them: the kubeconfig refers to the other keys as files.
func (c Credentials) data() (map[string][]byte, error) {
	endpoint := c.Endpoint()
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{c.Entry: &endpoint},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"default-auth": {ClientCertificate: keyCertificate, ClientKey: keyKey}},
		Contexts:       map[string]*clientcmdapi.Context{"default-context": {Cluster: c.Entry, AuthInfo: "default-auth", Namespace: "configuration"}},
		CurrentContext: "default-context",
	})
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}
	return map[string][]byte{
		keyKubeconfig: text, keyCluster: []byte(c.Agent.Cluster), keyAgent: []byte(c.Agent.Name), keyCertificate: c.Certificate, keyKey: c.Key,
		keyMark: []byte(c.Mark), keyToken: []byte(c.Token), keySigner: []byte(c.Signer),
	}, nil
}

// fromData reads what data wrote, or what an upstream klusterlet left.
func fromData(data map[string][]byte) (Credentials, error) {
	c := Credentials{
		Agent:       identity.Agent{Cluster: string(data[keyCluster]), Name: string(data[keyAgent])},
		Certificate: data[keyCertificate], Key: data[keyKey], Mark: string(data[keyMark]), Token: string(data[keyToken]), Signer: string(data[keySigner]),
	}
	if len(data[keyKubeconfig]) == 0 {
		return c, errNone // upstream's operator makes the secret with the names alone
	}
	config, err := clientcmd.Load(data[keyKubeconfig])
	if err != nil {
		return c, fmt.Errorf("kubeconfig of the hub: %w", err)
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil || config.Clusters[context.Cluster] == nil {
		return c, errors.New("kubeconfig of the hub names no cluster in its current context")
	}
	cluster := config.Clusters[context.Cluster]
	c.Server, c.ServerName, c.Proxy = cluster.Server, cluster.TLSServerName, cluster.ProxyURL
	c.CA, c.Entry = cluster.CertificateAuthorityData, context.Cluster
	return c, nil
}

// Endpoint is the hub that the credentials are for, as kubeconfigs name it.
func (c Credentials) Endpoint() clientcmdapi.Cluster {
	return clientcmdapi.Cluster{Server: c.Server, TLSServerName: c.ServerName, ProxyURL: c.Proxy, CertificateAuthorityData: c.CA}
}

// Target is the hub that the credentials are for, and the credentials.
func (c Credentials) Target() uplink.Target {
	target := uplink.Target{Server: c.Server, ServerName: c.ServerName, CA: c.CA, Certificate: c.Certificate, Key: c.Key}
	if proxy, err := parseProxy(c.Proxy); err == nil {
		target.Proxy = proxy
	}
	return target
}

// leaf is the certificate, if there is one that belongs to the key.
func (c Credentials) leaf() (*x509.Certificate, error) {
	if len(c.Certificate) == 0 {
		return nil, errors.New("there is no certificate yet")
	}
	pair, err := tls.X509KeyPair(c.Certificate, c.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate and key: %w", err)
	}
	return x509.ParseCertificate(pair.Certificate[0])
}

// usable says why the credentials cannot be used for this agent now, or nil (spec 2.1).
func (c Credentials) usable(now time.Time) error {
	leaf, err := c.leaf()
	if err != nil {
		return err
	}
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("the certificate expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if leaf.Subject.CommonName != c.Agent.User() {
		return fmt.Errorf("the certificate is for %s, not for %s", leaf.Subject.CommonName, c.Agent.User())
	}
	if _, err := parseBundle(c.CA); err != nil {
		return fmt.Errorf("the CA of the hub: %w", err)
	}
	return nil
}
