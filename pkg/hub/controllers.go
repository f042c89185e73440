package hub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/controller/acceptance"
	"nave/pkg/controller/addontoken"
	"nave/pkg/controller/approval"
	"nave/pkg/controller/availability"
	"nave/pkg/controller/bootstrap"
	"nave/pkg/controller/bootstraptoken"
	"nave/pkg/controller/cleanup"
	"nave/pkg/controller/clustermanager"
	"nave/pkg/controller/clusterprofile"
	"nave/pkg/controller/clusterset"
	"nave/pkg/controller/featurelabel"
	"nave/pkg/controller/kube"
	"nave/pkg/controller/replicaset"
	"nave/pkg/controller/scheduling"
	"nave/pkg/controller/signing"
	"nave/pkg/controller/workttl"
	"nave/pkg/log"
)

const (
	// informerResync is off: controllers act on events and on their own timers, never on a periodic repetition.
	informerResync = 0

	// certificateLife is how long the certificates that agents get are valid unless they ask for less.
	certificateLife = 365 * 24 * time.Hour
)

// controlling runs the hub's controllers, from the moment when the API server is ready until it stops.
type controlling struct {
	hub *Hub
	api *serving

	stop    context.CancelFunc
	running sync.WaitGroup
	failed  chan error
}

// clients are what the controllers share: one connection pool, one set of caches.
type clients struct {
	loopback *rest.Config
	kube     *kubernetes.Clientset
	clusters *clusterclient.Clientset
	works    *workclient.Clientset
	addons   *addonclient.Clientset

	dynamic    *dynamic.DynamicClient
	extensions *apiextensions.Clientset

	kubeInformers    informers.SharedInformerFactory
	clusterInformers clusterinformers.SharedInformerFactory
	workInformers    workinformers.SharedInformerFactory
	addonInformers   addoninformers.SharedInformerFactory
}

// runner is what every controller is.
type runner interface {
	Run(ctx context.Context) error
}

// Start implements lifecycle.Component.
func (c *controlling) Start(ctx context.Context) error {
	shared, err := c.newClients()
	if err != nil {
		return err
	}
	published := bootstrap.Config{Kube: shared.kube, Server: c.hub.server, CABundle: c.hub.files.bundle, Log: c.logger("bootstrap")}
	if err := published.Ensure(ctx); err != nil {
		return err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: shared.kube.EventsV1()})
	controllers, err := c.build(shared, newRecorder(broadcaster))
	if err != nil {
		return err
	}
	controllers["bootstrap"] = published
	manager, err := clustermanager.New(clustermanager.Config{
		Log: c.logger("clustermanager"), Hub: shared.loopback, Settings: c.hub.config.Settings, Running: slices.Sorted(maps.Keys(controllers)),
	})
	if err != nil {
		return err
	}
	if err := manager.Ensure(ctx); err != nil {
		return err
	}
	controllers["clustermanager"] = manager
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	if err := broadcaster.StartRecordingToSinkWithContext(running); err != nil {
		stop()
		return fmt.Errorf("events: %w", err)
	}
	c.running.Go(func() {
		<-running.Done()
		broadcaster.Shutdown()
	})
	for name, controller := range controllers {
		c.running.Go(func() {
			if err := controller.Run(running); err != nil && running.Err() == nil {
				select {
				case c.failed <- fmt.Errorf("controller %s: %w", name, err):
				default:
				}
			}
		})
	}
	shared.kubeInformers.Start(running.Done())
	shared.clusterInformers.Start(running.Done())
	shared.workInformers.Start(running.Done())
	shared.addonInformers.Start(running.Done())
	return nil
}

func (c *controlling) newClients() (*clients, error) {
	loopback := c.api.server.Loopback()
	loopback.QPS = -1 // priority and fairness of the API server is the limit
	loopback.UserAgent = "nave-hub"
	s := &clients{loopback: loopback, kubeInformers: c.api.server.Informers()}
	var errs [6]error
	s.kube, errs[0] = kubernetes.NewForConfig(loopback)
	s.clusters, errs[1] = clusterclient.NewForConfig(loopback)
	s.works, errs[2] = workclient.NewForConfig(loopback)
	s.addons, errs[3] = addonclient.NewForConfig(loopback)
	s.dynamic, errs[4] = dynamic.NewForConfig(loopback)
	s.extensions, errs[5] = apiextensions.NewForConfig(loopback)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("clients of the controllers: %w", err)
	}
	s.clusterInformers = clusterinformers.NewSharedInformerFactory(s.clusters, informerResync)
	s.workInformers = workinformers.NewSharedInformerFactoryWithOptions(s.works, informerResync, workinformers.WithTransform(withoutContent))
	s.addonInformers = addoninformers.NewSharedInformerFactory(s.addons, informerResync)
	return s, nil
}

func (c *controlling) logger(component string) logrus.FieldLogger {
	return c.hub.config.Log.WithField(log.FieldComponent, component)
}

// build makes every controller; nothing of them runs yet.
func (c *controlling) build(s *clients, record recorder) (map[string]runner, error) {
	all := map[string]runner{}
	var errs []error
	add := func(name string, r runner, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("controller %s: %w", name, err))
			return
		}
		all[name] = r
	}
	var (
		r   runner
		err error
	)
	r, err = kube.New(kube.Config{
		Log: c.logger("kube"), Loopback: s.loopback, Informers: s.kubeInformers,
		CABundle: c.hub.files.bundle, ServiceAccountKey: c.hub.files.serviceAccount(),
	})
	add("kube", r, err)
	r, err = signing.New(signing.Config{
		Log: c.logger("signing"), Kube: s.kube, Clusters: s.clusters, KubeInformers: s.kubeInformers, Clock: c.hub.config.Clock,
		CAFile: c.hub.files.clientCAPair(), Life: c.hub.config.AgentCertificateLife,
	})
	add("signing", r, err)
	r, err = bootstraptoken.New(bootstraptoken.Config{Log: c.logger("bootstraptoken"), Kube: s.kube, KubeInformers: s.kubeInformers, Clock: c.hub.config.Clock})
	add("bootstraptoken", r, err)
	r, err = acceptance.New(acceptance.Config{
		Log: c.logger("acceptance"), Kube: s.kube, Clusters: s.clusters, Settings: c.hub.config.Settings, Events: record,
		KubeInformers: s.kubeInformers, ClusterInformers: s.clusterInformers, WorkInformers: s.workInformers,
	})
	add("acceptance", r, err)
	r, err = approval.New(approval.Config{
		Log: c.logger("approval"), Kube: s.kube, Clusters: s.clusters, Clock: c.hub.config.Clock, Settings: c.hub.config.Settings,
		KubeInformers: s.kubeInformers, ClusterInformers: s.clusterInformers, AddonInformers: s.addonInformers,
	})
	add("approval", r, err)
	r, err = availability.New(availability.Config{
		Log: c.logger("availability"), Kube: s.kube, Clusters: s.clusters, Addons: s.addons, Clock: c.hub.config.Clock, Events: record,
		KubeInformers: s.kubeInformers, ClusterInformers: s.clusterInformers, AddonInformers: s.addonInformers,
	})
	add("availability", r, err)
	r, err = cleanup.New(cleanup.Config{
		Log: c.logger("cleanup"), Kube: s.kube, Clusters: s.clusters, Addons: s.addons, Works: s.works,
		Settings: c.hub.config.Settings, Clock: c.hub.config.Clock, Events: record,
		KubeInformers: s.kubeInformers, ClusterInformers: s.clusterInformers, AddonInformers: s.addonInformers, WorkInformers: s.workInformers,
	})
	add("cleanup", r, err)
	r, err = clusterset.New(clusterset.Config{
		Log: c.logger("clusterset"), Clusters: s.clusters, Settings: c.hub.config.Settings, Events: record, ClusterInformers: s.clusterInformers,
	})
	add("clusterset", r, err)
	placements, err := scheduling.New(scheduling.Config{
		Log: c.logger("placement"), Kube: s.kube, Clusters: s.clusters, ClusterInformers: s.clusterInformers, Clock: c.hub.config.Clock, Events: record,
	})
	add("placement", placements, err) // by this name, ClusterManagers tell whether it runs
	c.api.placements.set(placements)
	r, err = clusterprofile.New(clusterprofile.Config{
		Log: c.logger("clusterprofile"), Extensions: s.extensions, Dynamic: s.dynamic, ClusterInformers: s.clusterInformers, Settings: c.hub.config.Settings,
	})
	add("clusterprofile", r, err)
	r, err = featurelabel.New(featurelabel.Config{
		Log: c.logger("featurelabel"), Clusters: s.clusters, ClusterInformers: s.clusterInformers, AddonInformers: s.addonInformers,
	})
	add("featurelabel", r, err)
	r, err = addontoken.New(addontoken.Config{
		Log: c.logger("addontoken"), Kube: s.kube, Addons: s.addons, Settings: c.hub.config.Settings,
		KubeInformers: s.kubeInformers, AddonInformers: s.addonInformers,
	})
	add("addontoken", r, err)
	r, err = workttl.New(workttl.Config{
		Log: c.logger("workttl"), Works: s.works, WorkInformers: s.workInformers, Settings: c.hub.config.Settings, Clock: c.hub.config.Clock,
	})
	add("workttl", r, err)
	r, err = replicaset.New(replicaset.Config{
		Log: c.logger("replicaset"), Works: s.works, WorkInformers: s.workInformers, ClusterInformers: s.clusterInformers,
		Settings: c.hub.config.Settings, Clock: c.hub.config.Clock,
	})
	add("replicaset", r, err)
	return all, errors.Join(errs...)
}

// withoutContent keeps of a work, in the caches of the hub's controllers, what they look at: that it exists, when it is to
// end, and of those of a set whether they have succeeded. Manifests and status are nearly all of its bytes, and kubectl's note of what it applied holds the manifests again.
func withoutContent(obj any) (any, error) {
	if work, ok := obj.(*workv1.ManifestWork); ok {
		work.ManagedFields = nil
		delete(work.Annotations, corev1.LastAppliedConfigAnnotation)
		conditions := replicaset.Keep(work)
		work.Spec, work.Status = workttl.Kept(work)
		work.Status.Conditions = append(work.Status.Conditions, conditions...)
	}
	return obj, nil
}

// Stop implements lifecycle.Component.
func (c *controlling) Stop(ctx context.Context) error {
	c.stop()
	done := make(chan struct{})
	go func() {
		c.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("controllers do not stop: %w", ctx.Err())
	}
}

// Failed delivers the error with which a controller ended by itself.
func (c *controlling) Failed() <-chan error { return c.failed }
