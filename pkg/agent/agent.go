// Package agent composes the agent of one managed cluster. It finds the cluster and then lives through sessions: it gets an
// identity on a hub, and runs the loops that keep hub and cluster in touch until that identity is of no use any more.
//
//	data directory → managed cluster → loops of the process
//	                                 → identity → loops of the session → identity → loops of the session → …
package agent

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"nave/pkg/agentstate"
	"nave/pkg/datadir"
	"nave/pkg/identity"
	"nave/pkg/lifecycle"
	"nave/pkg/live"
	"nave/pkg/log"
	"nave/pkg/settings"
	"nave/pkg/spoke/klusterlet"
	"nave/pkg/spoke/registration"
	"nave/pkg/version"
)

const (
	// reachSpoke is how long one try to reach the managed cluster may take, so that a wrong address is told soon.
	reachSpoke = 10 * time.Second
)

// Config says how an agent runs.
type Config struct {
	DataDir    string
	Hub        registration.Sources // which cluster to be, and ways to a hub; the ways are not needed once joined
	Kubeconfig string               // of the managed cluster; found by itself if empty
	Settings   settings.Agent
	Metrics    string // HOST:PORT at which metrics are served over plain HTTP; nowhere if empty
	Log        logrus.FieldLogger
	Clock      clock.WithTicker
}

// Agent is an agent that has its data directory and reaches its cluster, and can run once.
type Agent struct {
	config  Config
	dir     string
	spoke   *rest.Config
	kube    *kubernetes.Clientset
	release func() error
	metrics net.Listener // nil if nobody is to read metrics

	settings     *live.Value[settings.Agent]
	state        *live.Value[agentstate.State]
	registration registration.Config
}

// New takes the data directory and reaches the managed cluster, so that everything that a user may have got wrong on this
// side is told before anything runs.
func New(c Config) (*Agent, error) {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if reasons := identity.CheckClusterName(c.Hub.Cluster); len(reasons) > 0 {
		return nil, fmt.Errorf("cluster name %q: %s; choose another one with --cluster-name", c.Hub.Cluster, reasons[0])
	}
	dir := folder(c.DataDir)
	release, err := datadir.Lock(dir, "nave agent")
	if err != nil {
		return nil, err
	}
	a := &Agent{config: c, dir: dir, release: release, settings: live.New(c.Settings), state: live.New(agentstate.State{Cluster: c.Hub.Cluster})}
	if err := a.prepare(); err != nil {
		return nil, errors.Join(err, release())
	}
	if a.metrics, err = listenMetrics(c.Metrics); err != nil {
		return nil, errors.Join(err, release())
	}
	return a, nil
}

// folder is the agent's part of a data directory, which it may share with a hub.
func folder(dataDir string) string { return filepath.Join(dataDir, "agent") }

// Certificate is the one by which the hub knows the agent with this data directory, whether or not it runs, and its file;
// nil if it has not joined.
func Certificate(dataDir string) (file string, leaf *x509.Certificate, err error) {
	return identityStore(folder(dataDir)).Certificate()
}

func identityStore(dir string) registration.Store {
	return registration.Store{Dir: filepath.Join(dir, registration.SecretName)}
}

func (a *Agent) prepare() error {
	if a.detached() {
		return a.reach() // it will not join, so what it would need for that does not matter
	}
	store := identityStore(a.dir)
	wish := a.config.Hub.Read(nil)
	if wish.Fault != nil && !store.Holds() {
		return wish.Fault // whoever has just started the agent can mend it
	}
	if err := a.reach(); err != nil {
		return err
	}
	store.Kube = a.kube
	ca, err := certificateAuthority(a.spoke)
	if err != nil {
		return err
	}
	a.registration = registration.Config{
		Wish: live.New(wish), UserAgent: userAgent(), Store: store, Settings: a.settings, State: a.state, SpokeCA: ca,
		Clock: a.config.Clock, Log: a.config.Log.WithField(log.FieldComponent, "registration"),
	}
	return nil
}

func (a *Agent) reach() error {
	spoke, err := SpokeConfig(a.config.Kubeconfig)
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

// Run runs until ctx ends or a part fails, and returns when everything has stopped.
func (a *Agent) Run(ctx context.Context) error {
	err := a.run(ctx)
	if a.metrics != nil {
		_ = a.metrics.Close() // it is closed already where metrics were served
	}
	return errors.Join(err, a.release())
}

func (a *Agent) run(ctx context.Context) error {
	own, err := klusterlet.New(klusterlet.Config{
		Log: a.config.Log.WithField(log.FieldComponent, "klusterlet"), Spoke: a.spoke, Cluster: a.config.Hub.Cluster, Settings: a.settings, State: a.state,
	})
	if err != nil {
		return err
	}
	if a.detached() {
		return a.stayAway(ctx, own)
	}
	definitions, err := a.installDefinitions(ctx)
	if err != nil {
		return err
	}
	own.Look(ctx, definitions)
	a.registration.Look(ctx, a.config.Hub, a.kube)
	err = a.live(ctx, own)
	var deleted *klusterlet.Deleted
	if errors.As(err, &deleted) {
		return a.detach(ctx, own)
	}
	return err
}

// live runs the loops of the process, and sessions.
func (a *Agent) live(ctx context.Context, own *klusterlet.Loop) error {
	group := lifecycle.New(a.config.Log)
	for _, l := range a.loops(own) {
		group.Add(l.name, lifecycle.Background(l.run))
	}
	group.Add("sessions", lifecycle.Background(a.sessions))
	return group.Run(ctx)
}
