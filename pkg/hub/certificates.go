package hub

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/sirupsen/logrus"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"

	"nave/pkg/pki"
)

const (
	// longestWait bounds how long nobody looks at the certificates: a clock that is set, or a machine that slept, moves the
	// time when they are due.
	longestWait = time.Hour
	// retryRefresh is how soon certificates that could not be renewed are tried again; a third of their life is left then.
	retryRefresh = time.Minute
)

// refresh brings everything that depends on the CAs in line with them: what clients are told, the certificates that the
// hub shows and that its administrator has, and the list of CAs that the hub knows clients by. It writes only what differs,
// and returns when the next certificate is to be renewed.
func (f *files) refresh(now time.Time) (due time.Time, err error) {
	server, err := f.serverLine().Load(now)
	if err != nil {
		return due, err
	}
	client, err := f.clientLine().Load(now)
	if err != nil {
		return due, err
	}
	if err := replace(f.clientCAFile(), pki.CertificatePEM(client.Trusted()...), 0o644); err != nil {
		return due, fmt.Errorf("publish client CA: %w", err)
	}
	shown, err := server.LoadLeaf(f.serverCert(), pki.Leaf{CommonName: "nave-hub", Hosts: f.hosts, Life: f.life}, now)
	if err != nil {
		return due, fmt.Errorf("certificate of the API server: %w", err)
	}
	admin, err := client.LoadLeaf(f.adminCert(), pki.Leaf{CommonName: adminUser, Organizations: []string{adminGroup}, Life: f.life}, now)
	if err != nil {
		return due, fmt.Errorf("certificate of the administrator: %w", err)
	}
	bundle := pki.CertificatePEM(server.Trusted()...)
	if err := f.writeKubeconfig(admin, bundle); err != nil {
		return due, err
	}
	f.bundle.Update(func([]byte) []byte { return bundle })
	due = pki.RenewalOf(shown.Certificate)
	if other := pki.RenewalOf(admin.Certificate); other.Before(due) {
		due = other
	}
	return due, nil
}

// replace writes a file whose content differs.
func replace(file string, content []byte, mode os.FileMode) error {
	if current, err := os.ReadFile(file); err == nil && bytes.Equal(current, content) {
		return nil
	}
	return pki.WriteFile(file, content, mode)
}

// writeKubeconfig gives the administrator a client certificate, the address of the hub, and what to know it by.
func (f *files) writeKubeconfig(admin *pki.Pair, bundle []byte) error {
	key, err := pki.KeyPEM(admin.Key)
	if err != nil {
		return fmt.Errorf("certificate of the administrator: %w", err)
	}
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"nave": {Server: f.server, CertificateAuthorityData: bundle}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{adminUser: {ClientCertificateData: pki.CertificatePEM(admin.Certificate), ClientKeyData: key}},
		Contexts:       map[string]*clientcmdapi.Context{"nave": {Cluster: "nave", AuthInfo: adminUser}},
		CurrentContext: "nave",
	})
	if err != nil {
		return fmt.Errorf("encode kubeconfig: %w", err)
	}
	if err := replace(f.path("admin.kubeconfig"), text, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// keepCertificates renews certificates before they end and follows a rotation of the CAs, until ctx ends. The API server
// reads the files that it writes by itself.
func (f *files) keepCertificates(ctx context.Context, clock clock.WithTicker, log logrus.FieldLogger) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch certificates: %w", err)
	}
	defer watcher.Close()
	if err := watcher.Add(filepath.Dir(f.serverCert())); err != nil {
		return fmt.Errorf("watch certificates: %w", err)
	}
	told := ""
	for {
		now := clock.Now()
		due, err := f.refresh(now)
		if err = errors.Join(err, f.checkAuthorities(now)); err != nil && err.Error() != told {
			log.WithError(err).Error("certificates of the hub need attention")
		}
		told = text(err)
		wait := min(due.Sub(now), longestWait)
		if err != nil {
			wait = retryRefresh
		}
		timer := clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		case err, ok := <-watcher.Errors: // left unread it would hold up the events; what they told of is looked at now
			timer.Stop()
			if !ok {
				return errors.New("watch certificates: ended")
			}
			log.WithError(err).Warn("changes of the hub's certificates may have been missed")
		case _, ok := <-watcher.Events: // also of what was just written; then there is nothing left to do
			timer.Stop()
			if !ok {
				return errors.New("watch certificates: ended")
			}
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// checkAuthorities says which CA is of no use at this time. Nothing can be done about it here: clients know it.
func (f *files) checkAuthorities(now time.Time) error {
	var errs []error
	for _, line := range []pki.Line{f.serverLine(), f.clientLine()} {
		s, err := line.Load(now)
		if err != nil {
			return err
		}
		for _, ca := range s.Trusted() {
			errs = append(errs, checkLife(line.File, ca, now))
		}
	}
	return errors.Join(errs...)
}

func checkLife(file string, ca *x509.Certificate, now time.Time) error {
	switch {
	case now.Before(ca.NotBefore):
		return fmt.Errorf("certificate authority %s in %s begins in the future, at %s: it was made while the clock of this machine was wrong, or is wrong now; set the clock, or replace it with nave certificate rotate-ca",
			ca.Subject.CommonName, file, ca.NotBefore.UTC().Format(time.RFC3339))
	case now.After(ca.NotAfter):
		return fmt.Errorf("certificate authority %s in %s expired at %s; if the clock of this machine is right, replace it with nave certificate rotate-ca and join the clusters again",
			ca.Subject.CommonName, file, ca.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}
