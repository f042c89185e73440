// Package bootstraptoken keeps a standard bootstrap token for clusters at hand, where clusteradm get token
// --use-bootstrap-token looks for it (spec 1.6, 8). Upstream's never ends; this one is replaced every day, and whoever is
// shown it can count on a day (spec 10.1, S12). With it one can ask to register a cluster, and nothing else.
package bootstraptoken

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	"k8s.io/utils/clock"

	"nave/pkg/log"
	"nave/pkg/reconcile"
)

// key is the one key of the loop.
const key = "token"

// Config is what the controller needs. The hub starts the informers.
type Config struct {
	Log           logrus.FieldLogger
	Kube          kubernetes.Interface
	KubeInformers informers.SharedInformerFactory
	Clock         clock.PassiveClock
}

// Controller makes tokens. Kubernetes' own cleaner removes those that have expired.
type Controller struct {
	Config
	loop    *reconcile.Loop
	secrets corelisters.SecretNamespaceLister
	synced  cache.InformerSynced
}

// New registers for tokens that are removed, which are replaced.
func New(c Config) (*Controller, error) {
	secrets := c.KubeInformers.Core().V1().Secrets()
	k := &Controller{Config: c, secrets: secrets.Lister().Secrets(metav1.NamespaceSystem)}
	k.loop = reconcile.New("bootstraptoken", c.Log, 1, k.reconcile)
	registration, err := secrets.Informer().AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: func(obj any) bool {
			secret, ok := obj.(*corev1.Secret)
			return ok && secret.Labels[keptLabel] != ""
		},
		Handler: cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { k.loop.Add(key) }},
	})
	if err != nil {
		return nil, fmt.Errorf("bootstraptoken: watch secrets: %w", err)
	}
	k.synced = registration.HasSynced
	return k, nil
}

// Run works until ctx ends.
func (k *Controller) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), k.synced) {
		return nil
	}
	k.loop.Add(key)
	return k.loop.Run(ctx)
}

func (k *Controller) reconcile(ctx context.Context, _ string) (time.Duration, error) {
	kept, err := k.secrets.List(labels.Set{keptLabel: "true"}.AsSelector())
	if err != nil {
		return 0, fmt.Errorf("list bootstrap tokens: %w", err)
	}
	now := k.Clock.Now()
	if wait := due(kept, now); wait > 0 {
		return wait, nil
	}
	token, err := bootstraputil.GenerateBootstrapToken()
	if err != nil {
		return 0, fmt.Errorf("make bootstrap token: %w", err)
	}
	secret, err := newSecret(token, now)
	if err != nil {
		return 0, err
	}
	if _, err := k.Kube.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return 0, fmt.Errorf("secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	k.Log.WithField(log.FieldObject, secret.Name).Debug("bootstrap token for clusters is made")
	return life - assured, nil
}
