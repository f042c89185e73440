package registration

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/identity"
	"nave/pkg/pki"
	"nave/pkg/token"
)

// wayTo is a bootstrap kubeconfig of the hub with this CA.
func wayTo(server string, ca *pki.Authority) Bootstrap {
	return Bootstrap{Server: server, Entry: "hub", CA: pki.CertificatePEM(ca.Certificate), Bearer: "secret"}
}

func tokenOf(t *testing.T, ca *pki.Authority) *Bootstrap {
	t.Helper()
	made, err := token.New(token.CAHash(ca.Certificate))
	require.NoError(t, err)
	return &Bootstrap{Token: &made, Server: "https://hub"}
}

func TestDecide(t *testing.T) {
	now := time.Now()
	ca, other := authority(t), authority(t)
	agent := identity.Agent{Cluster: "c1", Name: "a"}
	spent := tokenOf(t, ca)
	kubeconfig := func(change func(*Bootstrap)) *Bootstrap {
		way := wayTo("https://hub", ca)
		change(&way)
		return &way
	}
	same := func(*Bootstrap) {}
	good := func(*Credentials) {}
	byKubeconfig := func(c *Credentials) { c.Mark = kubeconfig(same).mark() }
	for _, test := range []struct {
		name    string
		kept    func(*Credentials)
		missing error
		way     *Bootstrap
		at      time.Time
		want    act
		why     string
	}{
		{"good", good, nil, nil, now, actUse, ""},
		{"nothing", good, errNone, nil, now, actWait, "never joined"},
		{"nothing, and a way", good, errNone, kubeconfig(same), now, actJoin, "never joined"},

		{"good, and the token that gave it", func(c *Credentials) { c.Token = spent.Token.ID }, nil, spent, now, actUse, ""},
		{"good, and a new token of the same hub", good, nil, tokenOf(t, ca), now, actUse, ""},
		{"good, and a token of another hub", good, nil, tokenOf(t, other), now, actJoin, "another hub"},
		{"the hub has another CA meanwhile than the token that gave it", func(c *Credentials) { c.Token, c.CA = spent.Token.ID, pki.CertificatePEM(other.Certificate) }, nil, spent, now, actUse, ""},
		{"the hub has two CAs", func(c *Credentials) { c.CA = append(pki.CertificatePEM(other.Certificate), c.CA...) }, nil, tokenOf(t, ca), now, actUse, ""},
		{"expired, and the token that gave it", func(c *Credentials) { c.Token = spent.Token.ID }, nil, spent, now.Add(9000 * time.Hour), actWait, "expired"},

		{"expired", good, nil, nil, now.Add(9000 * time.Hour), actWait, "expired"},
		{"expired, and a way", good, nil, kubeconfig(same), now.Add(9000 * time.Hour), actJoin, "expired"},
		{"of another cluster", func(c *Credentials) { *c = identityFor(t, ca, identity.Agent{Cluster: "c2", Name: "a"}, now) }, nil, kubeconfig(same), now, actJoin, "that of cluster c2"},
		{"not issued yet", func(c *Credentials) { c.Certificate = nil }, nil, nil, now, actWait, "no certificate yet"},
		{"key of another certificate", func(c *Credentials) { c.Key = identityFor(t, ca, agent, now).Key }, nil, nil, now, actWait, "certificate and key"},
		{"certificate of another agent", func(c *Credentials) { c.Agent.Name = "b" }, nil, nil, now, actWait, "is for system:open-cluster-management:c1:a"},
		{"broken CA", func(c *Credentials) { c.CA = []byte("?") }, nil, nil, now, actWait, "CA bundle"},
		{"valid only later, by a clock that is behind", good, nil, nil, now.Add(-time.Hour), actUse, ""},

		{"of upstream's agent, same hub", good, nil, kubeconfig(same), now, actUse, ""},
		{"same kubeconfig", byKubeconfig, nil, kubeconfig(same), now, actUse, ""},
		{"same kubeconfig, new token in it", byKubeconfig, nil, kubeconfig(func(b *Bootstrap) { b.Bearer = "new" }), now, actUse, ""},
		{"same kubeconfig, CA learned from the hub meanwhile", func(c *Credentials) { byKubeconfig(c); c.CA = pki.CertificatePEM(other.Certificate) }, nil, kubeconfig(same), now, actUse, ""},
		{"other address", byKubeconfig, nil, kubeconfig(func(b *Bootstrap) { b.Server = "https://new" }), now, actMove, "address or CA"},
		{"other CA", byKubeconfig, nil, kubeconfig(func(b *Bootstrap) { b.CA = pki.CertificatePEM(other.Certificate) }), now, actMove, "address or CA"},
		{"other proxy", byKubeconfig, nil, kubeconfig(func(b *Bootstrap) { b.Proxy = "http://proxy" }), now, actMove, "address or CA"},
		{"other name of the hub", byKubeconfig, nil, kubeconfig(func(b *Bootstrap) { b.Entry = "new" }), now, actJoin, `called "new"`},
		{"joined by token, now a kubeconfig of some name", func(c *Credentials) { c.Token = "x" }, nil, kubeconfig(func(b *Bootstrap) { b.Entry = "new" }), now, actMove, "address or CA"},
	} {
		t.Run(test.name, func(t *testing.T) {
			kept := identityFor(t, ca, agent, now)
			test.kept(&kept)
			d := decide(Wish{Cluster: "c1"}, test.way, kept, test.missing, test.at)
			require.Equal(t, test.want, d.act, d.why)
			require.Contains(t, d.why, test.why)
			if test.want == actJoin {
				require.Equal(t, test.way, d.way)
			}
			if test.want == actMove {
				require.True(t, leads(*test.way, d.credentials), "having moved, it stays there")
				require.Equal(t, kept.Agent, d.credentials.Agent)
			}
		})
	}
}

// TestAddressByFlag takes a kept identity to another address of the same hub, which its CA decides.
func TestAddressByFlag(t *testing.T) {
	kept := identityFor(t, authority(t), identity.Agent{Cluster: "c1", Name: "a"}, time.Now())
	d := decide(Wish{Cluster: "c1", Server: "https://new"}, nil, kept, nil, time.Now())
	require.Equal(t, actUse, d.act)
	require.Equal(t, "https://new", d.credentials.Server)
}

func TestOutdated(t *testing.T) {
	now := time.Now()
	ca, other := authority(t), authority(t)
	current := identityFor(t, ca, identity.Agent{Cluster: "c1", Name: "a"}, now)
	here, there, elsewhere := wayTo("https://hub", ca), wayTo("https://hub", other), wayTo("https://elsewhere", other)
	for _, test := range []struct {
		name string
		wish Wish
		want string
	}{
		{"nothing is wished for", Wish{Cluster: "c1"}, ""},
		{"the same", Wish{Cluster: "c1", Ways: []Bootstrap{here}}, ""},
		{"the only way cannot be read just now", Wish{Cluster: "c1", Fault: errors.New("x")}, ""},
		{"another CA", Wish{Cluster: "c1", Ways: []Bootstrap{there}}, "CA"},
		{"another address", Wish{Cluster: "c1", Server: "https://new"}, "https://new"},
		{"one of several hubs", Wish{Cluster: "c1", Ways: []Bootstrap{elsewhere, here}}, ""},
		{"none of several hubs", Wish{Cluster: "c1", Ways: []Bootstrap{elsewhere, there}}, "CA"},
	} {
		t.Run(test.name, func(t *testing.T) {
			why := outdated(test.wish, current, now)
			if test.want == "" {
				require.Empty(t, why)
				return
			}
			require.Contains(t, why, test.want)
		})
	}
}

func TestLikedFirst(t *testing.T) {
	ca, other := authority(t), authority(t)
	a, b, c := wayTo("https://a", other), wayTo("https://hub", ca), wayTo("https://c", other)
	kept := identityFor(t, ca, identity.Agent{Cluster: "c1", Name: "a"}, time.Now())
	require.Equal(t, []Bootstrap{b, a, c}, likedFirst([]Bootstrap{a, b, c}, kept), "the current hub comes first")
	require.Equal(t, []Bootstrap{a, b, c}, likedFirst([]Bootstrap{a, b, c}, Credentials{}), "then as they were given")
}

func TestStanding(t *testing.T) {
	resource := schema.GroupResource{Resource: "managedclusters"}
	out := &clusterv1.ManagedCluster{Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{{Type: clusterv1.ManagedClusterConditionHubAccepted, Status: metav1.ConditionTrue}}}}
	for _, test := range []struct {
		name string
		mc   *clusterv1.ManagedCluster
		err  error
		want standing
	}{
		{"in", &clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}, nil, accepted},
		{"on its way out", out, nil, accepted},
		{"not let in", &clusterv1.ManagedCluster{}, nil, unaccepted},
		{"not there", nil, apierrors.NewNotFound(resource, "c1"), deleted},
		{"certificate is not taken", nil, apierrors.NewUnauthorized("x"), unknown},
		{"no right to look", nil, apierrors.NewForbidden(resource, "c1", errors.New("x")), forbidden},
		{"busy", nil, apierrors.NewTooManyRequests("x", 1), absent},
		{"ill", nil, apierrors.NewInternalError(errors.New("x")), absent},
		{"away", nil, errors.New("connection refused"), absent},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, _ := standingOf(test.mc, test.err)
			require.Equal(t, test.want, got)
		})
	}
}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name           string
		own            standing
		moving, hasWay bool
		want           verdict
		other          standing // asked where want is askOther
		then           verdict
	}{
		{"in", accepted, false, true, goOn, 0, 0},
		{"hub away", absent, false, true, goOn, 0, 0},
		{"turned away", unaccepted, false, true, holdOn, 0, 0},
		{"deleted, nothing to join with", deleted, false, false, stuck, 0, 0},
		{"refused, nothing to join with", unknown, false, false, stuck, 0, 0},
		{"another hub", unknown, true, true, joinAnew, 0, 0},
		{"deleted", deleted, false, true, askOther, deleted, joinAnew},
		{"deleted, and all that was its", forbidden, false, true, askOther, deleted, joinAnew},
		{"deleted, and cut off", unknown, false, true, askOther, deleted, joinAnew},
		{"certificate expired or of an earlier CA", unknown, false, true, askOther, accepted, joinAnew},
		{"turned away, and cut off", unknown, false, true, askOther, unaccepted, holdOn},
		{"turned away, without rights", forbidden, false, true, askOther, unaccepted, holdOn},
		{"just accepted, rights are under way", forbidden, false, true, askOther, accepted, holdOn},
		{"neither is taken", unknown, false, true, askOther, unknown, stuck},
		{"the other hub is away again", forbidden, true, true, askOther, absent, stuck},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := judge(test.own, test.moving, test.hasWay)
			require.Equal(t, test.want, got)
			if got == askOther {
				require.Equal(t, test.then, judgeOther(test.own, test.other))
			}
		})
	}
}
