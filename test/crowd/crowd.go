// Package crowd runs many agents in one process: the real registration, heartbeat and cluster status of an agent, each with
// an identity of its own on one hub, all with the same managed cluster. It shows what a hub does under hundreds of clusters
// on a machine that could not carry as many processes.
package crowd

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"

	"nave/pkg/agentstate"
	"nave/pkg/live"
	"nave/pkg/settings"
	"nave/pkg/spoke/clusterstatus"
	"nave/pkg/spoke/heartbeat"
	"nave/pkg/spoke/registration"
	"nave/pkg/token"
	"nave/pkg/uplink"
)

const (
	// UserAgent is what the agents call themselves; the hub notes it as the manager of fields that they wrote.
	UserAgent = "nave-crowd"

	// tokenLife is longer than any run.
	tokenLife = time.Hour
	// making is how many tokens are made at a time.
	making = 8
)

// Config says where the agents live.
type Config struct {
	Hub   *rest.Config // an administrator's access to the hub, to make tokens with
	Spoke *rest.Config // access to the managed cluster that all agents share
	Dir   string       // for the agents' identities
	Log   logrus.FieldLogger
}

// Crowd is a growing number of agents.
type Crowd struct {
	config  Config
	kube    *kubernetes.Clientset
	caHash  [32]byte
	running context.Context
	stop    context.CancelFunc
	agents  sync.WaitGroup
}

// New makes a crowd without agents.
func New(c Config) (*Crowd, error) {
	kube, err := kubernetes.NewForConfig(c.Hub)
	if err != nil {
		return nil, fmt.Errorf("client of hub %s: %w", c.Hub.Host, err)
	}
	block, _ := pem.Decode(c.Hub.CAData)
	if block == nil {
		return nil, fmt.Errorf("access to hub %s holds no CA", c.Hub.Host)
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("CA of hub %s: %w", c.Hub.Host, err)
	}
	crowd := &Crowd{config: c, kube: kube, caHash: token.CAHash(ca)}
	crowd.running, crowd.stop = context.WithCancel(context.Background())
	return crowd, nil
}

// Close stops all agents and waits for them.
func (c *Crowd) Close() {
	c.stop()
	c.agents.Wait()
}

// Join makes a token for each name, and then starts all agents.
func (c *Crowd) Join(ctx context.Context, names []string) error {
	tokens, err := c.Tokens(ctx, names)
	if err != nil {
		return err
	}
	return c.Start(ctx, names, tokens)
}

// Start starts an agent for each name and token, all in the same instant. It returns when every one has its certificate,
// or with the first error; the agents run on until Close.
func (c *Crowd) Start(ctx context.Context, names, tokens []string) error {
	sources := make([]registration.Sources, len(names))
	for i, name := range names {
		sources[i] = registration.Sources{Cluster: name, Server: c.config.Hub.Host, Token: tokens[i]}
	}
	return c.startAll(ctx, sources)
}

// Bootstrap starts an agent for each name as Start does, all with one bootstrap kubeconfig, as klusterlets have it.
func (c *Crowd) Bootstrap(ctx context.Context, names []string, kubeconfig string) error {
	sources := make([]registration.Sources, len(names))
	for i, name := range names {
		sources[i] = registration.Sources{Cluster: name, Kubeconfigs: []string{kubeconfig}}
	}
	return c.startAll(ctx, sources)
}

func (c *Crowd) startAll(ctx context.Context, sources []registration.Sources) error {
	var joining errgroup.Group
	for _, from := range sources {
		joining.Go(func() error {
			if err := c.start(ctx, from); err != nil {
				return fmt.Errorf("agent %s: %w", from.Cluster, err)
			}
			return nil
		})
	}
	return joining.Wait()
}

// Tokens are join tokens that accept by themselves, one for each name.
func (c *Crowd) Tokens(ctx context.Context, names []string) ([]string, error) {
	all := make([]string, len(names))
	var group errgroup.Group
	group.SetLimit(making)
	for i, name := range names {
		group.Go(func() error {
			made, err := token.New(c.caHash)
			if err != nil {
				return err
			}
			record := token.Record{ID: made.ID, Hash: token.Hash(made.Secret), Expires: time.Now().Add(tokenLife), Cluster: name, Bound: true, AutoAccept: true}
			if _, err := c.kube.CoreV1().Secrets(token.Namespace).Create(ctx, record.Secret(), metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("token for %s: %w", name, err)
			}
			all[i] = made.String()
			return nil
		})
	}
	return all, group.Wait()
}

// start joins one agent and leaves its loops running.
func (c *Crowd) start(ctx context.Context, from registration.Sources) error {
	name := from.Cluster
	join := registration.Config{
		Wish:      live.New(from.Read(nil)),
		UserAgent: UserAgent,
		// On the shared cluster there is one secret for an agent's identity, so each keeps it apart.
		Store:    registration.Store{Dir: filepath.Join(c.config.Dir, name), Kube: fake.NewClientset()},
		Settings: live.New(settings.DefaultAgent()), State: live.New(agentstate.State{Cluster: name}),
		Clock: clock.RealClock{}, Log: c.config.Log,
	}
	credentials, err := join.Identity(ctx)
	if err != nil {
		return err
	}
	up, err := uplink.New(uplink.Config{Target: credentials.Target(), Clock: clock.RealClock{}})
	if err != nil {
		return err
	}
	loops, err := c.loops(name, join, credentials, up)
	if err != nil {
		up.Close()
		return err
	}
	c.agents.Go(func() {
		defer up.Close()
		var running sync.WaitGroup
		for _, loop := range loops {
			running.Go(func() {
				if err := loop(c.running); err != nil && c.running.Err() == nil {
					c.config.Log.WithError(err).Errorf("agent %s", name)
				}
			})
		}
		running.Wait()
	})
	return nil
}

// loops are those of an agent's session but for works and add-ons.
func (c *Crowd) loops(name string, join registration.Config, credentials registration.Credentials, up *uplink.Uplink) ([]func(context.Context) error, error) {
	hub := up.Client(UserAgent)
	kube, err1 := kubernetes.NewForConfig(hub)
	clusters, err2 := clusterclient.NewForConfig(hub)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	own := clusterinformers.NewSharedInformerFactoryWithOptions(clusters, 0, clusterinformers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
	}))
	self := own.Cluster().V1().ManagedClusters()
	beat, err1 := heartbeat.New(heartbeat.Config{Log: c.config.Log, Cluster: name, Hub: kube, Clusters: self, State: join.State, Clock: clock.RealClock{}})
	status, err2 := clusterstatus.New(clusterstatus.Config{
		Log: c.config.Log, Cluster: name, Hub: clusters, Clusters: self, Spoke: c.config.Spoke,
		Settings: join.Settings, Events: silent{}, Clock: clock.RealClock{},
	})
	rotation, err3 := registration.NewReporter(c.config.Log, name, clusters, self)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	return []func(context.Context) error{
		func(ctx context.Context) error { own.Start(ctx.Done()); <-ctx.Done(); own.Shutdown(); return nil },
		rotation.Run,
		func(ctx context.Context) error { return join.Renew(ctx, up, credentials, rotation.Set) },
		func(ctx context.Context) error { return join.Attend(ctx, up, credentials, self) },
		beat.Run,
		status.Run,
	}, nil
}

// silent records no events.
type silent struct{}

// Cluster implements clusterstatus.Recorder.
func (silent) Cluster(string, string, string) {}
