// Package addon holds what is particular to the add-on kinds on the wire: the conversion between their two versions
// (spec 6.2).
package addon

import (
	"maps"

	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"open-cluster-management.io/api/addon/v1alpha1"
	"open-cluster-management.io/api/addon/v1beta1"
)

// installNamespaceAnnotation carries v1alpha1's spec.installNamespace in v1beta1, which has no such field.
const installNamespaceAnnotation = "addon.open-cluster-management.io/v1alpha1-install-namespace"

// AddConversions registers upstream's conversions between v1alpha1 and v1beta1, and around that of ManagedClusterAddOn
// what upstream does in its conversion webhook.
func AddConversions(scheme *runtime.Scheme) error {
	if err := v1beta1.RegisterConversions(scheme); err != nil {
		return err
	}
	// A function registered later replaces the generated one, also for the items of a list.
	if err := scheme.AddConversionFunc((*v1alpha1.ManagedClusterAddOn)(nil), (*v1beta1.ManagedClusterAddOn)(nil), func(a, b any, s conversion.Scope) error {
		return toBeta(a.(*v1alpha1.ManagedClusterAddOn), b.(*v1beta1.ManagedClusterAddOn), s)
	}); err != nil {
		return err
	}
	if err := scheme.AddConversionFunc((*v1beta1.ManagedClusterAddOn)(nil), (*v1alpha1.ManagedClusterAddOn)(nil), func(a, b any, s conversion.Scope) error {
		return toAlpha(a.(*v1beta1.ManagedClusterAddOn), b.(*v1alpha1.ManagedClusterAddOn), s)
	}); err != nil {
		return err
	}
	return addListConversions(scheme)
}

// addListConversions replaces the generated functions, which call the generated function of the item directly and would
// pass the annotation by.
func addListConversions(scheme *runtime.Scheme) error {
	if err := scheme.AddConversionFunc((*v1alpha1.ManagedClusterAddOnList)(nil), (*v1beta1.ManagedClusterAddOnList)(nil), func(a, b any, s conversion.Scope) error {
		in, out := a.(*v1alpha1.ManagedClusterAddOnList), b.(*v1beta1.ManagedClusterAddOnList)
		out.ListMeta = in.ListMeta
		out.Items = make([]v1beta1.ManagedClusterAddOn, len(in.Items))
		for i := range in.Items {
			if err := toBeta(&in.Items[i], &out.Items[i], s); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return scheme.AddConversionFunc((*v1beta1.ManagedClusterAddOnList)(nil), (*v1alpha1.ManagedClusterAddOnList)(nil), func(a, b any, s conversion.Scope) error {
		in, out := a.(*v1beta1.ManagedClusterAddOnList), b.(*v1alpha1.ManagedClusterAddOnList)
		out.ListMeta = in.ListMeta
		out.Items = make([]v1alpha1.ManagedClusterAddOn, len(in.Items))
		for i := range in.Items {
			if err := toAlpha(&in.Items[i], &out.Items[i], s); err != nil {
				return err
			}
		}
		return nil
	})
}

func toBeta(in *v1alpha1.ManagedClusterAddOn, out *v1beta1.ManagedClusterAddOn, s conversion.Scope) error {
	if err := v1beta1.Convert_v1alpha1_ManagedClusterAddOn_To_v1beta1_ManagedClusterAddOn(in, out, s); err != nil {
		return err
	}
	//lint:ignore SA1019 deprecated for users, and still on the wire
	if in.Spec.InstallNamespace == "" {
		return nil
	}
	// The generated conversion shares maps with its input, so the annotation goes into a copy.
	annotations := maps.Clone(in.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	//lint:ignore SA1019 deprecated for users, and still on the wire
	annotations[installNamespaceAnnotation] = in.Spec.InstallNamespace
	out.Annotations = annotations
	return nil
}

func toAlpha(in *v1beta1.ManagedClusterAddOn, out *v1alpha1.ManagedClusterAddOn, s conversion.Scope) error {
	if err := v1beta1.Convert_v1beta1_ManagedClusterAddOn_To_v1alpha1_ManagedClusterAddOn(in, out, s); err != nil {
		return err
	}
	namespace, ok := in.Annotations[installNamespaceAnnotation]
	if !ok {
		return nil
	}
	//lint:ignore SA1019 deprecated for users, and still on the wire
	out.Spec.InstallNamespace = namespace
	out.Annotations = maps.Clone(in.Annotations)
	delete(out.Annotations, installNamespaceAnnotation)
	if len(out.Annotations) == 0 {
		out.Annotations = nil
	}
	return nil
}
