package registration

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nave/pkg/identity"
	"nave/pkg/pki"
)

// TestCertificate reads the certificate of an agent from its directory, before it has joined, after, and when it is broken.
func TestCertificate(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	_, leaf, err := s.Certificate()
	require.NoError(t, err)
	require.Nil(t, leaf)

	agent := identity.Agent{Cluster: "c1", Name: "a1"}
	ca, err := pki.LoadAuthority(filepath.Join(t.TempDir(), "ca.pem"), "ca", time.Now())
	require.NoError(t, err)
	pair, err := ca.Issue(pki.Leaf{CommonName: agent.User()}, time.Now())
	require.NoError(t, err)
	key, err := pki.KeyPEM(pair.Key)
	require.NoError(t, err)
	kept := Credentials{Server: "https://hub", Entry: "hub", Agent: agent, Certificate: pki.CertificatePEM(pair.Certificate), Key: key}
	require.NoError(t, s.write(identityFile, kept))
	file, leaf, err := s.Certificate()
	require.NoError(t, err)
	require.Equal(t, pair.Certificate.Raw, leaf.Raw)

	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	_, _, err = s.Certificate()
	require.ErrorContains(t, err, file)
}
