package workload

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/workspec"
)

// appliedPage is how many AppliedManifestWorks are read at a time.
const appliedPage = 200

// Live is a managed cluster, asked for what works would change on it.
type Live struct {
	host    string
	objects dynamic.Interface
	works   workclient.Interface
	mapper  meta.RESTMapper
}

// NewLive prepares clients of a managed cluster.
func NewLive(cluster *rest.Config) (*Live, error) {
	config := rest.CopyConfig(cluster)
	config.QPS = -1 // the cluster's own priority and fairness is the limit
	l := &Live{host: config.Host}
	var kinds discovery.DiscoveryInterface
	var errs [3]error
	l.objects, errs[0] = dynamic.NewForConfig(config)
	l.works, errs[1] = workclient.NewForConfig(config)
	kinds, errs[2] = discovery.NewDiscoveryClientForConfig(config)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("clients of the managed cluster at %s: %w", config.Host, err)
	}
	l.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds))
	return l, nil
}

// Compare tells what an agent would change on the cluster if it applied a work again, whatever it remembers. The cluster is
// asked by dry runs of what the agent does; nothing is changed.
func (l *Live) Compare(ctx context.Context, work *workv1.ManifestWork) ([]Difference, error) {
	if err := l.check(ctx, work); err != nil {
		return nil, err
	}
	var all []Difference
	states := States(work)
	for ordinal := range work.Spec.Workload.Manifests {
		if states[ordinal].State == Complete {
			continue // agents leave what has finished as it is (spec 4.2)
		}
		o, err := objectAt(work, ordinal)
		if err != nil {
			all = append(all, Difference{Where: work.Namespace + "/" + work.Name, What: fmt.Sprintf("manifest %d", ordinal), Note: err.Error()})
			continue
		}
		d, err := l.compare(ctx, work, o)
		if err != nil {
			return nil, fmt.Errorf("%s on the managed cluster at %s: %w", o, l.host, err)
		}
		if d != nil {
			d.Where, d.What = work.Namespace+"/"+work.Name, o.String()
			all = append(all, *d)
		}
	}
	return all, nil
}

// check makes sure that this is the cluster that the work is for, as far as that can be seen: where an agent says that it
// has applied a work, there is an AppliedManifestWork for it.
func (l *Live) check(ctx context.Context, work *workv1.ManifestWork) error {
	if Condition(work, workv1.WorkApplied) == "-" {
		return nil
	}
	options := metav1.ListOptions{Limit: appliedPage}
	for {
		page, err := l.works.WorkV1().AppliedManifestWorks().List(ctx, options)
		switch {
		case apierrors.IsForbidden(err):
			return nil
		case err != nil && !apierrors.IsNotFound(err):
			return fmt.Errorf("applied works of the managed cluster at %s: %w", l.host, err)
		case err != nil:
			page = &workv1.AppliedManifestWorkList{} // no agent ever ran there
		}
		for i := range page.Items {
			if page.Items[i].Spec.ManifestWorkName == work.Name {
				return nil
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return fmt.Errorf("the cluster at %s has not applied work %s, but the agent of %s says that it has: it is another cluster", l.host, work.Name, work.Namespace)
		}
	}
}

// compare is the difference that one object makes; nil if there is none.
func (l *Live) compare(ctx context.Context, work *workv1.ManifestWork, o Object) (*Difference, error) {
	wanted := &unstructured.Unstructured{Object: wish(o.Content)}
	gvk := wanted.GroupVersionKind()
	mapping, err := l.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return &Difference{After: wanted.Object, Note: "the cluster does not serve its kind: " + err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	var client dynamic.ResourceInterface = l.objects.Resource(mapping.Resource)
	namespace := ""
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if namespace = wanted.GetNamespace(); namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		client = l.objects.Resource(mapping.Resource).Namespace(namespace)
	}
	wanted.SetNamespace(namespace)
	live, err := client.Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if err != nil {
		live = nil
	}
	id := workv1.ResourceIdentifier{Group: mapping.Resource.Group, Resource: mapping.Resource.Resource, Namespace: namespace, Name: o.Name}
	strategy := workspec.StrategyOf(workspec.ConfigFor(work, id))
	switch {
	case strategy.Type == workv1.UpdateStrategyTypeReadOnly || strategy.Type == workv1.UpdateStrategyTypeCreateOnly:
		if live != nil {
			return nil, nil // agents leave it as it is
		}
		return &Difference{After: wanted.Object, Note: fmt.Sprintf("it is not there; the strategy is %s", strategy.Type)}, nil
	}
	return l.try(ctx, client, work, strategy, live, wanted), nil
}

// try applies an object without lasting effect, as the agent does.
func (l *Live) try(ctx context.Context, client dynamic.ResourceInterface, work *workv1.ManifestWork, strategy workv1.UpdateStrategy, live, wanted *unstructured.Unstructured) *Difference {
	d := &Difference{}
	options := metav1.ApplyOptions{FieldManager: workspec.FieldManager(work.Name), Force: true, DryRun: []string{metav1.DryRunAll}}
	if s := strategy.ServerSideApply; strategy.Type == workv1.UpdateStrategyTypeServerSideApply {
		options.FieldManager, options.Force = workv1.DefaultFieldManager, false
		if s != nil {
			options.Force = s.Force
			if s.FieldManager != "" {
				options.FieldManager = s.FieldManager
			}
			if len(s.IgnoreFields) > 0 {
				d.Note = "fields that the work ignores are compared, too"
			}
		}
	}
	after, err := client.Apply(ctx, wanted.GetName(), wanted, options)
	if live != nil {
		d.Before = lasting(live)
	}
	switch {
	case err != nil && live == nil:
		d.After, d.Note = wanted.Object, "the cluster refuses it: "+err.Error()
	case err != nil:
		d.After, d.Note = d.Before, "the cluster refuses what the work wants: "+err.Error()
	default:
		d.After = lasting(after)
		if live != nil && equality.Semantic.DeepEqual(d.Before, d.After) {
			return nil
		}
	}
	return d
}

// wish is what a manifest asks for. Owners are left out: they are not compared.
func wish(content map[string]any) map[string]any {
	out := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
	workspec.Clean(out)
	unstructured.RemoveNestedField(out.Object, "metadata", "ownerReferences")
	return out.Object
}

// lasting is an object without what changes by itself. Owners are left out as well: the agent adds itself.
func lasting(o *unstructured.Unstructured) map[string]any {
	out := runtime.DeepCopyJSON(o.Object)
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences"} {
		unstructured.RemoveNestedField(out, "metadata", field)
	}
	delete(out, "status")
	return out
}
