package work

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestDriftIsWhatSomebodyElseDid(t *testing.T) {
	gvr := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	object := func(version string, generation int64, change ...func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: "d", Namespace: "n", UID: "u", ResourceVersion: version, Generation: generation, Labels: map[string]string{"a": "b"}}}
		for _, c := range change {
			c(o)
		}
		return o
	}
	relabelled := func(o *metav1.PartialObjectMetadata) { o.Labels = map[string]string{"a": "c"} }
	remade := func(o *metav1.PartialObjectMetadata) { o.UID = types.UID("other") }
	for _, test := range []struct {
		name    string
		seen    *metav1.PartialObjectMetadata
		deleted bool
		want    bool
	}{
		{"our own write", object("10", 1), false, false},
		{"an older event", object("9", 0), false, false},
		{"a change of status", object("11", 1), false, false},
		{"a change of content", object("11", 2), false, true},
		{"a change of labels", object("11", 1, relabelled), false, true},
		{"deleted", object("11", 1), true, true},
		{"deleted and made anew", object("12", 1, remade), false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var notified []string
			w := newWatcher(nil, func(work string) { notified = append(notified, work) })
			ours := object("10", 1)
			w.records[key{gvr, "n", "d"}] = map[string]*record{"w": {uid: "u", version: 10, signature: signature(ours)}}
			few, err := inFewWords(test.seen)
			require.NoError(t, err)
			require.Empty(t, few.(metav1.Object).GetLabels(), "little is kept")
			w.seen(gvr, few, test.deleted)
			require.Equal(t, test.want, len(notified) == 1)
			require.Equal(t, test.want, w.records[key{gvr, "n", "d"}]["w"].drifted)
		})
	}
}
