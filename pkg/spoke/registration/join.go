package registration

import (
	"context"
	"crypto"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/agentstate"
	"nave/pkg/certrequest"
	"nave/pkg/identity"
	"nave/pkg/log"
	"nave/pkg/settings"
)

const (
	// agentNameLength is that of upstream's random agent names.
	agentNameLength = 5

	// annotationPrefix is that of annotations that an agent may give its cluster (spec 2.1).
	annotationPrefix = "agent.open-cluster-management.io"
)

// join asks for a new identity and waits for it.
func (s *search) join(ctx context.Context, way Bootstrap, kept Credentials) (Credentials, error) {
	way, err := s.reach(ctx, way)
	if err != nil {
		return Credentials{}, err
	}
	next, key, err := s.nextIdentity(ctx, kept, way)
	if err != nil {
		return Credentials{}, local(err)
	}
	access := way.rest(s.UserAgent)
	if err := s.ensureCluster(ctx, access); err != nil {
		return Credentials{}, s.explain(way, err)
	}
	s.askedFor(next)
	kube, err := kubernetes.NewForConfig(access)
	if err != nil {
		return Credentials{}, fmt.Errorf("client of hub %s: %w", way.Server, err)
	}
	if next.Certificate, err = s.request(ctx, kube, next.Agent, key); err != nil {
		return Credentials{}, s.explain(way, err)
	}
	next.Signer = signer(next.CA)
	if err := next.usable(s.Clock.Now()); err != nil {
		return Credentials{}, &trouble{reason: agentstate.HubError, err: fmt.Errorf("the hub issued a certificate that cannot be used: %w; are the clocks right?", err)}
	}
	if err := s.Store.save(ctx, next); err != nil {
		return Credentials{}, local(err)
	}
	s.Log.WithFields(logrus.Fields{log.FieldCluster: next.Agent.Cluster, log.FieldAddress: next.Server}).Info("joined the hub")
	return next, nil
}

// askedFor tells people, once a hub, what they have to do there.
func (s *search) askedFor(next Credentials) {
	if s.asked == next.Server {
		return
	}
	s.asked = next.Server
	s.Log.WithFields(logrus.Fields{log.FieldCluster: next.Agent.Cluster, log.FieldAddress: next.Server}).
		Infof("joining; unless the hub accepts by itself, run there: nave cluster accept %s", next.Agent.Cluster)
}

// explain says what an error of the bootstrap credential means.
func (s *search) explain(way Bootstrap, err error) error {
	err = explain(err)
	var final *JoinError
	switch {
	case err == nil || errors.As(err, &final) || errors.Is(err, certrequest.ErrDenied):
		return err
	case untrusted(err):
		return refusal(exitOtherHub, "%w", explainTLS(way.Server, err))
	case !refusedBy(err):
		return fmt.Errorf("hub %s: %w", way.Server, err)
	}
	if end, over := way.expired(s.Clock.Now()); over {
		return unauthorized(refusal(exitExpired, "the hub refuses %s: its token expired at %s; make another one (clusteradm get token, nave token create)", way.Source, end.UTC().Format(stampLayout)))
	}
	if apierrors.IsUnauthorized(err) && way.Token == nil {
		return unauthorized(refusal(exitUnknown, "the hub refuses %s: its credential is unknown, expired or deleted there; make another one (clusteradm get token, nave token create): %w", way.Source, err))
	}
	return unauthorized(fmt.Errorf("the hub refuses %s: %w", way.Source, err))
}

// unauthorized is the trouble of a bootstrap credential that the hub does not take, or not yet.
func unauthorized(err error) error {
	return &trouble{bootstrap: true, reason: agentstate.BootstrapUnauthorized, err: err}
}

// local is the trouble of an identity that cannot be kept.
func local(err error) error {
	if err == nil {
		return nil
	}
	return &trouble{reason: agentstate.HubError, err: err}
}

// reach makes sure that a hub is the one that the way leads to, and completes a join token's way by its CA. Kubeconfigs
// bring their CA along.
func (s *search) reach(ctx context.Context, way Bootstrap) (Bootstrap, error) {
	if way.Token == nil {
		return way, nil
	}
	ca, err := pinnedCA(ctx, way.Server, *way.Token)
	if err != nil {
		return way, err
	}
	way.CA, way.Bearer, way.Entry = ca, way.Token.Bearer(), joinEntry
	return way, nil
}

// nextIdentity is the identity to ask a certificate for, and its key. An unfinished one is taken up; a new one has a new
// key. The agent's name is kept for ever, since what it applied to the cluster bears it. What the cluster alone keeps for
// another cluster's name is another agent's: with its name, each of the two would take off what the other one has applied.
func (s *search) nextIdentity(ctx context.Context, kept Credentials, way Bootstrap) (Credentials, crypto.Signer, error) {
	cluster := s.Wish.Get().Cluster
	pending, err := s.Store.loadPending(ctx)
	if err == nil && pending.Agent.Cluster == cluster && string(pending.CA) == string(way.CA) {
		if key, err := parseKey(pending.Key); err == nil {
			return way.place(pending), key, nil
		}
	}
	own := s.Store.hasFile()
	var name string
	for _, known := range []identity.Agent{pending.Agent, kept.Agent} {
		if known.Name != "" && (own || known.Cluster == cluster) {
			name = known.Name
		}
	}
	if name == "" {
		if name, err = agentName(); err != nil {
			return Credentials{}, nil, err
		}
	}
	key, text, err := newKey()
	if err != nil {
		return Credentials{}, nil, err
	}
	next := way.place(Credentials{Agent: identity.Agent{Cluster: cluster, Name: name}, Key: text})
	return next, key, s.Store.savePending(ctx, next)
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

// request asks the hub for a certificate of agent and waits for it.
func (c Config) request(ctx context.Context, hub kubernetes.Interface, agent identity.Agent, key crypto.Signer) ([]byte, error) {
	r := certrequest.ForAgent(agent)
	r.Log, r.Key = c.Log.WithField(log.FieldCluster, agent.Cluster), key
	r.Client, r.Lifetime = hub.CertificatesV1().CertificateSigningRequests(), c.Settings.Get().CertificateLifetime
	return certrequest.Obtain(ctx, r)
}

// ensureCluster creates the ManagedCluster, not accepted, if it is not there.
func (s *search) ensureCluster(ctx context.Context, config *rest.Config) error {
	name := s.Wish.Get().Cluster
	client, err := clusterclient.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client of hub %s: %w", config.Host, err)
	}
	clusters := client.ClusterV1().ManagedClusters()
	wanted := newCluster(name, s.Settings.Get(), s.SpokeCA)
	there, err := clusters.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		if _, err = clusters.Create(ctx, wanted, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			return nil
		}
	case err == nil && len(there.Spec.ManagedClusterClientConfigs) != len(wanted.Spec.ManagedClusterClientConfigs):
		there.Spec.ManagedClusterClientConfigs = wanted.Spec.ManagedClusterClientConfigs
		if _, err = clusters.Update(ctx, there, metav1.UpdateOptions{}); apierrors.IsForbidden(err) {
			s.Log.WithField(log.FieldCluster, name).WithError(err).Warn("the hub does not let this agent say where its cluster's API is; somebody else has to, in spec.managedClusterClientConfigs")
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("managed cluster %s on the hub: %w", name, err)
	}
	return nil
}

// newCluster is the ManagedCluster as its agent creates it (spec 2.1).
func newCluster(name string, s settings.Agent, spokeCA []byte) *clusterv1.ManagedCluster {
	annotations := maps.Clone(s.ClusterAnnotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool { return !strings.HasPrefix(key, annotationPrefix) })
	return &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: s.ClusterLabels, Annotations: annotations},
		Spec:       clusterv1.ManagedClusterSpec{ManagedClusterClientConfigs: clientConfigs(s, spokeCA)},
	}
}

// clientConfigs are where clients find the managed cluster's API. They are never made of anything but what was given: the
// address in the agent's own kubeconfig is often one that means nothing elsewhere.
func clientConfigs(s settings.Agent, spokeCA []byte) []clusterv1.ClientConfig {
	var all []clusterv1.ClientConfig
	for _, u := range s.ExternalServerURLs {
		ca := u.CA
		if len(ca) == 0 {
			ca = spokeCA
		}
		all = append(all, clusterv1.ClientConfig{URL: u.URL, CABundle: slices.Clone(ca)})
	}
	return all
}
