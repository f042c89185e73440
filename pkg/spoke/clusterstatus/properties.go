package clusterstatus

import (
	"context"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// propertyKind is about-api's ClusterProperty.
func propertyKind() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "about.k8s.io", Version: "v1alpha1", Resource: "clusterproperties"}
}

// properties are the ClusterProperties of the managed cluster. Their definition is not the agent's: it may be missing,
// appear, and go.
type properties struct {
	client     dynamic.Interface
	definition cache.SharedIndexInformer
	enabled    func() bool
	changed    func()

	mu       sync.Mutex
	informer cache.SharedIndexInformer // nil while there is nothing to watch
	stop     context.CancelFunc
	running  sync.WaitGroup
}

func newProperties(spoke *rest.Config, enabled func() bool, changed func()) (*properties, error) {
	client, err := dynamic.NewForConfig(spoke)
	if err != nil {
		return nil, fmt.Errorf("client of the managed cluster: %w", err)
	}
	crds, err := apiextensions.NewForConfig(spoke)
	if err != nil {
		return nil, fmt.Errorf("client of the managed cluster: %w", err)
	}
	kind := propertyKind()
	source := cache.NewListWatchFromClient(crds.ApiextensionsV1().RESTClient(), "customresourcedefinitions", "",
		fields.OneTermEqualSelector("metadata.name", kind.GroupResource().String()))
	return &properties{
		client: client, enabled: enabled, changed: changed,
		definition: cache.NewSharedIndexInformer(source, &apiextensionsv1.CustomResourceDefinition{}, 0, cache.Indexers{}),
	}, nil
}

// start follows the definition until ctx ends; wait returns when all has stopped then.
func (p *properties) start(ctx context.Context) error {
	notify := func(any) { p.update(ctx) }
	if _, err := p.definition.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: notify, UpdateFunc: func(_, obj any) { notify(obj) }, DeleteFunc: notify}); err != nil {
		return fmt.Errorf("watch definition of cluster properties: %w", err)
	}
	p.running.Go(func() { p.definition.RunWithContext(ctx) })
	return nil
}

func (p *properties) wait() { p.running.Wait() }

// update begins or ends to watch properties. It has to be called when enabled changes.
func (p *properties) update(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := p.enabled() && p.served()
	switch {
	case wanted && p.informer == nil:
		p.watch(ctx)
	case !wanted && p.informer != nil:
		p.stop()
		p.informer = nil
		p.changed()
	}
}

func (p *properties) watch(ctx context.Context) {
	ctx, p.stop = context.WithCancel(ctx)
	p.informer = dynamicinformer.NewFilteredDynamicInformer(p.client, propertyKind(), "", 0, cache.Indexers{}, nil).Informer()
	informer := p.informer
	p.running.Go(func() { informer.RunWithContext(ctx) })
	p.running.Go(func() {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return
		}
		p.changed() // also if there are none
		notify := func(any) { p.changed() }
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: notify, UpdateFunc: func(_, obj any) { notify(obj) }, DeleteFunc: notify}); err != nil {
			return // the informer has been stopped
		}
	})
}

// served tells whether the managed cluster has properties.
func (p *properties) served() bool {
	for _, obj := range p.definition.GetStore().List() {
		crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			continue
		}
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return true
			}
		}
	}
	return false
}

// list returns the properties; known is false while it is not known what there is.
func (p *properties) list() (all []claim, known bool) {
	p.mu.Lock()
	informer := p.informer
	p.mu.Unlock()
	if informer == nil {
		return nil, !p.enabled() || p.definition.HasSynced()
	}
	if !informer.HasSynced() {
		return nil, false
	}
	for _, obj := range informer.GetStore().List() {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			value, _, _ := unstructured.NestedString(u.Object, "spec", "value")
			all = append(all, claim{name: u.GetName(), value: value, labels: u.GetLabels()})
		}
	}
	return all, true
}
