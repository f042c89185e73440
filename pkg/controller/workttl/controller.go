// Package workttl deletes works that have done what they were for: a work that is complete goes once the time is over that
// its deleteOption.ttlSecondsAfterFinished gives it (spec 3.4).
//
// Upstream has this behind a gate, CleanUpCompletedManifestWork, that is off by default, and a work that asks for it then
// just stays. Here a work that asks is heard unless somebody has switched the gate off.
package workttl

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	"open-cluster-management.io/api/feature"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/live"
	"nave/pkg/log"
	"nave/pkg/reconcile"
	"nave/pkg/settings"
)

// workers delete different works side by side; many works may complete in the same second.
const workers = 4

// Config is what the controller needs. The hub starts the informers; of works they keep at least what Kept says.
type Config struct {
	Log           logrus.FieldLogger
	Works         workclient.Interface
	WorkInformers workinformers.SharedInformerFactory
	Settings      *live.Value[settings.Hub]
	Clock         clock.PassiveClock
}

// Controller deletes works whose time is over.
type Controller struct {
	Config
	loop   *reconcile.Loop
	works  worklisters.ManifestWorkLister
	synced cache.InformerSynced
}

// New registers for the events that matter.
func New(c Config) (*Controller, error) {
	works := c.WorkInformers.Work().V1().ManifestWorks()
	a := &Controller{Config: c, works: works.Lister()}
	a.loop = reconcile.New("workttl", c.Log, workers, a.reconcile)
	registration, err := works.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: a.changed, UpdateFunc: func(_, obj any) { a.changed(obj) },
	})
	if err != nil {
		return nil, fmt.Errorf("completed works: watch: %w", err)
	}
	a.synced = registration.HasSynced
	return a, nil
}

// changed leaves alone the works that have no end, which are nearly all of them.
func (a *Controller) changed(obj any) {
	work, ok := obj.(*workv1.ManifestWork)
	if !ok {
		return
	}
	if _, ends := end(work); ends {
		a.loop.Add(work.Namespace + "/" + work.Name)
	}
}

// Run works until ctx ends.
func (a *Controller) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), a.synced) {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.loop.Run(ctx) })
	group.Go(func() error { return a.followGate(ctx) })
	return group.Wait()
}

// followGate looks at all works again when settings change: those that ended while the gate was off are due.
func (a *Controller) followGate(ctx context.Context) error {
	for {
		_, changed := a.Settings.Watch()
		works, err := a.works.List(labels.Everything())
		if err != nil {
			return fmt.Errorf("completed works: %w", err)
		}
		for _, work := range works {
			a.changed(work)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func (a *Controller) reconcile(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, err
	}
	work, err := a.works.ManifestWorks(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	at, ends := end(work)
	if !ends || a.Settings.Get().Features.SwitchedOff(feature.CleanUpCompletedManifestWork) {
		return 0, nil
	}
	if left := at.Sub(a.Clock.Now()); left > 0 {
		return left, nil
	}
	return 0, a.remove(ctx, work)
}

// remove deletes the work as it was looked at. If it has changed, its time may have, too, and the change is an event.
func (a *Controller) remove(ctx context.Context, work *workv1.ManifestWork) error {
	err := a.Works.WorkV1().ManifestWorks(work.Namespace).Delete(ctx, work.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &work.UID, ResourceVersion: &work.ResourceVersion},
	})
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("delete completed work %s/%s: %w", work.Namespace, work.Name, err)
	}
	a.Log.WithFields(logrus.Fields{log.FieldCluster: work.Namespace, log.FieldWork: work.Name}).Info("work is complete and its time is over; deleted")
	return nil
}
