package addon

import (
	"context"
	"crypto"
	"crypto/x509/pkix"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"nave/pkg/certrequest"
	"nave/pkg/identity"
	"nave/pkg/log"
	"nave/pkg/reconcile"
)

// maxPending are the requests for one add-on that may wait on the hub; a hub that nobody looks after is not filled up.
const maxPending = 10

// Registrar gives the agents of add-ons their identities on the hub and keeps them fresh.
type Registrar struct {
	Config
	loop       *reconcile.Loop
	requests   *requests
	secrets    corelisters.SecretLister // of add-ons alone
	namespaces corelisters.NamespaceLister
	start      []func(stop <-chan struct{})
	synced     []cache.InformerSynced
}

// NewRegistrar registers for add-ons, for their secrets on the managed cluster, and for namespaces that they wait for.
func NewRegistrar(c Config) (*Registrar, error) {
	r := &Registrar{Config: c}
	r.loop = reconcile.New("addonregistration", c.Log, workers, r.reconcile)
	r.requests = &requests{dir: c.KeyDir, obtain: r.obtain, answered: r.loop.Add, open: map[string]*request{}}
	addons, err := c.onAddOns(r.loop.Add)
	if err != nil {
		return nil, err
	}
	own := informers.NewSharedInformerFactoryWithOptions(c.Spoke, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = addonLabel + "," + identity.ClusterNameLabel + "=" + c.Agent.Cluster
	}))
	secrets := own.Core().V1().Secrets()
	all := informers.NewSharedInformerFactoryWithOptions(c.Spoke, 0, informers.WithTransform(nameOnly))
	namespaces := all.Core().V1().Namespaces()
	r.secrets, r.namespaces = secrets.Lister(), namespaces.Lister()
	r.start = []func(<-chan struct{}){own.Start, all.Start}
	changed := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if secret, ok := obj.(*corev1.Secret); ok {
			r.loop.Add(secret.Labels[addonLabel])
		}
	}
	ofSecrets, err := secrets.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, obj any) { changed(obj) }, DeleteFunc: changed})
	if err != nil {
		return nil, fmt.Errorf("watch secrets of add-ons: %w", err)
	}
	ofNamespaces, err := namespaces.Informer().AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{AddFunc: func(_ any, first bool) {
		if !first {
			c.each(r.loop.Add)
		}
	}})
	if err != nil {
		return nil, fmt.Errorf("watch namespaces: %w", err)
	}
	r.synced = []cache.InformerSynced{addons, ofSecrets.HasSynced, ofNamespaces.HasSynced}
	return r, nil
}

// nameOnly keeps of a namespace that it is there.
func nameOnly(obj any) (any, error) {
	if ns, ok := obj.(*corev1.Namespace); ok {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.Name, UID: ns.UID, ResourceVersion: ns.ResourceVersion}}, nil
	}
	return obj, nil
}

// Run works until ctx ends.
func (r *Registrar) Run(ctx context.Context) error {
	for _, start := range r.start {
		start(ctx.Done())
	}
	if !cache.WaitForCacheSync(ctx.Done(), r.synced...) {
		return nil
	}
	r.requests.running.Go(func() { r.onSettings(ctx, func() { r.each(r.loop.Add) }) })
	err := r.loop.Run(ctx)
	r.requests.running.Wait()
	return err
}

// obtain asks the hub for a certificate and waits for it.
func (r *Registrar) obtain(ctx context.Context, w wanted, key crypto.Signer) ([]byte, error) {
	return certrequest.Obtain(ctx, certrequest.Request{
		Log:        r.Log.WithField(log.FieldObject, "add-on "+w.addon),
		Client:     r.Hub.CertificatesV1().CertificateSigningRequests(),
		NamePrefix: fmt.Sprintf("addon-%s-%s-", r.Agent.Cluster, w.addon),
		Labels:     map[string]string{identity.ClusterNameLabel: r.Agent.Cluster, identity.AddOnNameLabel: w.addon},
		Signer:     w.signer,
		Subject:    pkix.Name{CommonName: w.subject.User, Organization: w.subject.Groups, OrganizationalUnit: w.subject.Units},
		DNSNames:   []string{identity.AddOnAgent{Cluster: r.Agent.Cluster, AddOn: w.addon}.Host()},
		Usages:     certrequest.ClientUsages(),
		Key:        key,
		Requester:  r.Agent.User(),
		MaxPending: maxPending,
	})
}

func labelsOf(set map[string]string) labels.Selector { return labels.SelectorFromSet(set) }

// sooner is the shorter of two waits, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b > 0 && b < a) {
		return b
	}
	return a
}
