package work

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestExplain: errors that a person has to mend say what to do, and all others are left as they are.
func TestExplain(t *testing.T) {
	m := read(workOf(one), mapper())[0]
	kind, resource := schema.GroupKind{Group: "batch", Kind: "Job"}, schema.GroupResource{Resource: "configmaps"}
	conflict := apierrors.NewConflict(resource, "one", errors.New("x"))
	conflict.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "kubectl" using v1`, Field: ".data.a"}}
	huge := strings.Repeat("template ", 1000)
	for _, test := range []struct {
		name   string
		err    error
		want   []string
		absent string
		person bool // somebody has to mend it
	}{
		{"one field cannot be changed", apierrors.NewInvalid(kind, "j", field.ErrorList{field.Invalid(field.NewPath("spec", "template"), huge, "field is immutable")}),
			[]string{"configmaps n/one cannot be changed", "field spec.template is immutable", "delete it on the cluster"}, "template template", true},
		{"several cannot", apierrors.NewInvalid(kind, "j", field.ErrorList{field.Invalid(field.NewPath("a"), 1, "field is immutable"), field.Invalid(field.NewPath("b"), 1, "may not be changed"), field.Invalid(field.NewPath("a"), 1, "field is immutable")}),
			[]string{"fields a, b are immutable"}, "", true},
		{"a role's reference", apierrors.NewInvalid(kind, "r", field.ErrorList{field.Invalid(field.NewPath("roleRef"), 1, "cannot change roleRef")}), []string{"field roleRef is immutable"}, "", true},
		{"invalid otherwise", apierrors.NewInvalid(kind, "j", field.ErrorList{field.Required(field.NewPath("spec"), "it is")}), []string{"spec: Required value: it is"}, "immutable", true},
		{"held by somebody else", conflict, []string{"serverSideApply.force", "ignoreFields"}, "", true},
		{"forbidden", apierrors.NewForbidden(resource, "one", errors.New(`User "agent" cannot patch resource "configmaps" in API group "" in the namespace "n"`)),
			[]string{"kubectl create clusterrole", "open-cluster-management.io/aggregate-to-work=true"}, "", true},
		{"another version was written meanwhile", apierrors.NewConflict(resource, "one", errors.New("x")), []string{"Operation cannot be fulfilled"}, "serverSideApply", false},
		{"no namespace", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "n"), []string{`namespaces "n" not found`}, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := explain(test.err, m)
			require.ErrorIs(t, err, test.err)
			for _, part := range test.want {
				require.ErrorContains(t, err, part)
			}
			if test.absent != "" {
				require.NotContains(t, err.Error(), test.absent)
			}
			require.Equal(t, test.person, forAPerson(err))
		})
	}
}

func TestConflicting(t *testing.T) {
	status := func(messages ...string) error {
		err := apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("x"))
		for _, message := range messages {
			err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Message: message})
		}
		return err
	}
	for _, test := range []struct {
		name string
		err  error
		want []string
	}{
		{"no conflict", errors.New("x"), nil},
		{"another sort of conflict", status(), nil},
		{"by an apply", status(`conflict with "a b" using v1`), []string{"a b"}},
		{"by an update", status(`conflict with "work-agent" with subresource "scale" using apps/v1 at 2026-01-01T00:00:00Z`), []string{"work-agent"}},
		{"several", status(`conflict with "a" using v1`, `conflict with "b" using v1`), []string{"a", "b"}},
		{"worded otherwise", status(`conflict with "a" using v1`, `somebody has it`), nil},
	} {
		t.Run(test.name, func(t *testing.T) { require.Equal(t, test.want, conflicting(test.err)) })
	}
}
