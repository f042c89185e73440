package hub

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// patience is how long a step may take on a slow machine before a test gives up on it.
const patience = 2 * time.Minute

func config(dir string, listen ...string) Config {
	log := logrus.New()
	log.SetLevel(logrus.WarnLevel)
	return Config{DataDir: dir, Listen: listen, Log: log}
}

func TestRefusals(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	running, err := New(config(t.TempDir(), "127.0.0.1:0"))
	require.NoError(t, err)
	defer running.close()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	broken := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(broken, "hub", "pki"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(broken, "hub", "pki", "server-ca.pem"), []byte("?"), 0o600))

	for _, test := range []struct {
		name, dir, listen, want string
	}{
		{"port in use", t.TempDir(), taken.Addr().String(), "the port is in use by another process"},
		{"no address of this host", t.TempDir(), "192.0.2.1:0", "choose an address of this host with --listen"},
		{"nonsense", t.TempDir(), "nonsense/24", `listen address "nonsense/24" is no IP address and no host name`},
		{"zone", t.TempDir(), "[fe80::1%eth0]:0", "has an IPv6 zone"},
		{"two hubs on one data directory", running.config.DataDir, "127.0.0.1:0", "is in use by nave hub, pid"},
		{"data directory that cannot be one", file, "127.0.0.1:0", "choose another one with --data-dir"},
		{"broken certificate authority", broken, "127.0.0.1:0", "restore the file from a backup"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(config(test.dir, test.listen))
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, err.Error(), "\n", "one line")
		})
	}
}

// TestRestart starts a hub on an empty directory and again on what the first left, with the kubeconfig of each.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	var authority []byte
	var bootstrapToken string
	for _, listen := range [][]string{{"127.0.0.1:0"}, bothFamilies()} {
		h, err := New(config(dir, listen...))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		select {
		case <-h.Ready():
		case err := <-ended:
			require.NoError(t, err)
		}
		info, err := os.Stat(AdminKubeconfig(dir))
		require.NoError(t, err)
		require.EqualValues(t, 0o600, info.Mode().Perm())
		access, err := clientcmd.BuildConfigFromFlags("", AdminKubeconfig(dir))
		require.NoError(t, err)
		require.Equal(t, h.Server(), access.Host)
		client, err := kubernetes.NewForConfig(access)
		require.NoError(t, err)
		_, err = client.Discovery().ServerVersion()
		require.NoError(t, err)
		if authority != nil {
			require.Equal(t, authority, access.CAData, "the CA stays")
		}
		authority = access.CAData
		require.EventuallyWithT(t, func(t *assert.CollectT) {
			list, err := client.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "app=cluster-manager"})
			require.NoError(t, err)
			require.Len(t, list.Items, 1, "bootstrap tokens, where clusteradm looks for them")
			if bootstrapToken != "" {
				require.Equal(t, bootstrapToken, list.Items[0].Name, "the one that was shown stays good")
			}
			bootstrapToken = list.Items[0].Name
		}, patience, 50*time.Millisecond)
		measured, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		require.NoError(t, err)
		for _, family := range []string{`workqueue_depth{name="acceptance"}`, `workqueue_retries_total{name="approving"}`, "nave_build_info{", "apiserver_request_total{"} {
			require.Contains(t, string(measured), family, "queues of the hub's loops are served with what the API server measures")
		}
		cancel()
		require.NoError(t, <-ended)
	}
}
