package sessions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nave/pkg/agentstate"
	"nave/pkg/hub"
	"nave/pkg/live"
	"nave/pkg/spoke/registration"
)

// TestThreeRenewals go by without the bootstrap identity and without a new session (rhacm-1661).
func TestThreeRenewals(t *testing.T) {
	t.Parallel()
	h, _ := hubs(t)
	require.NoError(t, h.allow("renews"))
	a := newAgent(t, "renews", bootstrapFile(t, h.kubeconfig(t, "hub", "renews", nil)))
	a.start(t)
	eventually(t, "the cluster asks to be let in", func() error {
		if h.requests(t, "renews") == 0 {
			return errors.New("no request")
		}
		return nil
	})
	h.letIn(t, "renews")
	a.awaitSessions(t, 1)
	require.NoError(t, h.kube.CoreV1().Secrets(metav1.NamespaceSystem).Delete(t.Context(), "bootstrap-token-renews", metav1.DeleteOptions{}))

	began := a.State.Get().CertificateUntil
	for n := range 3 {
		before := a.State.Get().CertificateUntil
		eventually(t, fmt.Sprintf("renewal %d", n+1), func() error {
			if !a.State.Get().CertificateUntil.After(before) {
				return errors.New("the certificate is the same")
			}
			return nil
		})
	}
	require.True(t, a.State.Get().CertificateUntil.After(began))
	require.Equal(t, 1, a.count(), "%v", a.ends)
	eventually(t, "the hub is told", func() error {
		c := meta.FindStatusCondition(h.cluster(t, "renews").Status.Conditions, "ClusterCertificateRotated")
		want := fmt.Sprintf("client certificate rotated starting from %v to %v", a.State.Get().CertificateFrom.UTC(), a.State.Get().CertificateUntil.UTC())
		if c == nil || c.Status != metav1.ConditionTrue || c.Message != want {
			return fmt.Errorf("condition is %v, not %s", c, want)
		}
		return nil
	})
}

// TestExpiredWhileOff joins again by itself, under the same name.
func TestExpiredWhileOff(t *testing.T) {
	t.Parallel()
	h, _ := hubs(t)
	a := newAgent(t, "expires", bootstrapFile(t, h.kubeconfig(t, "hub", tokenID, nil)))
	stop := a.start(t)
	a.awaitSessions(t, 1)
	require.ErrorIs(t, ignoreEnd(stop()), nil)
	before := a.last()
	eventually(t, "the certificate has expired", func() error {
		if !a.Clock.Now().After(a.State.Get().CertificateUntil) {
			return errors.New("not yet")
		}
		return nil
	})
	a.start(t)
	a.awaitSessions(t, 2)
	require.Equal(t, before.Agent, a.last().Agent, "the agent keeps its name")
	require.NotEqual(t, before.Key, a.last().Key)
	require.NotNil(t, blockOf(t, a.last().Certificate))
}

// TestNothingToJoinWith waits, and says what is missing, until somebody brings it.
func TestNothingToJoinWith(t *testing.T) {
	t.Parallel()
	h, _ := hubs(t)
	a := newAgent(t, "waits")
	a.start(t)
	eventually(t, "the agent says what is missing", func() error {
		fault := a.State.Get().Bootstrap
		if fault == nil || fault.Reason != agentstate.BootstrapMissing || !strings.Contains(fault.Message, "--bootstrap-kubeconfig") {
			return fmt.Errorf("fault is %+v", fault)
		}
		return nil
	})
	a.leaveSecret(t, h.kubeconfig(t, "hub", tokenID, nil))
	a.awaitSessions(t, 1)
	require.Nil(t, a.State.Get().Bootstrap)
}

// TestDeletedOnTheHub comes back by the bootstrap credential, with a new request (clusteradm-56).
func TestDeletedOnTheHub(t *testing.T) {
	t.Parallel()
	h, _ := hubs(t)
	a := newAgent(t, "deleted", bootstrapFile(t, h.kubeconfig(t, "hub", tokenID, nil)))
	a.start(t)
	a.awaitSessions(t, 1)
	before, uid := a.last(), h.cluster(t, "deleted").UID
	require.NoError(t, h.clusters.ClusterV1().ManagedClusters().Delete(t.Context(), "deleted", metav1.DeleteOptions{}))
	a.awaitSessions(t, 2)
	require.Equal(t, before.Agent, a.last().Agent)
	require.NotEqual(t, before.Key, a.last().Key)
	require.NotEqual(t, uid, h.cluster(t, "deleted").UID)
}

// TestTurnedAway waits for the hub's people, keeps its identity, and asks for no other.
func TestTurnedAway(t *testing.T) {
	t.Parallel()
	h, _ := hubs(t)
	a := newAgent(t, "turned-away", bootstrapFile(t, h.kubeconfig(t, "hub", tokenID, nil)))
	a.start(t)
	a.awaitSessions(t, 1)
	h.accept(t, "turned-away", false)
	eventually(t, "the agent knows", func() error {
		s := a.State.Get()
		if s.Accepted || s.HubConnection == nil || s.HubConnection.Reason != agentstate.HubUnauthorized {
			return fmt.Errorf("state is %+v", s)
		}
		return nil
	})
	h.accept(t, "turned-away", true)
	a.awaitSessions(t, 2)
}

// TestChangedAuthority names the reason while the CA is wrong, and goes on with the same identity once it is right
// (clusteradm-59).
func TestChangedAuthority(t *testing.T) {
	t.Parallel()
	h, other := hubs(t)
	file := bootstrapFile(t, h.kubeconfig(t, "hub", tokenID, nil))
	a := newAgent(t, "authority", file)
	a.start(t)
	a.awaitSessions(t, 1)
	name := a.last().Agent
	write(t, file, h.kubeconfig(t, "hub", tokenID, other.admin.CAData))
	a.awaitSessions(t, 2)
	eventually(t, "the reason is named", func() error {
		fault := a.State.Get().HubConnection
		if fault == nil || !strings.Contains(fault.Message, "unknown authority") {
			return fmt.Errorf("fault is %+v", fault)
		}
		return nil
	})
	write(t, file, h.kubeconfig(t, "hub", tokenID, append(append([]byte{}, other.admin.CAData...), h.admin.CAData...)))
	a.awaitSessions(t, 3)
	eventually(t, "the hub is reached", func() error {
		if fault := a.State.Get().HubConnection; fault != nil {
			return fmt.Errorf("fault is %+v", fault)
		}
		return nil
	})
	require.Equal(t, name, a.last().Agent)
}

// TestChangedName of the hub in the bootstrap kubeconfig is the wish for a new identity (spec 2.1).
func TestChangedName(t *testing.T) {
	t.Parallel()
	h, _ := hubs(t)
	file := bootstrapFile(t, h.kubeconfig(t, "hub", tokenID, nil))
	a := newAgent(t, "renamed", file)
	a.start(t)
	a.awaitSessions(t, 1)
	before := a.last()
	write(t, file, h.kubeconfig(t, "other", tokenID, nil))
	a.awaitSessions(t, 2)
	require.NotEqual(t, before.Key, a.last().Key)
	require.Equal(t, before.Agent, a.last().Agent)
	require.Equal(t, "other", a.last().Entry)
}

// TestFourJoinsInARow leave one request, which is the living agent's (clusteradm-214).
func TestFourJoinsInARow(t *testing.T) {
	t.Parallel()
	h, _ := hubs(t)
	require.NoError(t, h.allow("repeat"))
	a := newAgent(t, "repeats", bootstrapFile(t, h.kubeconfig(t, "hub", "repeat", nil)))
	for range 4 {
		stop := a.start(t)
		eventually(t, "the cluster asks to be let in", func() error {
			if h.requests(t, "repeats") == 0 || a.Store.Holds() {
				return errors.New("no request")
			}
			return nil
		})
		require.NoError(t, ignoreEnd(stop()))
	}
	require.Equal(t, 1, h.requests(t, "repeats"))
	a.start(t)
	h.letIn(t, "repeats")
	a.awaitSessions(t, 1)
}

// TestSeveralHubs prefers the current one, and goes to another when it is turned away (spec 2.5).
func TestSeveralHubs(t *testing.T) {
	t.Parallel()
	h, other := hubs(t)
	files := []string{bootstrapFile(t, h.kubeconfig(t, "one", tokenID, nil)), bootstrapFile(t, other.kubeconfig(t, "two", tokenID, nil))}
	a := newAgent(t, "wanders", files...)
	a.start(t)
	a.awaitSessions(t, 1)
	require.Equal(t, h.admin.Host, a.last().Server)
	h.accept(t, "wanders", false)
	a.awaitSessions(t, 2)
	require.Equal(t, other.admin.Host, a.last().Server)
	require.Equal(t, a.sessions[0].Agent, a.last().Agent, "what it applied bears the agent's name")
}

// TestHubReplacesItsAuthorities while the agent is connected: it learns them in time, and is never away.
func TestHubReplacesItsAuthorities(t *testing.T) {
	t.Parallel()
	h, err := startHub()
	require.NoError(t, err)
	a := newAgent(t, "authorities", bootstrapFile(t, h.kubeconfig(t, "hub", tokenID, nil)))
	a.start(t)
	a.awaitSessions(t, 1)
	old := a.last().CA
	step := func(step hub.Rotation, authorities int) {
		require.NoError(t, hub.RotateCA(h.dataDir, step, time.Now()))
		eventually(t, string(step), func() error {
			if n := strings.Count(string(a.last().CA), "BEGIN CERTIFICATE"); n != authorities {
				return fmt.Errorf("the agent knows %d authorities, not %d", n, authorities)
			}
			return nil
		})
	}
	renewed := func() {
		before := a.State.Get().CertificateUntil
		eventually(t, "renewal", func() error {
			if !a.State.Get().CertificateUntil.After(before) {
				return errors.New("not yet")
			}
			return nil
		})
	}
	step(hub.Prepare, 2)
	step(hub.Activate, 2)
	renewed()
	renewed() // now at the latest with a certificate of the new authority
	step(hub.Finish, 1)
	require.NotEqual(t, old, a.last().CA)
	renewed()
	require.Equal(t, a.sessions[0].Agent, a.last().Agent)
	for _, why := range a.ends {
		require.Contains(t, why, "authorities", "for no other reason was there a new session")
	}
}

// TestFirstJoinThatCannotSucceed ends at once, with what is wrong, for whoever started the agent (ocm-959, mcp-100).
func TestFirstJoinThatCannotSucceed(t *testing.T) {
	t.Parallel()
	h, other := hubs(t)
	for _, test := range []struct {
		name string
		text []byte
		code int
		want string
	}{
		{"unknown authority", h.kubeconfig(t, "hub", tokenID, other.admin.CAData), 5, "unknown authority"},
		{"unknown token", h.kubeconfig(t, "hub", "nobody", nil), 9, "unknown, expired or deleted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := newAgent(t, "never", bootstrapFile(t, test.text)).Identity(t.Context())
			require.ErrorContains(t, err, test.want)
			var join *registration.JoinError
			require.ErrorAs(t, err, &join)
			require.Equal(t, test.code, join.ExitCode())
			require.NotContains(t, err.Error(), "0123456789abcdef", "secrets are never told")
		})
	}
	t.Run("where another agent has joined under another name", func(t *testing.T) {
		file := bootstrapFile(t, h.kubeconfig(t, "hub", tokenID, nil))
		a := newAgent(t, "earlier", file)
		_, err := a.Identity(t.Context())
		require.NoError(t, err)
		write(t, file, h.kubeconfig(t, "hub", "nobody", nil))
		a.sources.Cluster = "later"
		a.Wish = live.New(a.sources.Read(nil))
		_, err = a.Identity(t.Context())
		require.ErrorAs(t, err, new(*registration.JoinError))
	})
}

// ignoreEnd is err unless it is the end of the context.
func ignoreEnd(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
