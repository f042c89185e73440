package api

import (
	"context"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"nave/pkg/api/schema"
)

// strategy is the behaviour of every kind on create and update, the same that a CRD with its definition would have:
// status only through the subresource, a generation that counts changes outside metadata and status, and validation by
// the schema.
type strategy struct {
	runtime.ObjectTyper
	runtime.ObjectDefaulter
	names.NameGenerator
	kind
	definition *schema.Definition // of the stored version
}

var _ rest.RESTCreateUpdateStrategy = strategy{}
var _ rest.RESTDeleteStrategy = strategy{}
var _ rest.ResetFieldsStrategy = strategy{}

func (s strategy) NamespaceScoped() bool { return s.definition.Namespaced }

// GetResetFields names what a write to the main resource cannot change, for server-side apply's ownership.
func (s strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if !s.definition.HasStatus {
		return nil
	}
	return s.resetEverywhere(fieldpath.NewSet(fieldpath.MakePathOrDie("status")))
}

func (s strategy) resetEverywhere(set *fieldpath.Set) map[fieldpath.APIVersion]*fieldpath.Set {
	reset := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, v := range s.versions {
		reset[fieldpath.APIVersion(v.gv.String())] = set
	}
	return reset
}

func (s strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	if s.ignoresStatus(ctx) {
		statusOf(obj).SetZero()
		s.Default(obj)
	}
	if s.canonical != nil {
		s.canonical(obj)
	}
	accessor(obj).SetGeneration(1)
}

func (s strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	if s.ignoresStatus(ctx) {
		statusOf(obj).Set(statusOf(old))
	}
	if s.canonical != nil {
		s.canonical(obj)
	}
	generation := accessor(old).GetGeneration()
	if !sameContent(obj, old) {
		generation++
	}
	accessor(obj).SetGeneration(generation)
}

func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	content, errs := s.content(obj)
	if len(errs) > 0 {
		return errs
	}
	if s.ignoresStatus(ctx) {
		s.dropStatus(content)
	}
	errs = validation.ValidateObjectMetaAccessor(accessor(obj), s.NamespaceScoped(), validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, s.definition.Validate(ctx, content)...)
}

func (s strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	content, before, errs := s.contents(obj, old)
	if len(errs) > 0 {
		return errs
	}
	if s.ignoresStatus(ctx) {
		s.dropStatus(content)
		s.dropStatus(before)
	}
	errs = validation.ValidateObjectMetaAccessorUpdate(accessor(obj), accessor(old), field.NewPath("metadata"))
	return append(errs, s.definition.ValidateUpdate(ctx, content, before)...)
}

func (s strategy) WarningsOnCreate(context.Context, runtime.Object) []string        { return nil }
func (s strategy) WarningsOnUpdate(_ context.Context, _, _ runtime.Object) []string { return nil }
func (s strategy) Canonicalize(runtime.Object)                                      {}
func (s strategy) AllowCreateOnUpdate(context.Context) bool                         { return false }

// AllowUnconditionalUpdate is false: a PUT without resourceVersion is refused, as it is for custom resources.
func (s strategy) AllowUnconditionalUpdate(context.Context) bool { return false }

// ignoresStatus tells whether a write to the main resource leaves the status as it is, as it does for custom resources. The
// exception is what the hub itself writes of kinds that nobody must see half of.
func (s strategy) ignoresStatus(ctx context.Context) bool {
	return s.definition.HasStatus && !(s.wholeFromHub && fromHub(ctx))
}

// fromHub tells whether the server's own parts are asking: they have a token that never leaves the process.
func fromHub(ctx context.Context) bool {
	who, ok := request.UserFrom(ctx)
	return ok && who.GetName() == user.APIServerUser && slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup)
}

// dropStatus leaves the status out where it is not what is written. Of an object that has none yet, the Go type makes one
// that lacks all that is required.
func (s strategy) dropStatus(content map[string]any) {
	if s.definition.HasStatus {
		delete(content, "status")
	}
}

// contents are the untyped forms of a changed object and of what it was.
func (s strategy) contents(obj, old runtime.Object) (content, before map[string]any, errs field.ErrorList) {
	if content, errs = s.content(obj); len(errs) > 0 {
		return nil, nil, errs
	}
	before, errs = s.content(old)
	return content, before, errs
}

// content is the object as untyped JSON in the stored version, without what its schema says nothing about.
func (s strategy) content(obj runtime.Object) (map[string]any, field.ErrorList) {
	if s.opaque != nil {
		obj = s.opaque(obj)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, field.ErrorList{field.InternalError(nil, err)}
	}
	content["apiVersion"], content["kind"] = s.definition.Kind.ToAPIVersionAndKind()
	s.definition.Fill(content)
	return content, nil
}

// statusStrategy is the behaviour of writes to the status subresource: nothing but the status changes.
type statusStrategy struct{ strategy }

func (s statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	everything := fieldpath.NewSet(fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec"))
	return s.resetEverywhere(everything)
}

func (s statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	status := reflect.New(statusOf(obj).Type()).Elem()
	status.Set(statusOf(obj))
	managers := accessor(obj).GetManagedFields()
	version := accessor(obj).GetResourceVersion()

	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(old.DeepCopyObject()).Elem())
	statusOf(obj).Set(status)
	accessor(obj).SetManagedFields(managers)
	accessor(obj).SetResourceVersion(version) // what the writer saw decides about a conflict
}

func (s statusStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	content, before, errs := s.contents(obj, old)
	if len(errs) > 0 {
		return errs
	}
	errs = validation.ValidateObjectMetaAccessorUpdate(accessor(obj), accessor(old), field.NewPath("metadata"))
	return append(errs, s.definition.ValidateStatusUpdate(ctx, content, before)...)
}

// accessor panics on what is no API object: only types of the table get here.
func accessor(obj runtime.Object) metav1.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		panic(err)
	}
	return m
}

func statusOf(obj runtime.Object) reflect.Value {
	return reflect.ValueOf(obj).Elem().FieldByName("Status")
}

// sameContent tells whether two objects are equal outside of type, metadata and status.
func sameContent(a, b runtime.Object) bool {
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range x.NumField() {
		switch x.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", "Status":
			continue
		}
		if !equality.Semantic.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			return false
		}
	}
	return true
}
