package cli

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/replicas"
)

func TestWriteRows(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	meta := metav1.ObjectMeta{Namespace: "c1", Name: "till", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}
	plain, replica := &workv1.ManifestWork{ObjectMeta: meta}, &workv1.ManifestWork{ObjectMeta: *meta.DeepCopy()}
	replica.Name = "tillxyz12"
	replica.Labels = map[string]string{replicas.SetLabel: replicas.SetValue("shops", "till.v2"), replicas.PlacementLabel: "eu"}
	rows := []workRow{rowOf(plain), rowOf(replica)}
	for _, test := range []struct{ output, want string }{
		{"", "CLUSTER   NAME        MANIFESTS   APPLIED   AVAILABLE   COMPLETE   AGE\n" +
			"c1        till        0           -         -           -          60m\n" +
			"c1        tillxyz12   0           -         -           -          60m\n"},
		{"wide", "CLUSTER   NAME        MANIFESTS   APPLIED   AVAILABLE   COMPLETE   AGE   REPLICA SET     PLACEMENT\n" +
			"c1        till        0           -         -           -          60m   -               -\n" +
			"c1        tillxyz12   0           -         -           -          60m   shops/till.v2   eu\n"},
	} {
		t.Run(test.output, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, writeRows(&out, rows, test.output, now))
			require.Equal(t, test.want, out.String())
		})
	}
	var out bytes.Buffer
	require.NoError(t, writeRows(&out, rows, "json", now))
	var read []struct{ Name, ReplicaSet, Placement string }
	require.NoError(t, json.Unmarshal(out.Bytes(), &read))
	require.Equal(t, "shops/till.v2", read[1].ReplicaSet)
	require.Equal(t, "eu", read[1].Placement)
}
