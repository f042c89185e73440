package hub

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/util/keyutil"

	"nave/pkg/live"
	"nave/pkg/pki"
)

const (
	// adminUser is how the operator of the hub shows in audit lines; the group gives every right.
	adminUser  = "nave-admin"
	adminGroup = "system:masters"

	// encryptionKeyBytes is the key length of secretbox.
	encryptionKeyBytes = 32
)

// AdminKubeconfig is where a hub with this data directory keeps its administrator's kubeconfig.
func AdminKubeconfig(dataDir string) string {
	return filepath.Join(folder(dataDir), "admin.kubeconfig")
}

// folder is the hub's part of a data directory, which it may share with an agent.
func folder(dataDir string) string { return filepath.Join(dataDir, "hub") }

// files are what the hub keeps beside its database. All of them are made by the first start that misses them, each at
// once, so that a crash at any moment leaves something that the next start completes.
type files struct {
	dir    string
	hosts  []string      // names and addresses that the server's certificate holds for
	server string        // URL that the administrator's kubeconfig names
	life   time.Duration // of the hub's own certificates; zero is the usual one
	// bundle is the PEM of the CAs by which clients are to know the hub, the one that signs first.
	bundle *live.Value[[]byte]
}

func (f *files) path(elements ...string) string {
	return filepath.Join(append([]string{f.dir}, elements...)...)
}

func (f *files) serverCert() string     { return f.path("pki", "server.pem") }
func (f *files) adminCert() string      { return f.path("pki", "admin.pem") }
func (f *files) clientCAFile() string   { return f.path("pki", "client-ca.crt") }
func (f *files) clientCAPair() string   { return f.clientLine().File }
func (f *files) serviceAccount() string { return f.path("pki", "service-account.key") }
func (f *files) encryption() string     { return f.path("encryption.yaml") }

// serverLine signs what the hub shows; tokens pin it. clientLine signs who may come.
func (f *files) serverLine() pki.Line {
	return pki.Line{File: f.path("pki", "server-ca.pem"), CommonName: "nave-server-ca"}
}

func (f *files) clientLine() pki.Line {
	return pki.Line{File: f.path("pki", "client-ca.pem"), CommonName: "nave-client-ca"}
}

// prepareFiles loads or makes everything.
func prepareFiles(f files, now time.Time) (*files, error) {
	f.bundle = live.New[[]byte](nil)
	if _, err := f.refresh(now); err != nil {
		return nil, err
	}
	if err := once(f.serviceAccount(), newServiceAccountKey); err != nil {
		return nil, fmt.Errorf("key for service-account tokens: %w", err)
	}
	if err := once(f.encryption(), newEncryption); err != nil {
		return nil, fmt.Errorf("key for secrets at rest: %w", err)
	}
	return &f, nil
}

// once writes what content makes, if file does not exist yet.
func once(file string, content func() ([]byte, error)) error {
	if _, err := os.Stat(file); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := content()
	if err != nil {
		return err
	}
	return pki.WriteFile(file, text, 0o600)
}

// newServiceAccountKey is in the older of the two forms, since Kubernetes takes the public key out of that one only.
func newServiceAccountKey() ([]byte, error) {
	key, err := pki.NewKey()
	if err != nil {
		return nil, err
	}
	return keyutil.MarshalPrivateKeyToPEM(key)
}

// newEncryption is Kubernetes' own configuration of encryption at rest, with a key of this hub's own. identity comes last
// so that nothing that was written in the clear is ever unreadable.
func newEncryption() ([]byte, error) {
	key := make([]byte, encryptionKeyBytes)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("random key: %w", err)
	}
	return fmt.Appendf(nil, `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - secretbox:
      keys:
      - name: key1
        secret: %s
  - identity: {}
`, base64.StdEncoding.EncodeToString(key)), nil
}

// certificateHosts are the names and addresses that the hub's certificate holds for: those that were advertised, this
// host's name, and its addresses, so that a client on the same network can use any of them.
func certificateHosts(advertise []string) []string {
	hosts := append([]string{"localhost", "127.0.0.1", "::1", "kubernetes.default.svc"}, advertise...)
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	hosts = append(hosts, localAddresses()...)
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// localAddresses are this host's own addresses, without those that mean nothing elsewhere.
func localAddresses() []string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var all []string
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			all = append(all, n.IP.String())
		}
	}
	return all
}
