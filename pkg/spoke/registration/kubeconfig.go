package registration

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// maxKubeconfig bounds a bootstrap kubeconfig in bytes: ten times one with a long CA bundle and a long token.
const maxKubeconfig = 256 << 10

// ParseKubeconfig reads a bootstrap kubeconfig. Only its current context counts, and all that is needed stands in it: it
// comes from somebody else, so it can make the agent neither read other files, nor run anything, nor trust anybody.
func ParseKubeconfig(text []byte) (Bootstrap, error) {
	if len(text) > maxKubeconfig {
		return Bootstrap{}, fmt.Errorf("it is larger than %d bytes", maxKubeconfig)
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		return Bootstrap{}, err
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return Bootstrap{}, fmt.Errorf("its current context %q is not there", config.CurrentContext)
	}
	cluster, user := config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	if cluster == nil {
		return Bootstrap{}, fmt.Errorf("cluster %q of its current context is not there", context.Cluster)
	}
	if user == nil {
		return Bootstrap{}, fmt.Errorf("user %q of its current context is not there", context.AuthInfo)
	}
	b := Bootstrap{
		Server: cluster.Server, ServerName: cluster.TLSServerName, Proxy: cluster.ProxyURL, Entry: context.Cluster,
		CA: cluster.CertificateAuthorityData, Bearer: user.Token, Certificate: user.ClientCertificateData, Key: user.ClientKeyData,
	}
	if err := errors.Join(checkCluster(cluster), checkUser(user)); err != nil {
		return Bootstrap{}, oneLine(err)
	}
	return b, nil
}

func checkCluster(c *clientcmdapi.Cluster) error {
	if err := checkServer(c.Server); err != nil {
		return err
	}
	if c.InsecureSkipTLSVerify {
		return errors.New("insecure-skip-tls-verify would hand the agent's credentials to anybody; give certificate-authority-data instead")
	}
	if c.CertificateAuthority != "" {
		return noFile("certificate-authority")
	}
	if c.ProxyURL != "" {
		if _, err := parseProxy(c.ProxyURL); err != nil {
			return err
		}
	}
	_, err := parseBundle(c.CertificateAuthorityData)
	return err
}

func parseProxy(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme) {
		return nil, errors.New("proxy-url is no URL of a proxy: http, https or socks5")
	}
	return u, nil
}

func checkUser(u *clientcmdapi.AuthInfo) error {
	for _, bad := range []struct {
		there bool
		why   error
	}{
		{u.Exec != nil, errors.New("exec would run a program that the agent does not know; give a token or a client certificate")},
		{u.AuthProvider != nil, errors.New("auth-provider is not supported; give a token or a client certificate")},
		{u.Username != "" || u.Password != "", errors.New("user name and password are not supported; give a token or a client certificate")},
		{u.Impersonate != "" || u.ImpersonateUID != "" || len(u.ImpersonateGroups) > 0 || len(u.ImpersonateUserExtra) > 0, errors.New("impersonation is not supported")},
		{u.TokenFile != "", noFile("tokenFile")},
		{u.ClientCertificate != "", noFile("client-certificate")},
		{u.ClientKey != "", noFile("client-key")},
		{u.Token == "" && len(u.ClientCertificateData) == 0, errors.New("its user has neither a token nor a client certificate")},
		{(len(u.ClientCertificateData) == 0) != (len(u.ClientKeyData) == 0), errors.New("its user has only one of client-certificate-data and client-key-data")},
	} {
		if bad.there {
			return bad.why
		}
	}
	return nil
}

func noFile(field string) error {
	return fmt.Errorf("%s names a file; embed the data (kubectl config view --raw --flatten)", field)
}
