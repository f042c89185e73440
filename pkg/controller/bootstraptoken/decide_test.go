package bootstraptoken

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	bootstrapsecrets "k8s.io/cluster-bootstrap/util/secrets"
)

func ending(at string) *corev1.Secret {
	return &corev1.Secret{Data: map[string][]byte{"expiration": []byte(at)}}
}

func TestDue(t *testing.T) {
	now := time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name string
		kept []*corev1.Secret
		want time.Duration
	}{
		{"none", nil, 0},
		{"fresh", []*corev1.Secret{ending("2026-01-12T12:00:00Z")}, 24 * time.Hour},
		{"half over", []*corev1.Secret{ending("2026-01-11T12:00:00Z")}, 0},
		{"just enough", []*corev1.Secret{ending("2026-01-11T12:00:01Z")}, time.Second},
		{"the newest counts", []*corev1.Secret{ending("2026-01-10T13:00:00Z"), ending("2026-01-12T00:00:00Z"), ending("2026-01-11T00:00:00Z")}, 12 * time.Hour},
		{"an end that is none", []*corev1.Secret{ending("soon")}, 0},
		{"no end", []*corev1.Secret{{}}, 0},
	} {
		t.Run(test.name, func(t *testing.T) { require.Equal(t, test.want, due(test.kept, now)) })
	}
}

func TestNewSecretIsABootstrapToken(t *testing.T) {
	now := time.Now()
	secret, err := newSecret("abcdef.0123456789abcdef", now)
	require.NoError(t, err)
	require.Equal(t, "bootstrap-token-abcdef", secret.Name)
	groups, err := bootstrapsecrets.GetGroups(secret)
	require.NoError(t, err)
	require.Contains(t, groups, "system:bootstrappers:managedcluster")
	require.False(t, bootstrapsecrets.HasExpired(secret, now.Add(47*time.Hour)))
	require.True(t, bootstrapsecrets.HasExpired(secret, now.Add(49*time.Hour)))
	require.InDelta(t, 24*time.Hour, due([]*corev1.Secret{secret}, now), float64(time.Second))
}
