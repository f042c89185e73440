package hub

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"nave/pkg/pki"
)

// run starts a hub that ends with the test.
func run(t *testing.T, c Config) *Hub {
	t.Helper()
	h, err := New(c)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	select {
	case <-h.Ready():
	case err := <-ended:
		ended <- err
		require.NoError(t, err)
	}
	return h
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			require.NoError(t, err, what)
		case <-ticker.C:
		}
	}
}

// TestRenewal leaves a hub alone whose certificates live for seconds. A watch that was begun with the first one goes on.
func TestRenewal(t *testing.T) {
	c := config(t.TempDir(), "127.0.0.1:0")
	c.CertificateLife = 8 * time.Second
	h := run(t, c)
	access, err := clientcmd.BuildConfigFromFlags("", AdminKubeconfig(c.DataDir))
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(access)
	require.NoError(t, err)
	watch, err := client.CoreV1().ConfigMaps("default").Watch(context.Background(), metav1.ListOptions{FieldSelector: "metadata.name=renewed"})
	require.NoError(t, err)
	defer watch.Stop()

	first := shown(t, h, access.CAData)
	eventually(t, "two certificates after the first one are shown", func() error {
		next := shown(t, h, access.CAData)
		if next.NotAfter.Sub(first.NotAfter) < c.CertificateLife {
			return fmt.Errorf("certificate %s is shown, until %s", next.SerialNumber, next.NotAfter)
		}
		return nil
	})
	// The administrator's certificate of the beginning has ended meanwhile; the file has a new one.
	renewed, err := clientcmd.BuildConfigFromFlags("", AdminKubeconfig(c.DataDir))
	require.NoError(t, err)
	require.NotEqual(t, access.CertData, renewed.CertData)
	client, err = kubernetes.NewForConfig(renewed)
	require.NoError(t, err)
	_, err = client.CoreV1().ConfigMaps("default").Create(context.Background(), configMapNamed("renewed"), metav1.CreateOptions{})
	require.NoError(t, err)
	event, open := <-watch.ResultChan()
	require.True(t, open, "the watch was not dropped")
	require.Equal(t, "renewed", event.Object.(metav1.Object).GetName())
}

// TestRotateCA replaces the CAs of a hub that runs, with the eyes of a client that knows only the first one, and of one
// that reads what is published.
func TestRotateCA(t *testing.T) {
	c := config(t.TempDir(), "127.0.0.1:0")
	h := run(t, c)
	first, err := clientcmd.BuildConfigFromFlags("", AdminKubeconfig(c.DataDir))
	require.NoError(t, err)
	for _, test := range []struct {
		step      Rotation
		stage     pki.Stage
		published int  // CAs in every bundle
		known     bool // to who knows only the first CA
		trusted   bool // the administrator's first certificate
	}{
		{Prepare, pki.Prepared, 2, true, true},
		{RollBack, pki.Settled, 1, true, true},
		{Prepare, pki.Prepared, 2, true, true},
		{Activate, pki.Activated, 2, true, true},
		{RollBack, pki.Prepared, 2, true, true},
		{Activate, pki.Activated, 2, true, true},
		{Finish, pki.Settled, 1, false, false},
	} {
		require.True(t, t.Run(string(test.step), func(t *testing.T) {
			require.NoError(t, RotateCA(c.DataDir, test.step, time.Now()))
			stages, err := RotationStages(c.DataDir, time.Now())
			require.NoError(t, err)
			require.Equal(t, []pki.Stage{test.stage, test.stage}, stages)
			eventually(t, "the running hub follows", func() error { return follows(h, c, first.CAData, test.published, test.known) })
			eventually(t, "the first certificate of the administrator", func() error {
				old, err := kubernetes.NewForConfig(withBundle(first, h.files.bundle.Get()))
				require.NoError(t, err)
				_, err = old.CoreV1().Namespaces().Get(context.Background(), "default", metav1.GetOptions{})
				if (err == nil) != test.trusted {
					return fmt.Errorf("trusted should be %t: %w", test.trusted, err)
				}
				return nil
			})
		}))
	}
	require.ErrorContains(t, RotateCA(c.DataDir, Activate, time.Now()), "does not follow on settled")

	all, err := Certificates(c.DataDir)
	require.NoError(t, err)
	ends := map[string]bool{}
	for _, c := range all {
		ends[c.Name] = c.Certificate != nil
	}
	require.Equal(t, map[string]bool{"CA of the hub's certificate": true, "CA of clients": true, "hub's certificate": true, "administrator": true, "key of service accounts": false}, ends)
}

// follows checks everything that a stage shows on a running hub.
func follows(h *Hub, c Config, firstCA []byte, published int, known bool) error {
	access, err := clientcmd.BuildConfigFromFlags("", AdminKubeconfig(c.DataDir))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return err
	}
	ctx := context.Background()
	info, err := client.CoreV1().ConfigMaps("kube-public").Get(ctx, "cluster-info", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("with the kubeconfig as it is now: %w", err)
	}
	joining, err := clientcmd.Load([]byte(info.Data["kubeconfig"]))
	if err != nil || len(joining.Clusters) != 1 {
		return fmt.Errorf("cluster-info is %v: %w", joining, err)
	}
	root, err := client.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	if err != nil {
		return err
	}
	served, err := fetch(h.Server()+"/cacerts", access.CAData)
	if err != nil {
		return err
	}
	clients, err := os.ReadFile(h.files.clientCAFile())
	if err != nil {
		return err
	}
	for what, text := range map[string]string{
		"kubeconfig": string(access.CAData), "kube-root-ca.crt": root.Data["ca.crt"], "/cacerts": served, "clients": string(clients),
		"cluster-info": string(joining.Clusters[""].CertificateAuthorityData),
	} {
		if n := strings.Count(text, "BEGIN CERTIFICATE"); n != published {
			return fmt.Errorf("%s holds %d CAs instead of %d", what, n, published)
		}
	}
	if _, err := fetch(h.Server()+"/cacerts", firstCA); (err == nil) != known {
		return fmt.Errorf("known by the first CA should be %t: %w", known, err)
	}
	return nil
}

func fetch(url string, ca []byte) (string, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: patience}).Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// shown is the certificate that a new client sees.
func shown(t *testing.T, h *Hub, ca []byte) *x509.Certificate {
	t.Helper()
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(ca))
	conn, err := tls.Dial("tcp", strings.TrimPrefix(h.Server(), "https://"), &tls.Config{RootCAs: roots})
	require.NoError(t, err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

func configMapNamed(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// withBundle is an access with other CAs to know the hub by, on connections of its own.
func withBundle(config *rest.Config, bundle []byte) *rest.Config {
	c := rest.CopyConfig(config)
	c.CAData = bundle
	// Each is to shake hands anew: the transport cache would give back the connection of an earlier stage.
	c.Dial = (&net.Dialer{}).DialContext
	return c
}
