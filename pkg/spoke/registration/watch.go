package registration

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"nave/pkg/agentstate"
	"nave/pkg/log"
)

const (
	// settle is how long a file is left alone after a change, so that a half-written one is rarely read.
	settle = 100 * time.Millisecond
	// lookAnyway is how often files are read without an event, of which some file systems have none.
	lookAnyway = time.Minute
)

// watcher keeps the wish up to date with its sources.
type watcher struct {
	Config
	sources Sources

	mu     sync.Mutex
	secret *corev1.Secret
}

// Watch keeps the wish up to date until ctx ends: changed files and a changed secret are noticed at once.
func (c Config) Watch(ctx context.Context, sources Sources, kube kubernetes.Interface) error {
	w := &watcher{Config: c, sources: sources}
	if sources.onCluster() {
		return w.watchSecret(ctx, kube)
	}
	return w.watchFiles(ctx)
}

// Look reads the wish once, before anything runs.
func (c Config) Look(ctx context.Context, sources Sources, kube kubernetes.Interface) {
	w := &watcher{Config: c, sources: sources}
	if sources.onCluster() {
		secret, err := kube.CoreV1().Secrets(Namespace).Get(ctx, BootstrapSecret, metav1.GetOptions{})
		if err == nil {
			w.secret = secret
		} else if !apierrors.IsNotFound(err) {
			c.Log.WithError(err).Warn("the bootstrap secret cannot be read")
		}
	}
	w.read()
}

// read takes note of what the sources say now.
func (w *watcher) read() {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, after := w.Wish.Get(), w.sources.Read(w.secret)
	w.Wish.Update(func(Wish) Wish { return after })
	if fmt.Sprint(before.Fault) == fmt.Sprint(after.Fault) {
		return
	}
	fault := w.bootstrapFault(after)
	if fault != nil {
		w.Log.WithError(after.Fault).Warn("a bootstrap credential cannot be used")
	}
	w.State.Update(func(s agentstate.State) agentstate.State { s.Bootstrap = fault; return s })
}

func (w *watcher) watchSecret(ctx context.Context, kube kubernetes.Interface) error {
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(Namespace), informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", BootstrapSecret).String()
	}))
	set := func(secret *corev1.Secret) {
		w.mu.Lock()
		w.secret = secret
		w.mu.Unlock()
		w.read()
	}
	_, err := factory.Core().V1().Secrets().Informer().AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: func(obj any) bool { // once more, for API servers that do not select
			name, err := cache.DeletionHandlingObjectToName(obj)
			return err == nil && name.Name == BootstrapSecret
		},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { set(obj.(*corev1.Secret)) },
			UpdateFunc: func(_, obj any) { set(obj.(*corev1.Secret)) },
			DeleteFunc: func(any) { set(nil) },
		},
	})
	if err != nil {
		return fmt.Errorf("watch secret %s/%s: %w", Namespace, BootstrapSecret, err)
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
	return nil
}

// watchFiles watches the folders, since a file is often replaced by a rename, and a mounted secret by one of its folder.
func (w *watcher) watchFiles(ctx context.Context) error {
	events := make(<-chan fsnotify.Event)
	if notify, err := fsnotify.NewWatcher(); err == nil {
		defer notify.Close()
		events = notify.Events
		for _, file := range w.sources.files() {
			if err := notify.Add(filepath.Dir(file)); err != nil {
				w.Log.WithField(log.FieldPath, file).WithError(err).Warn("changes of the file are noticed late")
			}
		}
	} else {
		w.Log.WithError(err).Warn("changes of files are noticed late")
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-events:
			if err := w.wait(ctx, settle, nil); err != nil {
				return nil
			}
			drain(events)
		case <-w.Clock.After(lookAnyway):
		}
		w.read()
	}
}

// drain forgets events of what is about to be read.
func drain(events <-chan fsnotify.Event) {
	for {
		select {
		case <-events:
		default:
			return
		}
	}
}
