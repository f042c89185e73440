// Package registration gives an agent its identity on the hub: by a join token the first time, from what is kept after
// that, renewed before it ends (spec 2.1 to 2.3).
package registration

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/identity"
	"nave/pkg/log"
	"nave/pkg/pki"
	"nave/pkg/token"
)

const (
	// firstContact is how long an agent that never joined tries to reach its hub before it gives up and says so.
	firstContact = 10 * time.Second
	// retryHub is how soon an unreachable hub is tried again.
	retryHub = time.Second

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
	Clock     clock.WithTicker
	Log       logrus.FieldLogger
}

// Join returns the agent's identity: the one that is kept if it is still good, otherwise a new one by means of the token,
// which takes as long as the hub's people take to accept the cluster. Errors that no retry can mend have an ExitCode.
func Join(ctx context.Context, c Config) (Credentials, error) {
	kept, err := c.Store.Load(ctx)
	if err != nil && !errors.Is(err, ErrNone) {
		return Credentials{}, err
	}
	if err == nil {
		if err = c.fits(kept); err == nil {
			if c.Server != "" {
				kept.Server = c.Server // the same hub at another address: its CA decides
			}
			return kept, c.Store.Save(ctx, kept)
		}
	}
	if c.Token == "" {
		return Credentials{}, fmt.Errorf("agent of cluster %s cannot join: %w; create a token on the hub (nave token create) and give it in NAVE_TOKEN", c.Cluster, err)
	}
	return c.bootstrap(ctx, kept)
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

// bootstrap joins with the token. What was kept of an unfinished join at the same hub under the same name is continued.
func (c Config) bootstrap(ctx context.Context, kept Credentials) (Credentials, error) {
	t, err := token.Parse(c.Token)
	if err != nil {
		return Credentials{}, refusal(exitMalformed, "%w", err)
	}
	ca, err := c.reach(ctx, t)
	if err != nil {
		return Credentials{}, err
	}
	credentials, err := c.pendingIdentity(kept, ca)
	if err != nil {
		return Credentials{}, err
	}
	if err := c.Store.Save(ctx, credentials); err != nil {
		return Credentials{}, err
	}
	config := &rest.Config{
		Host: c.Server, UserAgent: c.UserAgent, BearerToken: t.Bearer(), QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
	}
	if err := c.ensureCluster(ctx, config); err != nil {
		return Credentials{}, explain(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Credentials{}, fmt.Errorf("client of hub %s: %w", c.Server, err)
	}
	key, err := parseKey(credentials.Key)
	if err != nil {
		return Credentials{}, err
	}
	c.Log.WithFields(logrus.Fields{log.FieldCluster: c.Cluster, log.FieldAddress: c.Server}).
		Infof("joining; unless the token accepts by itself, run on the hub: nave cluster accept %s", c.Cluster)
	credentials.Certificate, err = obtain(ctx, c.Log, kube.CertificatesV1().CertificateSigningRequests(), credentials.Agent, key)
	if err != nil {
		return Credentials{}, explain(err)
	}
	if err := c.Store.Save(ctx, credentials); err != nil {
		return Credentials{}, err
	}
	c.Log.WithFields(logrus.Fields{log.FieldCluster: c.Cluster, log.FieldAddress: c.Server}).Info("joined the hub")
	return credentials, nil
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

// pendingIdentity is the identity to ask a certificate for: a key and an agent name of before, or new ones.
func (c Config) pendingIdentity(kept Credentials, ca []byte) (Credentials, error) {
	if kept.Agent.Cluster == c.Cluster && string(kept.CA) == string(ca) && len(kept.Certificate) == 0 {
		if _, err := parseKey(kept.Key); err == nil {
			kept.Server = c.Server
			return kept, nil
		}
	}
	key, err := pki.NewKey()
	if err != nil {
		return Credentials{}, err
	}
	text, err := pki.KeyPEM(key)
	if err != nil {
		return Credentials{}, err
	}
	name, err := agentName()
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
