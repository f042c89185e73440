package registration

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nave/pkg/pki"
)

// TestPredates follows a certificate through a rotation of the hub's CAs, by what the hub publishes at each stage.
func TestPredates(t *testing.T) {
	now := time.Now()
	line := pki.Line{File: filepath.Join(t.TempDir(), "ca.pem"), CommonName: "test-ca"}
	published := func(step func(time.Time) error) []byte {
		if step != nil {
			require.NoError(t, step(now))
		}
		s, err := line.Load(now)
		require.NoError(t, err)
		return pki.CertificatePEM(s.Trusted()...)
	}
	c := Credentials{CA: published(nil)}
	require.False(t, c.predates(), "nobody knows what signed then")
	c.Signer = signer(c.CA)
	require.False(t, c.predates())
	c.CA = published(line.Prepare)
	require.False(t, c.predates(), "the new one does not sign yet")
	prepared := c.CA
	c.CA = published(line.Activate)
	require.True(t, sameBundle(prepared, c.CA), "the same ones are trusted")
	require.False(t, bytes.Equal(prepared, c.CA), "another one signs")
	require.True(t, c.predates())
	c.Signer = signer(c.CA)
	require.False(t, c.predates(), "renewed")
	c.CA = published(line.Finish)
	require.False(t, c.predates())
}
