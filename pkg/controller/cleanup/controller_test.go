package cleanup

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func object(name, priority string, deleting bool) metav1.Object {
	o := &metav1.ObjectMeta{Name: name, Finalizers: []string{"f"}}
	if priority != "" {
		o.Annotations = map[string]string{priorityAnnotation: priority}
	}
	if deleting {
		now := metav1.Now()
		o.DeletionTimestamp = &now
	}
	return o
}

func TestLowest(t *testing.T) {
	for _, test := range []struct {
		name string
		all  []metav1.Object
		want []string
	}{
		{"no priorities", []metav1.Object{object("a", "", false), object("b", "", false)}, []string{"a", "b"}},
		{"lowest first", []metav1.Object{object("a", "10", false), object("b", "5", false), object("c", "5", false)}, []string{"b", "c"}},
		{"none counts as 0", []metav1.Object{object("a", "1", false), object("b", "", false)}, []string{"b"}},
		{"nonsense counts as 0", []metav1.Object{object("a", "1", false), object("b", "soon", false), object("c", "101", false), object("d", "-1", false)}, []string{"b", "c", "d"}},
		{"the highest there is", []metav1.Object{object("a", "100", false)}, []string{"a"}},
		{"what is going already holds its rank", []metav1.Object{object("a", "1", true), object("b", "2", false)}, []string{"a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var names []string
			for _, o := range lowest(test.all) {
				names = append(names, o.GetName())
			}
			require.Equal(t, test.want, names)
		})
	}
}

func TestRemaining(t *testing.T) {
	require.Equal(t, "The resource manifestworks is remaning, the remaining count is 2, the finalizer pending count is 1",
		remaining("manifestworks", []metav1.Object{object("a", "", true), object("b", "", false)}))
}
