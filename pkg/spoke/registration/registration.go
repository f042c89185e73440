// Package registration gives an agent its identity on the hub: by a join token the first time, from what is kept after
// that, renewed before it ends (spec 2.1 to 2.3).
package registration

import (
	"context"
	"crypto"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/agentstate"
	"nave/pkg/certrequest"
	"nave/pkg/identity"
	"nave/pkg/live"
	"nave/pkg/log"
	"nave/pkg/settings"
	"nave/pkg/token"
)

const (
	// firstContact is how long an agent that never joined tries to reach its hub before it gives up and says so.
	firstContact = 10 * time.Second
	// retryHub is how soon an unreachable hub is tried again.
	retryHub = time.Second
	// retryDenied is how soon a denied request is looked at again. It is gone an hour later, or when somebody removes it.
	retryDenied = time.Minute

	// agentNameLength is that of upstream's random agent names.
	agentNameLength = 5
)

// Config says who the agent is to be.
type Config struct {
	Server    string // URL of the hub; may be empty once joined
	Token     string // join token; not needed once joined
	Cluster   string // name of the managed cluster
	UserAgent string
	Store     Store
	Settings  *live.Value[settings.Agent]
	State     *live.Value[agentstate.State]
	Clock     clock.WithTicker
	Log       logrus.FieldLogger
}

// Join returns the agent's identity: the one that is kept if it is still good, otherwise a new one by means of the token,
// which takes as long as the hub's people take to accept the cluster. Errors that no retry can mend have an ExitCode.
func (c Config) Join(ctx context.Context) (Credentials, error) {
	kept, err := c.Store.load(ctx)
	if err == nil {
		err = c.fits(kept)
	} else if !errors.Is(err, errNone) {
		return Credentials{}, err
	}
	if err == nil && (c.Token == "" || c.known(ctx, kept)) {
		return c.keep(ctx, kept)
	}
	if c.Token == "" {
		return Credentials{}, fmt.Errorf("agent of cluster %s has no identity on a hub: %w; create a token on the hub (nave token create) and give it in NAVE_TOKEN", c.Cluster, err)
	}
	joined, joinErr := c.bootstrap(ctx, kept)
	var final *JoinError
	if err == nil && errors.As(joinErr, &final) {
		// The token is no help, and the identity may be one that the hub will know again.
		return c.keep(ctx, kept)
	}
	return joined, joinErr
}

// keep goes on with an identity, if need be at another address of the same hub: its CA decides.
func (c Config) keep(ctx context.Context, kept Credentials) (Credentials, error) {
	if c.Server != "" {
		kept.Server = c.Server
	}
	return kept, c.Store.save(ctx, kept)
}

// known tells whether the hub still knows the identity. One whose cluster was removed is good for nothing, and the token
// that was given with it is the wish to join again. A hub that cannot be asked is taken to know it.
func (c Config) known(ctx context.Context, kept Credentials) bool {
	config := &rest.Config{
		Host: c.Server, UserAgent: c.UserAgent, Timeout: firstContact,
		TLSClientConfig: rest.TLSClientConfig{CAData: kept.CA, CertData: kept.Certificate, KeyData: kept.Key},
	}
	client, err := clusterclient.NewForConfig(config)
	if err != nil {
		return true
	}
	_, err = client.ClusterV1().ManagedClusters().Get(ctx, c.Cluster, metav1.GetOptions{})
	return !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err)
}

// fits says why a kept identity is not the one that is wanted, or nil.
func (c Config) fits(kept Credentials) error {
	if err := kept.usable(c.Clock.Now()); err != nil {
		return err
	}
	if kept.Agent.Cluster != c.Cluster {
		return fmt.Errorf("its identity is that of cluster %s", kept.Agent.Cluster)
	}
	if c.Token == "" {
		return nil
	}
	// A token of another hub is the wish to go there.
	t, err := token.Parse(c.Token)
	if err != nil {
		return nil // the token is not needed, so it need not be good
	}
	ca, err := parseCertificate(kept.CA)
	if err != nil {
		return err
	}
	if token.CAHash(ca) != t.CAHash {
		return errors.New("its identity is one of another hub than the token's")
	}
	return nil
}

// bootstrap joins with the token. An unfinished join at the same hub under the same name is continued.
func (c Config) bootstrap(ctx context.Context, kept Credentials) (Credentials, error) {
	t, err := token.Parse(c.Token)
	if err != nil {
		return Credentials{}, refusal(exitMalformed, "%w", err)
	}
	if err := checkServer(c.Server); err != nil {
		return Credentials{}, err
	}
	ca, err := c.reach(ctx, t)
	if err != nil {
		return Credentials{}, err
	}
	next, err := c.nextIdentity(kept, ca)
	if err != nil {
		return Credentials{}, err
	}
	if err := c.Store.savePending(next); err != nil {
		return Credentials{}, err
	}
	c.Log.WithFields(logrus.Fields{log.FieldCluster: c.Cluster, log.FieldAddress: c.Server}).
		Infof("joining; unless the token accepts by itself, run on the hub: nave cluster accept %s", c.Cluster)
	if next.Certificate, err = c.ask(ctx, next, t); err != nil {
		return Credentials{}, err
	}
	if err := next.usable(c.Clock.Now()); err != nil {
		return Credentials{}, fmt.Errorf("the hub issued a certificate that cannot be used: %w", err)
	}
	if err := c.Store.save(ctx, next); err != nil {
		return Credentials{}, err
	}
	c.Log.WithFields(logrus.Fields{log.FieldCluster: c.Cluster, log.FieldAddress: c.Server}).Info("joined the hub")
	return next, nil
}

// ask asks the hub with the token until it answers. A hub that goes away while somebody decides about the cluster comes
// back, and people change their minds about a cluster; a refusal of the token is final.
func (c Config) ask(ctx context.Context, next Credentials, t token.Token) ([]byte, error) {
	config := &rest.Config{
		Host: c.Server, UserAgent: c.UserAgent, BearerToken: t.Bearer(), QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: next.CA},
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of hub %s: %w", c.Server, err)
	}
	key, err := parseKey(next.Key)
	if err != nil {
		return nil, err
	}
	told := false
	for {
		var certificate []byte
		err := c.ensureCluster(ctx, config)
		if err == nil {
			certificate, err = c.request(ctx, kube, next.Agent, key)
		}
		if err = explain(err); err == nil || !passing(err) || ctx.Err() != nil {
			return certificate, err
		}
		if !told {
			c.Log.WithField(log.FieldAddress, c.Server).WithError(err).Warn("the hub gives no certificate; it is asked again")
			told = true
		}
		pause := retryHub
		if errors.Is(err, certrequest.ErrDenied) {
			pause = retryDenied
		}
		if err := wait(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// request asks the hub for a certificate of agent and waits for it.
func (c Config) request(ctx context.Context, hub kubernetes.Interface, agent identity.Agent, key crypto.Signer) ([]byte, error) {
	r := certrequest.ForAgent(agent)
	r.Log, r.Key = c.Log.WithField(log.FieldCluster, agent.Cluster), key
	r.Client, r.Lifetime = hub.CertificatesV1().CertificateSigningRequests(), c.Settings.Get().CertificateLifetime
	return certrequest.Obtain(ctx, r)
}

// passing tells whether an error may be gone the next time: the hub is away or busy, rather than of another opinion.
func passing(err error) bool {
	var final *JoinError
	if errors.As(err, &final) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}

// reach gets the hub's CA, trying for a while, since hub and agent are often started at the same time.
func (c Config) reach(ctx context.Context, t token.Token) ([]byte, error) {
	deadline := c.Clock.Now().Add(firstContact)
	for {
		ca, err := pinnedCA(ctx, c.Server, t)
		var final *JoinError
		if err == nil || errors.As(err, &final) || ctx.Err() != nil {
			return ca, err
		}
		if c.Clock.Now().After(deadline) {
			return nil, refusal(exitUnreachable, "%w; check --server and that the hub runs", err)
		}
		if err := wait(ctx, retryHub); err != nil {
			return nil, err
		}
	}
}

// nextIdentity is the identity to ask a certificate for. An unfinished one is taken up; a new one has a new key. The
// agent's name is kept for ever, since what it applied to the cluster bears it.
func (c Config) nextIdentity(kept Credentials, ca []byte) (Credentials, error) {
	pending, err := c.Store.loadPending()
	if err == nil && pending.Agent.Cluster == c.Cluster && string(pending.CA) == string(ca) {
		if _, err := parseKey(pending.Key); err == nil {
			pending.Server = c.Server
			return pending, nil
		}
	}
	name := kept.Agent.Name
	if name == "" {
		name = pending.Agent.Name
	}
	if name == "" {
		if name, err = agentName(); err != nil {
			return Credentials{}, err
		}
	}
	_, text, err := newKey()
	if err != nil {
		return Credentials{}, err
	}
	return Credentials{Server: c.Server, CA: ca, Agent: identity.Agent{Cluster: c.Cluster, Name: name}, Key: text}, nil
}

func agentName() (string, error) {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	raw := make([]byte, agentNameLength)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("random agent name: %w", err)
	}
	for i := range raw {
		raw[i] = alphabet[int(raw[i])%len(alphabet)]
	}
	return string(raw), nil
}

// ensureCluster creates the ManagedCluster, not accepted, if it is not there.
func (c Config) ensureCluster(ctx context.Context, config *rest.Config) error {
	client, err := clusterclient.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client of hub %s: %w", c.Server, err)
	}
	clusters := client.ClusterV1().ManagedClusters()
	_, err = clusters.Get(ctx, c.Cluster, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = clusters.Create(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: c.Cluster}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("managed cluster %s on the hub: %w", c.Cluster, err)
	}
	return nil
}
