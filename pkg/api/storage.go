package api

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// store serves one kind from etcd.
type store struct {
	*registry.Store
	shortNames []string
	categories []string
	resets     map[fieldpath.APIVersion]*fieldpath.Set
}

var _ rest.ShortNamesProvider = &store{}
var _ rest.CategoriesProvider = &store{}
var _ rest.ResetFieldsStrategy = &store{}

// ShortNames are what kubectl accepts in place of the plural.
func (s *store) ShortNames() []string { return s.shortNames }

// Categories are the groups of kinds, such as all, that list this one too.
func (s *store) Categories() []string { return s.categories }

// GetResetFields implements rest.ResetFieldsStrategy.
func (s *store) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set { return s.resets }

// statusStore serves the status subresource of a kind from the same place.
type statusStore struct {
	store  *registry.Store
	resets map[fieldpath.APIVersion]*fieldpath.Set
}

var _ rest.Patcher = &statusStore{}
var _ rest.ResetFieldsStrategy = &statusStore{}

// New implements rest.Storage.
func (s *statusStore) New() runtime.Object { return s.store.New() }

// Destroy does nothing: the store is the main resource's, which ends it.
func (s *statusStore) Destroy() {}

// Get returns the whole object, so that patches can be made from it.
func (s *statusStore) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, options)
}

// Update writes the status; a create through the subresource is never allowed.
func (s *statusStore) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.store.Update(ctx, name, info, create, update, false, options)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (s *statusStore) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set { return s.resets }

// ConvertToTable prints like the main resource.
func (s *statusStore) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return s.store.ConvertToTable(ctx, obj, options)
}

// newStores makes the storage of a kind and, where it has a status, of the subresource.
func newStores(s strategy, options generic.RESTOptionsGetter) (*store, *statusStore, error) {
	table, err := tableconvertor.New(s.definition.Columns)
	if err != nil {
		return nil, nil, fmt.Errorf("columns of %s: %w", s.definition.Kind, err)
	}
	if s.opaque != nil {
		table = lightTable{table, s.opaque}
	}
	stored := s.versions[0]
	resource := stored.gv.WithResource(s.definition.Names.Plural).GroupResource()
	main := &registry.Store{
		NewFunc:                   func() runtime.Object { return newOf(stored.object) },
		NewListFunc:               func() runtime.Object { return newOf(stored.list) },
		DefaultQualifiedResource:  resource,
		SingularQualifiedResource: stored.gv.WithResource(s.definition.Names.Singular).GroupResource(),
		CreateStrategy:            s,
		UpdateStrategy:            s,
		DeleteStrategy:            s,
		ResetFieldsStrategy:       s,
		TableConvertor:            table,
	}
	if err := main.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		return nil, nil, fmt.Errorf("storage of %s: %w", resource, err)
	}
	served := &store{main, s.definition.Names.ShortNames, s.definition.Names.Categories, s.GetResetFields()}
	if !s.definition.HasStatus {
		return served, nil, nil
	}
	behaviour := statusStrategy{s}
	status := *main
	status.UpdateStrategy = behaviour
	status.ResetFieldsStrategy = behaviour
	return served, &statusStore{&status, behaviour.GetResetFields()}, nil
}

func newOf(prototype runtime.Object) runtime.Object {
	return reflect.New(reflect.TypeOf(prototype).Elem()).Interface().(runtime.Object)
}

// lightTable prints objects without the parts that no column can show.
type lightTable struct {
	rest.TableConvertor
	opaque func(runtime.Object) runtime.Object
}

// ConvertToTable implements rest.TableConvertor.
func (t lightTable) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	if !meta.IsListType(obj) {
		return t.TableConvertor.ConvertToTable(ctx, t.opaque(obj), options)
	}
	light := newOf(obj)
	reflect.ValueOf(light).Elem().Set(reflect.ValueOf(obj).Elem())
	var items []runtime.Object
	if err := meta.EachListItem(obj, func(item runtime.Object) error {
		items = append(items, t.opaque(item))
		return nil
	}); err != nil {
		return nil, fmt.Errorf("items to print: %w", err)
	}
	if err := meta.SetList(light, items); err != nil {
		return nil, fmt.Errorf("items to print: %w", err)
	}
	return t.TableConvertor.ConvertToTable(ctx, light, options)
}
