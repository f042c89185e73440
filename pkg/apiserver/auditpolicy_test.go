package apiserver

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	testingclock "k8s.io/utils/clock/testing"

	"nave/pkg/identity"
)

// TestAuditPolicy keeps what agents write all day from being encoded once more, and nothing that is refused.
func TestAuditPolicy(t *testing.T) {
	p := auditPolicy{agents: authorizer.AuthorizerFunc(identity.Authorizer{Standing: func(string) identity.Standing { return identity.Accepted }}.Authorize)}
	own := identity.Agent{Cluster: "c1", Name: "a"}
	agent := &user.DefaultInfo{Name: own.User(), Groups: own.Groups()}
	hub, admin := &user.DefaultInfo{Name: user.APIServerUser}, &user.DefaultInfo{Name: "nave-admin"}
	in := func(u user.Info, verb, namespace, group, resource, subresource string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{User: u, Verb: verb, Namespace: namespace, APIGroup: group, Resource: resource, Subresource: subresource, Name: "c1", ResourceRequest: true}
	}
	const leases, works = "coordination.k8s.io", "work.open-cluster-management.io"
	for _, test := range []struct {
		name string
		what authorizer.AttributesRecord
		told bool
	}{
		{"heartbeat", in(agent, "update", "c1", leases, "leases", ""), false},
		{"heartbeat of another cluster", in(agent, "update", "c2", leases, "leases", ""), true},
		{"status of a work", in(agent, "patch", "c1", works, "manifestworks", "status"), false},
		{"status of another cluster's work", in(agent, "patch", "c2", works, "manifestworks", "status"), true},
		{"own status", in(agent, "patch", "", "cluster.open-cluster-management.io", "managedclusters", "status"), false},
		{"renewal", in(agent, "create", "", "certificates.k8s.io", "certificatesigningrequests", ""), true},
		{"secret", in(agent, "get", "c1", "", "secrets", ""), true},
		{"administrator's work", in(admin, "create", "c1", works, "manifestworks", ""), true},
		{"hub's lease", in(hub, "update", "c1", leases, "leases", ""), false},
		{"hub's list", in(hub, "list", "", works, "manifestworks", ""), false},
		{"hub's acceptance", in(hub, "patch", "", "cluster.open-cluster-management.io", "managedclusters", ""), true},
		{"nobody", in(nil, "get", "", "", "secrets", ""), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			level := p.EvaluatePolicyRule(test.what).Level
			require.Equal(t, test.told, level == auditinternal.LevelMetadata, level)
		})
	}
}

type closable struct{ bytes.Buffer }

// Close implements io.Closer.
func (*closable) Close() error { return nil }

// TestRefusalsCannotFloodTheAuditLog is a stranger who knocks without end while an administrator works.
func TestRefusalsCannotFloodTheAuditLog(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
	file := &closable{}
	a := auditTo(file, clock)
	knock := func() {
		require.True(t, a.ProcessEvents(&auditinternal.Event{Stage: auditinternal.StageResponseStarted, Verb: "get", ResponseStatus: &metav1.Status{Code: 401}}))
	}
	for range refusalsBurst + 7 {
		knock()
	}
	require.Equal(t, refusalsBurst, strings.Count(file.String(), "\n"))
	require.True(t, a.ProcessEvents(&auditinternal.Event{Stage: auditinternal.StageResponseComplete, Verb: "create",
		ObjectRef: &auditinternal.ObjectReference{Resource: "secrets", Name: "x"}, ResponseStatus: &metav1.Status{Code: 201}}))
	require.Equal(t, refusalsBurst+1, strings.Count(file.String(), "\n"), "what people do is written nevertheless")
	clock.SetTime(clock.Now().Add(refusalsEvery))
	knock()
	require.Contains(t, file.String(), `"nave.dev/refusals-not-written":"7"`)
}

func TestAuditLogHasToBeWritable(t *testing.T) {
	_, err := newAuditor(filepath.Join(t.TempDir(), "missing", "audit.log"), testingclock.NewFakePassiveClock(time.Now()))
	require.ErrorContains(t, err, "choose another file with --audit-log")
	none, err := newAuditor("", testingclock.NewFakePassiveClock(time.Now()))
	require.NoError(t, err)
	require.Nil(t, none)
}
