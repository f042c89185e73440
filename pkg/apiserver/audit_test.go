package apiserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"

	"nave/pkg/token"
)

// records reads the audit log.
func (s *server) records(t *testing.T) []auditv1.Event {
	t.Helper()
	file, err := os.Open(s.audit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing has happened yet that is worth it
	}
	require.NoError(t, err)
	defer file.Close()
	var all []auditv1.Event
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var e auditv1.Event
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		all = append(all, e)
	}
	require.NoError(t, lines.Err())
	return all
}

// recorded waits for a record that is like what is asked for.
func (s *server) recorded(t *testing.T, what string, like func(auditv1.Event) bool) auditv1.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		for _, e := range s.records(t) {
			if like(e) {
				return e
			}
		}
		select {
		case <-ctx.Done():
			require.Fail(t, "not in the audit log: "+what)
		case <-ticker.C:
		}
	}
}

// TestTokensLeaveTraces makes a token, uses it, and uses it again as somebody who found it.
func TestTokensLeaveTraces(t *testing.T) {
	s, _, ctx := start(t)
	made, config := newToken(t)
	s.recorded(t, "creation", func(e auditv1.Event) bool {
		return e.Verb == "create" && e.ObjectRef != nil && e.ObjectRef.Name == token.SecretName(made.ID)
	})

	info, err := os.Stat(s.audit)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())

	agent := newAgent(t, config, "leaves-traces")
	require.NoError(t, agent.createCluster())
	require.NoError(t, agent.request())
	s.recorded(t, "use", func(e auditv1.Event) bool {
		return e.ObjectRef != nil && e.ObjectRef.Resource == "certificatesigningrequests" && e.Annotations["nave.dev/join-token"] == made.ID
	})

	thief := newAgent(t, config, "leaves-traces")
	requireCause(t, thief.request(), 403, token.CauseUsed)
	s.recorded(t, "refusal", func(e auditv1.Event) bool {
		return e.ResponseStatus != nil && e.ResponseStatus.Code == 403 && e.Annotations["nave.dev/join-token"] == made.ID
	})
	kube, err := kubernetes.NewForConfig(s.config)
	require.NoError(t, err)
	requireEvent(t, ctx, kube, made)

	revoke := kube.CoreV1().Secrets(token.Namespace).Delete(ctx, token.SecretName(made.ID), metav1.DeleteOptions{})
	require.NoError(t, revoke)
	requireCause(t, agent.request(), 401, token.CauseUnknown)
	refused := s.recorded(t, "a token that is not known any more", func(e auditv1.Event) bool {
		return e.ResponseStatus != nil && e.ResponseStatus.Code == 401 && e.Annotations["nave.dev/join-token"] == made.ID
	})
	require.Contains(t, refused.Annotations["nave.dev/refusal"], "is not known to this hub")
	config.BearerToken = "unknow.0123456789abcdef"
	require.True(t, apierrors.IsUnauthorized(agent.createCluster()))
	s.recorded(t, "a bootstrap token that is not known", func(e auditv1.Event) bool {
		return strings.Contains(e.Annotations["nave.dev/refusal"], "bootstrap token unknow is not known to this hub")
	})

	text, err := os.ReadFile(s.audit)
	require.NoError(t, err)
	require.NotContains(t, string(text), made.Secret)
}

// requireEvent wants one Event about the replay, beside the token's record since the cluster has no namespace, and without
// its secret.
func requireEvent(t *testing.T, ctx context.Context, kube *kubernetes.Clientset, made token.Token) {
	t.Helper()
	events, err := kube.EventsV1().Events(token.Namespace).List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	found := errors.New("there is no event")
	for _, e := range events.Items {
		if e.Reason == "JoinTokenReplayed" && e.Regarding.Name == token.SecretName(made.ID) {
			require.Error(t, found, "one is enough")
			found = nil
			require.Contains(t, e.Note, made.ID)
			require.Contains(t, e.Note, "leaves-traces")
			require.False(t, strings.Contains(fmt.Sprint(e), made.Secret))
		}
	}
	require.NoError(t, found)
}

// TestAuditIsQuiet does what agents do all day.
func TestAuditIsQuiet(t *testing.T) {
	s, _, ctx := start(t)
	kube, err := kubernetes.NewForConfig(s.config)
	require.NoError(t, err)
	leases := kube.CoordinationV1().Leases("default")
	lease, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "quiet"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = leases.List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.NoError(t, leases.Delete(ctx, "quiet", metav1.DeleteOptions{}))
	for _, e := range s.records(t) {
		require.False(t, e.ObjectRef != nil && e.ObjectRef.Resource == "leases", "%s %s is in the audit log", e.Verb, e.RequestURI)
	}
}
