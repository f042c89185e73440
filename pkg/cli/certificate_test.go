package cli

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/hub"
	"nave/pkg/identity"
)

func TestCertificateRows(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for _, test := range []struct {
		name           string
		begins, ends   time.Duration // from now
		days           int
		state          string
		wantsAttention bool
	}{
		{"in the middle of its life", -100 * day, 200 * day, 200, "good", false},
		{"just before notice", -100 * day, 30*day + time.Second, 30, "good", false},
		{"at notice", -100 * day, 30 * day, 30, "ends soon", true},
		{"expired", -100 * day, 0, 0, "expired", true},
		{"of a wrong clock", day, 200 * day, 200, "not yet valid", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			rows := certificateRows([]hub.Certificate{{Name: "hub's certificate", File: "f", Certificate: &x509.Certificate{
				Subject: pkix.Name{CommonName: "nave-hub"}, NotBefore: now.Add(test.begins), NotAfter: now.Add(test.ends),
			}}}, now, certificateNotice)
			until := now.Add(test.ends)
			require.Equal(t, []certificateRow{{What: "hub's certificate", For: "nave-hub", Until: &until, Days: &test.days, State: test.state, File: "f"}}, rows)
			err := attention(rows)
			require.Equal(t, test.wantsAttention, err != nil)
			if err != nil {
				require.ErrorContains(t, err, "hub's certificate (nave-hub): "+test.state)
			}
			var out bytes.Buffer
			require.NoError(t, (&global{streams: Streams{Out: &out}}).printCertificates(rows, "table"))
			require.Contains(t, out.String(), test.state)
		})
	}
}

// TestKeyNeverEnds prints a key that has no certificate.
func TestKeyNeverEnds(t *testing.T) {
	rows := certificateRows([]hub.Certificate{{Name: "key", File: "f"}}, time.Now(), certificateNotice)
	require.NoError(t, attention(rows))
	for output, want := range map[string]string{"table": `key +- +never +- +good`, "json": `"what": "key",\s+"for": "",\s+"state": "good"`} {
		var out bytes.Buffer
		require.NoError(t, (&global{streams: Streams{Out: &out}}).printCertificates(rows, output))
		require.Regexp(t, want, out.String())
	}
}

func TestDependsOnOther(t *testing.T) {
	joined := []metav1.Condition{{Type: clusterv1.ManagedClusterConditionJoined, Status: metav1.ConditionTrue}}
	gone := metav1.Now()
	for _, test := range []struct {
		name       string
		signedBy   string
		accepted   bool
		conditions []metav1.Condition
		deleted    *metav1.Time
		want       bool
	}{
		{"the one that signs now", "new", true, joined, nil, false},
		{"another one", "old", true, joined, nil, true},
		{"another one, before it was used", "old", true, nil, nil, true},
		{"nobody knows which", "", true, joined, nil, true},
		{"none yet", "", true, nil, nil, false},
		{"rejected", "old", false, joined, nil, false},
		{"leaving", "old", true, joined, &gone, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			mc := &clusterv1.ManagedCluster{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{identity.ClientCAAnnotation: test.signedBy}, DeletionTimestamp: test.deleted},
				Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: test.accepted},
				Status:     clusterv1.ManagedClusterStatus{Conditions: test.conditions},
			}
			require.Equal(t, test.want, dependsOnOther(mc, "new"))
		})
	}
}
