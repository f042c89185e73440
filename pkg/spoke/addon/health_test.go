package addon

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nave/pkg/certrequest"
)

func TestHealth(t *testing.T) {
	now := time.Now()
	renewed := func(ago time.Duration) *coordinationv1.Lease {
		at := metav1.NewMicroTime(now.Add(-ago))
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &at}}
	}
	for _, test := range []struct {
		name   string
		lease  *coordinationv1.Lease
		status metav1.ConditionStatus
		reason string
		again  time.Duration
	}{
		{"none", nil, metav1.ConditionUnknown, "ManagedClusterAddOnLeaseNotFound", 0},
		{"never renewed", &coordinationv1.Lease{}, metav1.ConditionFalse, "ManagedClusterAddOnLeaseUpdateStopped", 0},
		{"renewed just now", renewed(0), metav1.ConditionTrue, "ManagedClusterAddOnLeaseUpdated", leaseGrace},
		{"about to run out", renewed(leaseGrace - time.Second), metav1.ConditionTrue, "ManagedClusterAddOnLeaseUpdated", time.Second},
		{"run out", renewed(leaseGrace), metav1.ConditionFalse, "ManagedClusterAddOnLeaseUpdateStopped", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, again := health(addOn(), test.lease, now)
			require.Equal(t, "Available", c.Type)
			require.Equal(t, test.status, c.Status)
			require.Equal(t, test.reason, c.Reason)
			require.Equal(t, test.again, again)
		})
	}
}

func TestOutcomes(t *testing.T) {
	l := life{from: time.Unix(0, 0), until: time.Unix(3600, 0)}
	good := done(driverCertificate, l).Condition
	token := done(driverToken, l).Condition
	foreign := metav1.Condition{Type: "Available", Status: metav1.ConditionTrue}
	bad := errors.New("bad")
	for _, test := range []struct {
		name    string
		before  []metav1.Condition
		results outcomes
		want    map[string]string // reasons by type; nil is no change
	}{
		{"first time", nil, outcomes{done(driverCertificate, l)}, map[string]string{conditionCertificate: reasonUpdated}},
		{"nothing new", []metav1.Condition{good}, outcomes{done(driverCertificate, l)}, nil},
		{"waiting changes nothing", []metav1.Condition{good}, outcomes{waiting(driverCertificate)}, nil},
		{"the worse one speaks", []metav1.Condition{good}, outcomes{done(driverCertificate, l), failed(driverCertificate, bad)}, map[string]string{conditionCertificate: reasonUpdateFailed}},
		{"switched to a token", []metav1.Condition{good, foreign}, outcomes{done(driverToken, l)}, map[string]string{conditionToken: reasonRefreshed, "Available": ""}},
		{"token refused", nil, outcomes{failed(driverToken, bad)}, map[string]string{conditionToken: reasonCreateFailed}},
		{"no longer registered", []metav1.Condition{token}, nil, map[string]string{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.results.conditions(test.before)
			if test.want == nil {
				require.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			require.Len(t, got, len(test.want))
			for kind, reason := range test.want {
				c := meta.FindStatusCondition(got, kind)
				require.NotNil(t, c, kind)
				require.Equal(t, reason, c.Reason)
			}
		})
	}
	require.Equal(t, "Stop creating csr since there are too many csr created already on hub", failed(driverCertificate, certrequest.ErrTooMany).Message)
}
