// Package agent composes the agent of one managed cluster: it finds the cluster, joins the hub, and then runs the loops
// that keep the two in touch.
//
//	data directory → managed cluster → registration → heartbeat, cluster status, work, renewal
package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"

	"nave/manifests"
	"nave/pkg/datadir"
	"nave/pkg/footprint"
	"nave/pkg/identity"
	"nave/pkg/lifecycle"
	"nave/pkg/log"
	"nave/pkg/spoke/clusterstatus"
	"nave/pkg/spoke/heartbeat"
	"nave/pkg/spoke/registration"
	"nave/pkg/spoke/work"
	"nave/pkg/version"
)

const (
	// reachSpoke is how long one try to reach the managed cluster may take, so that a wrong address is told soon.
	reachSpoke = 10 * time.Second
)

// Config says how an agent runs.
type Config struct {
	DataDir     string
	Server      string // URL of the hub; not needed once joined
	Token       string // join token; not needed once joined
	ClusterName string
	Kubeconfig  string // of the managed cluster; found by itself if empty
	Log         logrus.FieldLogger
	Clock       clock.WithTicker
}

// Agent is an agent that has its data directory and reaches its cluster, and can run once.
type Agent struct {
	config  Config
	dir     string
	spoke   *rest.Config
	kube    *kubernetes.Clientset
	release func() error
}

// New takes the data directory and reaches the managed cluster, so that everything that a user may have got wrong on this
// side is told before anything runs.
func New(c Config) (*Agent, error) {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if reasons := identity.CheckClusterName(c.ClusterName); len(reasons) > 0 {
		return nil, fmt.Errorf("cluster name %q: %s; choose another one with --cluster-name", c.ClusterName, reasons[0])
	}
	dir := filepath.Join(c.DataDir, "agent")
	release, err := datadir.Lock(dir, "nave agent")
	if err != nil {
		return nil, err
	}
	a := &Agent{config: c, dir: dir, release: release}
	if err := a.reach(); err != nil {
		return nil, errors.Join(err, release())
	}
	return a, nil
}

func (a *Agent) reach() error {
	spoke, err := spokeConfig(a.config.Kubeconfig)
	if err != nil {
		return err
	}
	spoke.QPS = -1 // the loops bound what they do at a time; the cluster's priority and fairness does the rest
	spoke.UserAgent = userAgent()
	quick := rest.CopyConfig(spoke)
	quick.Timeout = reachSpoke
	client, err := kubernetes.NewForConfig(quick)
	if err != nil {
		return fmt.Errorf("managed cluster at %s: %w", spoke.Host, err)
	}
	if _, err := client.Discovery().ServerVersion(); err != nil {
		return fmt.Errorf("managed cluster at %s cannot be reached: %w; check that it runs and the kubeconfig", spoke.Host, err)
	}
	a.spoke = spoke
	a.kube, err = kubernetes.NewForConfig(spoke)
	return err
}

func userAgent() string { return "nave-agent/" + version.Current().Version }

// Run joins and runs until ctx ends or a part fails, and returns when everything has stopped.
func (a *Agent) Run(ctx context.Context) error {
	return errors.Join(a.run(ctx), a.release())
}

func (a *Agent) run(ctx context.Context) error {
	if err := ensureCRDs(ctx, a.spoke, manifests.SpokeCRDs); err != nil {
		return err
	}
	join := registration.Config{
		Server: a.config.Server, Token: a.config.Token, Cluster: a.config.ClusterName, UserAgent: userAgent(),
		Store: registration.Store{Dir: filepath.Join(a.dir, registration.SecretName), Kube: a.kube},
		Clock: a.config.Clock, Log: a.config.Log.WithField(log.FieldComponent, "registration"),
	}
	credentials, err := registration.Join(ctx, join)
	if err != nil {
		if ctx.Err() != nil {
			return nil // it was told to stop while it waited
		}
		return err
	}
	loops, err := a.loops(join.Store.Client(credentials, userAgent()), credentials)
	if err != nil {
		return err
	}
	group := lifecycle.New(a.config.Log)
	group.Add("renewal", lifecycle.Background(func(ctx context.Context) error { return registration.Renew(ctx, join, credentials) }))
	for _, l := range loops {
		group.Add(l.name, lifecycle.Background(l.run))
	}
	a.config.Log.WithFields(logrus.Fields{log.FieldCluster: a.config.ClusterName, log.FieldAddress: credentials.Server}).Info("agent runs")
	return group.Run(ctx)
}

type loop struct {
	name string
	run  func(ctx context.Context) error
}

// loops makes what runs once the agent has an identity. A hub that is away stops none of them: they go on when it is back.
func (a *Agent) loops(hub *rest.Config, credentials registration.Credentials) ([]loop, error) {
	kube, err := kubernetes.NewForConfig(hub)
	if err != nil {
		return nil, fmt.Errorf("client of hub %s: %w", hub.Host, err)
	}
	clusters, err := clusterclient.NewForConfig(hub)
	if err != nil {
		return nil, fmt.Errorf("client of hub %s: %w", hub.Host, err)
	}
	own := clusterinformers.NewSharedInformerFactoryWithOptions(clusters, 0, clusterinformers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", a.config.ClusterName).String()
	}))
	self := own.Cluster().V1().ManagedClusters()
	beat, err := heartbeat.New(heartbeat.Config{
		Log: a.config.Log.WithField(log.FieldComponent, "heartbeat"), Cluster: a.config.ClusterName, Hub: kube, Clusters: self, Clock: a.config.Clock,
	})
	if err != nil {
		return nil, err
	}
	status, err := clusterstatus.New(clusterstatus.Config{
		Log: a.config.Log.WithField(log.FieldComponent, "status"), Cluster: a.config.ClusterName, Hub: clusters, Clusters: self, Spoke: a.spoke, Clock: a.config.Clock,
	})
	if err != nil {
		return nil, err
	}
	works, err := work.New(work.Config{
		Log: a.config.Log.WithField(log.FieldComponent, "work"), Cluster: a.config.ClusterName, HubServer: credentials.Server,
		Hub: hub, Spoke: a.spoke, AgentID: credentials.Agent.Name, Clock: a.config.Clock,
	})
	if err != nil {
		return nil, err
	}
	return []loop{
		{"own cluster", func(ctx context.Context) error { own.Start(ctx.Done()); <-ctx.Done(); own.Shutdown(); return nil }},
		{"heartbeat", beat.Run},
		{"status", status.Run},
		{"work", works.Run},
		{"footprint", func(ctx context.Context) error { return footprint.Trim(ctx, a.config.Log) }},
	}, nil
}
