package apiserver

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/certificates"
	clocktesting "k8s.io/utils/clock/testing"

	"nave/pkg/identity"
)

func TestPendingRequests(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	p, err := countPending(cache.NewSharedIndexInformer(&cache.ListWatch{}, &certificatesv1.CertificateSigningRequest{}, 0, cache.Indexers{}), clock)
	require.NoError(t, err)
	made := 0
	take := func(requester, addon string, limit int) error {
		made++
		labels := map[string]string{identity.ClusterNameLabel: "c1"}
		if addon != "" {
			labels[identity.AddOnNameLabel] = addon
		}
		return p.take(requester, &certificates.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(made), Labels: labels}}, limit)
	}
	for range maxPendingAlike {
		require.NoError(t, take("agent", "", 15))
	}
	require.ErrorContains(t, take("agent", "", 15), "has 10 undecided signing requests for cluster c1, the limit is 10")
	require.NoError(t, take("other", "", 15), "another requester for the same cluster")
	for range 5 {
		require.NoError(t, take("agent", "a", 15), "another purpose")
	}
	require.ErrorContains(t, take("agent", "b", 15), "has 15 undecided signing requests, the limit is 15")

	// Nothing of it was ever stored.
	clock.SetTime(clock.Now().Add(forgetAfter + time.Second))
	require.NoError(t, take("agent", "", 15))

	// This one was, and then it counts once, until it is decided.
	stored := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(made), Labels: map[string]string{identity.ClusterNameLabel: "c1"}},
		Spec:       certificatesv1.CertificateSigningRequestSpec{Username: "agent"},
	}
	require.NoError(t, p.index.Add(stored))
	count := func() int {
		all, _, err := p.count("agent", "")
		require.NoError(t, err)
		return all
	}
	require.Equal(t, 1, count())
	p.seen("agent", stored.Name)
	require.Equal(t, 1, count())
	decided := stored.DeepCopy()
	decided.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved}}
	require.NoError(t, p.index.Update(decided))
	require.Equal(t, 0, count())
}
