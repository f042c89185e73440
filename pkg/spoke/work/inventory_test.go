package work

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

func appliedWith(annotation string, resources ...workv1.AppliedManifestResourceMeta) *workv1.AppliedManifestWork {
	amw := &workv1.AppliedManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	if annotation != "" {
		amw.Annotations = map[string]string{inventoryAnnotation: annotation}
	}
	amw.Status.AppliedResources = resources
	return amw
}

// TestInventoryIsKept: what is written down is what is read again, be it long or short.
func TestInventoryIsKept(t *testing.T) {
	for _, objects := range []int{0, 1, 5000} {
		t.Run(fmt.Sprint(objects), func(t *testing.T) {
			inv := &inventory{items: map[identity]item{}}
			for i := range objects {
				inv.items[identity{Group: "apps", Resource: "deployments", Namespace: "n", Name: fmt.Sprint("d", i)}] = item{version: "v1", manager: "work-agent", done: "0123"}
			}
			text, err := inv.text()
			require.NoError(t, err)
			require.Less(t, len(text), 256<<10, "all annotations of an object together")
			again, err := newInventory(appliedWith(text))
			require.NoError(t, err)
			require.Equal(t, inv.items, again.items)
		})
	}
}

func TestInventoryOfOthers(t *testing.T) {
	one := workv1.AppliedManifestResourceMeta{Version: "v1", UID: "u", ResourceIdentifier: identity{Resource: "configmaps", Namespace: "n", Name: "one"}}
	inv, err := newInventory(appliedWith("", one)) // as upstream's agent leaves it
	require.NoError(t, err)
	require.Equal(t, map[identity]item{one.ResourceIdentifier: {version: "v1", uid: "u"}}, inv.items)
	for _, bad := range []string{"[", "gzip:!", "gzip:AAAA"} {
		_, err := newInventory(appliedWith(bad))
		require.ErrorContains(t, err, "remove the annotation to go on without it")
	}
}

// TestInventoryFollowsTheWork through passes over it.
func TestInventoryFollowsTheWork(t *testing.T) {
	work := workOf(one, two)
	manifests := read(work, mapper())
	first, second := manifests[0].id(), manifests[1].id()
	inv := &inventory{items: map[identity]item{}}
	require.True(t, inv.expect(manifests))
	require.False(t, inv.expect(manifests), "nothing new")
	require.Empty(t, inv.applied(), "what is only expected is not applied")
	require.Len(t, inv.all(), 2)

	inv.take([]result{{manifest: manifests[0], exists: true, uid: "u", manager: "work-agent"}, {manifest: manifests[1], err: fmt.Errorf("no")}})
	require.Equal(t, item{version: "v1", uid: "u", manager: "work-agent"}, inv.items[first])
	require.Equal(t, item{version: "v1"}, inv.items[second], "a failure may have left something behind")
	require.Len(t, inv.applied(), 1)

	inv.take([]result{{manifest: manifests[0], err: fmt.Errorf("no"), done: true}})
	require.Equal(t, item{version: "v1", uid: "u", manager: "work-agent", done: short(manifests[0])}, inv.items[first])
	require.Equal(t, []workv1.AppliedManifestResourceMeta{resource(second, inv.items[second])}, inv.stale(map[identity]bool{first: true}))
}

// TestOrphansAreNotExpected: what does not go with its work needs no tracking.
func TestOrphansAreNotExpected(t *testing.T) {
	work := workOf(one)
	work.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
	inv := &inventory{items: map[identity]item{}}
	require.False(t, inv.expect(read(work, mapper())))
	require.Empty(t, inv.items)
}

func FuzzInventory(f *testing.F) {
	f.Add(`[{"resource":"configmaps","name":"a"}]`)
	f.Add("gzip:" + strings.Repeat("H4sIAAAA", 3))
	f.Fuzz(func(t *testing.T, text string) {
		if inv, err := newInventory(appliedWith(text)); err == nil {
			_, err := inv.text()
			require.NoError(t, err)
		}
	})
}
