// Package klusterlet keeps the Klusterlet of a managed cluster, through which upstream's tools see the agent, its settings
// can be changed while it runs, and the cluster can be detached from its hub by deleting it (spec 7.2). What the object sets
// wins over the agent's flags; what it leaves out is as the flags say.
package klusterlet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	operatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"
	operatortyped "open-cluster-management.io/api/client/operator/clientset/versioned/typed/operator/v1"
	operatorinformers "open-cluster-management.io/api/client/operator/informers/externalversions"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"

	"nave/pkg/agentstate"
	"nave/pkg/live"
	"nave/pkg/reconcile"
	"nave/pkg/settings"
)

const (
	// Name is what the Klusterlet of an agent is called, as upstream's tools expect.
	Name = "klusterlet"
	// Namespace is where an agent keeps what it has on its cluster.
	Namespace = "open-cluster-management-agent"

	hubSecret = "hub-kubeconfig-secret"
	agentName = "agent-name" // key in it

	// cleanup keeps a deleted Klusterlet until the agent has detached the cluster; hosted is left by a hosted klusterlet.
	cleanup = "operator.open-cluster-management.io/klusterlet-cleanup"
	hosted  = "operator.open-cluster-management.io/klusterlet-hosted-cleanup"

	// keptBy is an annotation with the name of the cluster as which its agent runs. A second agent on the same cluster leaves
	// the object alone as long as the first one runs.
	keptBy = "nave.dev/kept-by"

	// operatorNamespace and operatorName are upstream's operator, whose Klusterlets are its own.
	operatorNamespace = "open-cluster-management"
	operatorName      = "klusterlet"

	// gather lets changes of state that come together be told together.
	gather = 200 * time.Millisecond
	// refused is how long after a refusal a write is tried again: somebody may have widened the agent's rights.
	refused = 10 * time.Minute
	// farewell bounds how long an agent that stops takes to say so.
	farewell = 2 * time.Second
)

// Config is what the loop needs.
type Config struct {
	Log      logrus.FieldLogger
	Spoke    *rest.Config
	Cluster  string                      // name of the managed cluster that the agent runs as
	Settings *live.Value[settings.Agent] // holds what the flags say, and gets what the object says
	State    *live.Value[agentstate.State]
}

// Deleted is why Run ended when the Klusterlet was deleted: the cluster is to be detached.
type Deleted struct{}

// Error implements error.
func (*Deleted) Error() string {
	return "the Klusterlet was deleted, so the cluster is detached from its hub"
}

// Loop keeps the Klusterlet.
type Loop struct {
	Config
	flags       settings.Agent
	definitions []string
	kube        *kubernetes.Clientset
	works       *workclient.Clientset
	klusterlets operatortyped.KlusterletInterface
	informers   operatorinformers.SharedInformerFactory
	informer    cache.SharedIndexInformer
	queue       *reconcile.Loop
	deleted     chan struct{}
	once        sync.Once
	told        []string // findings that were logged
	narrow      bool     // that rights are too narrow was logged
	foreign     bool     // that another agent keeps the object was logged
}

// New makes the clients.
func New(c Config) (*Loop, error) {
	a := &Loop{Config: c, flags: c.Settings.Get(), deleted: make(chan struct{})}
	var errs [3]error
	a.kube, errs[0] = kubernetes.NewForConfig(c.Spoke)
	a.works, errs[1] = workclient.NewForConfig(c.Spoke)
	client, err := operatorclient.NewForConfig(c.Spoke)
	errs[2] = err
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("klusterlet: %w", err)
	}
	a.klusterlets = client.OperatorV1().Klusterlets()
	a.informers = operatorinformers.NewSharedInformerFactoryWithOptions(client, 0, operatorinformers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", Name).String()
	}))
	a.informer = a.informers.Operator().V1().Klusterlets().Informer()
	a.queue = reconcile.New("klusterlet", c.Log, 1, a.reconcile)
	changed := func(any) { a.queue.Add(Name) }
	_, err = a.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, obj any) { changed(obj) }, DeleteFunc: changed})
	if err != nil {
		return nil, fmt.Errorf("klusterlet: watch: %w", err)
	}
	return a, nil
}

// Look puts in force what the object says, if there is one, before the agent does anything that depends on it. definitions
// are the names of those that the agent has installed on the cluster. A cluster that gives no answer is asked again by Run.
func (a *Loop) Look(ctx context.Context, definitions []string) {
	a.definitions = definitions
	k, err := a.klusterlets.Get(ctx, Name, metav1.GetOptions{})
	if err != nil || !a.mine(k) {
		return
	}
	s, _ := read(a.flags, a.Cluster, k.Spec)
	a.Settings.Update(func(settings.Agent) settings.Agent { return s })
}

// Run keeps the Klusterlet until ctx ends, or returns *Deleted when somebody has deleted it. An agent that may not have one
// says so once and goes on without.
func (a *Loop) Run(ctx context.Context) error {
	if why := a.without(ctx); why != "" {
		a.Log.Warn("this agent has no Klusterlet: " + why)
		<-ctx.Done()
		return nil
	}
	inner, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer a.informers.Shutdown()
	defer running.Wait()
	defer stop()
	a.informers.Start(inner.Done())
	if !cache.WaitForCacheSync(ctx.Done(), a.informer.HasSynced) {
		return nil
	}
	a.queue.Add(Name)
	running.Go(func() { a.followState(inner) })
	running.Go(func() { _ = a.queue.Run(inner) }) // it has no error of its own
	select {
	case <-a.deleted:
		return &Deleted{}
	case <-ctx.Done():
		a.sayGoodbye(ctx)
		return nil
	}
}

// without says why the agent has no Klusterlet on this cluster, or nothing. A cluster that is away is asked again by the
// informer.
func (a *Loop) without(ctx context.Context) string {
	_, err := a.klusterlets.List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsNotFound(err) {
		return "its definition is not on the cluster, and the agent may not install it"
	}
	if apierrors.IsForbidden(err) {
		return "the agent may not read it: " + err.Error()
	}
	if _, err := a.kube.AppsV1().Deployments(operatorNamespace).Get(ctx, operatorName, metav1.GetOptions{}); err == nil {
		return fmt.Sprintf("deployment %s/%s on the cluster keeps Klusterlets; remove it to let the agent keep its own", operatorNamespace, operatorName)
	}
	return ""
}

// followState tells of changes in what the agent knows of itself.
func (a *Loop) followState(ctx context.Context) {
	for {
		_, changed := a.State.Watch()
		select {
		case <-ctx.Done():
			return
		case <-changed:
			a.queue.AddAfter(Name, gather)
		}
	}
}
