package addon

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nave/pkg/identity"
	"nave/pkg/pki"
)

func TestCertificateLife(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	authority, err := pki.LoadAuthority(t.TempDir()+"/ca.pem", "test", now)
	require.NoError(t, err)
	key, err := pki.NewKey()
	require.NoError(t, err)
	keyPEM, err := pki.KeyPEM(key)
	require.NoError(t, err)
	other, err := pki.NewKey()
	require.NoError(t, err)
	otherPEM, err := pki.KeyPEM(other)
	require.NoError(t, err)
	leaf, err := authority.Sign(&x509.Certificate{
		Subject:   pkix.Name{CommonName: "u", Organization: []string{"g", "h"}, OrganizationalUnit: []string{"unit"}},
		NotBefore: now, NotAfter: now.Add(100 * time.Hour),
	}, key.Public())
	require.NoError(t, err)
	certificate := pki.CertificatePEM(leaf)
	subject := identity.Subject{User: "u", Groups: []string{"h", "g"}, Units: []string{"unit"}}

	for _, test := range []struct {
		name             string
		certificate, key []byte
		subject          identity.Subject
		now              time.Time
		want             string // of the error
	}{
		{"good, groups in any order", certificate, keyPEM, subject, now, ""},
		{"none", nil, nil, subject, now, "no certificate yet"},
		{"key of another", certificate, otherPEM, subject, now, "certificate and key"},
		{"expired", certificate, keyPEM, subject, now.Add(101 * time.Hour), "expired at"},
		{"of another user", certificate, keyPEM, identity.Subject{User: "v", Groups: subject.Groups, Units: subject.Units}, now, "is for CN=u"},
		{"group added", certificate, keyPEM, identity.Subject{User: "u", Groups: []string{"g", "h", "i"}, Units: subject.Units}, now, "is for CN=u"},
		{"unit gone", certificate, keyPEM, identity.Subject{User: "u", Groups: subject.Groups}, now, "is for CN=u"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, err := certificateLife(test.certificate, test.key, test.subject, time.Time{}, test.now)
			if test.want != "" {
				require.ErrorContains(t, err, test.want)
				return
			}
			require.NoError(t, err)
			require.False(t, l.renew.Before(now.Add(75*time.Hour)) || l.renew.After(now.Add(80*time.Hour)), "renewed when between a fifth and a quarter is left, not at %s", l.renew)
			again, err := certificateLife(test.certificate, test.key, test.subject, time.Time{}, test.now)
			require.NoError(t, err)
			require.Equal(t, l, again, "the same time whenever it is asked")
		})
	}
}

// TestOldCertificate: one that has lived most of its life when it comes is used for most of what is left.
func TestOldCertificate(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	authority, err := pki.LoadAuthority(t.TempDir()+"/ca.pem", "test", now)
	require.NoError(t, err)
	key, err := pki.NewKey()
	require.NoError(t, err)
	keyPEM, err := pki.KeyPEM(key)
	require.NoError(t, err)
	leaf, err := authority.Sign(&x509.Certificate{Subject: pkix.Name{CommonName: "u"}, NotBefore: now.Add(-99 * time.Hour), NotAfter: now.Add(time.Hour)}, key.Public())
	require.NoError(t, err)
	l, err := certificateLife(pki.CertificatePEM(leaf), keyPEM, identity.Subject{User: "u"}, now, now)
	require.NoError(t, err)
	require.True(t, l.renew.After(now.Add(44*time.Minute)), l.renew)
}

func TestTokenLife(t *testing.T) {
	from := time.Unix(1_000_000, 0)
	token := func(claims string) string {
		return "h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".s"
	}
	good := token(`{"iat": 1000000, "exp": 1001000, "kubernetes.io": {"serviceaccount": {"uid": "u"}}}`)
	for _, test := range []struct {
		name, token, uid string
		now              time.Time
		want             string // of the error
	}{
		{"good", good, "u", from, ""},
		{"none", "", "u", from, "no token yet"},
		{"account made anew", good, "v", from, "former service account"},
		{"expired", good, "u", from.Add(1000 * time.Second), "expired at"},
		{"no JWT", "abc", "u", from, "not one of a service account"},
		{"no base64", "h.?.s", "u", from, "claims"},
		{"no JSON", "h.AAAA.s", "u", from, "claims"},
		{"no times", token(`{"kubernetes.io": {"serviceaccount": {"uid": "u"}}}`), "u", from, "from when until when"},
		{"no account", token(`{"iat": 1000000, "exp": 1001000}`), "u", from, "former service account"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, err := tokenLife([]byte(test.token), test.uid, test.now)
			if test.want != "" {
				require.ErrorContains(t, err, test.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, from.Add(800*time.Second), l.renew, "when a fifth is left")
		})
	}
}

func TestAccountUID(t *testing.T) {
	for _, test := range []struct {
		name    string
		status  metav1.ConditionStatus
		message string
		want    string
		wrong   bool
	}{
		{"no condition", "", "", "", false},
		{"not ready", metav1.ConditionFalse, "ServiceAccount c1/a-agent (UID: 1) is ready", "", false},
		{"ready", metav1.ConditionTrue, "ServiceAccount c1/a-agent (UID: 12-34) is ready", "12-34", false},
		{"no UID", metav1.ConditionTrue, "ready", "", true},
		{"empty UID", metav1.ConditionTrue, "(UID: )", "", true},
		{"cut off", metav1.ConditionTrue, "(UID: 12", "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			mca := addOn()
			if test.status != "" {
				mca.Status.Conditions = []metav1.Condition{{Type: conditionTokenReady, Status: test.status, Message: test.message}}
			}
			uid, err := accountUID(mca)
			require.Equal(t, test.wrong, err != nil, fmt.Sprint(err))
			require.Equal(t, test.want, uid)
		})
	}
}
