package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"
)

// Set is the works of one name on one cluster: the parts that nave work apply made, or one work that something else made.
type Set struct {
	Hub     workclient.Interface
	Cluster string
	Name    string
}

// Works are the works of the set, in order of their numbers; none if there are none.
func (s Set) Works(ctx context.Context) ([]*workv1.ManifestWork, error) {
	works, err := s.parts(ctx)
	if err != nil || len(works) > 0 {
		return works, err
	}
	work, err := s.Hub.WorkV1().ManifestWorks(s.Cluster).Get(ctx, s.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("work %s of cluster %s: %w", s.Name, s.Cluster, err)
	case s.otherSet(work):
		return nil, fmt.Errorf("work %s of cluster %s is a part of %s; name that", s.Name, s.Cluster, work.Labels[SetLabel])
	}
	return []*workv1.ManifestWork{work}, nil
}

// otherSet tells whether a work of the set's name was made as a part of another one.
func (s Set) otherSet(work *workv1.ManifestWork) bool {
	of := work.Labels[SetLabel]
	return of != "" && of != setValue(s.Name)
}

// parts are the works that nave work apply made for the set.
func (s Set) parts(ctx context.Context) ([]*workv1.ManifestWork, error) {
	list, err := s.Hub.WorkV1().ManifestWorks(s.Cluster).List(ctx, metav1.ListOptions{LabelSelector: s.selector()})
	if err != nil {
		return nil, fmt.Errorf("works of cluster %s: %w", s.Cluster, err)
	}
	var works []*workv1.ManifestWork
	for i := range list.Items {
		works = append(works, &list.Items[i])
	}
	return s.inOrder(works), nil
}

// inOrder drops works that bear the set's label and are none of its parts, copies of one for instance.
func (s Set) inOrder(works []*workv1.ManifestWork) []*workv1.ManifestWork {
	works = slices.DeleteFunc(works, func(w *workv1.ManifestWork) bool { return partNumber(s.Name, w.Name) == 0 })
	slices.SortFunc(works, func(a, b *workv1.ManifestWork) int {
		return partNumber(s.Name, a.Name) - partNumber(s.Name, b.Name)
	})
	return works
}

func (s Set) selector() string { return labels.Set{SetLabel: setValue(s.Name)}.String() }

// follow calls look with the works of the set, and again whenever one changes, until it is done or ctx ends. works are those
// that are there: they say whether it is a set of parts or a work that something else made, and look is not shown any of them
// as it was before, since a watch may begin in the past.
func (s Set) follow(ctx context.Context, works []*workv1.ManifestWork, look func([]*workv1.ManifestWork) (done bool, err error)) error {
	narrow := func(o *metav1.ListOptions) { o.LabelSelector = s.selector() }
	if len(works) == 1 && works[0].Labels[SetLabel] == "" {
		narrow = func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, s.Name).String()
		}
	}
	client := s.Hub.WorkV1().ManifestWorks(s.Cluster)
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			narrow(&o)
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			narrow(&o)
			return client.Watch(ctx, o)
		},
	}, s.Hub)
	generations := map[types.UID]int64{}
	for _, work := range works {
		generations[work.UID] = work.Generation
	}
	var store cache.Store
	now := func() (bool, error) {
		var all []*workv1.ManifestWork
		for _, obj := range store.List() {
			work, ok := obj.(*workv1.ManifestWork)
			if !ok {
				continue
			}
			if work.Generation < generations[work.UID] {
				return false, nil
			}
			all = append(all, work)
		}
		return look(s.inOrder(all))
	}
	_, err := watchtools.UntilWithSync(ctx, source, &workv1.ManifestWork{},
		func(synced cache.Store) (bool, error) { store = synced; return now() },
		func(watch.Event) (bool, error) { return now() })
	if err != nil {
		return fmt.Errorf("follow works of cluster %s: %w", s.Cluster, err)
	}
	return nil
}

// list names at most a few of many, for messages.
func list(names []string) string {
	const shown = 5
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
