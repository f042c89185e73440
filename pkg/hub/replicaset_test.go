package hub

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
	"sigs.k8s.io/yaml"

	"nave/pkg/replicas"
)

// replicated is a set of works in its namespace, with clusters that are its own.
type replicated struct {
	*administrator
	namespace string
}

// selects makes clusters, in a set that is bound to the namespace, and a placement for all of them.
func (r *replicated) selects(clusters ...string) {
	r.Helper()
	r.makeNamespace(r.namespace)
	r.makeSet(r.namespace)
	r.bind(r.namespace, r.namespace)
	for _, name := range clusters {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1beta2.ClusterSetLabel: r.namespace}}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
		_, err := r.clusters.ClusterV1().ManagedClusters().Create(r.ctx, mc, metav1.CreateOptions{})
		require.NoError(r, err)
	}
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	p.Spec.Tolerations = []clusterv1beta1.Toleration{{Operator: clusterv1beta1.TolerationOpExists}}
	_, err := r.clusters.ClusterV1beta1().Placements(r.namespace).Create(r.ctx, p, metav1.CreateOptions{})
	require.NoError(r, err)
}

func (r *replicated) create(name, spec string) *workv1alpha1.ManifestWorkReplicaSet {
	r.Helper()
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "blue"}}}
	require.NoError(r, yaml.UnmarshalStrict([]byte(spec), &set.Spec))
	made, err := r.works.WorkV1alpha1().ManifestWorkReplicaSets(r.namespace).Create(r.ctx, set, metav1.CreateOptions{})
	require.NoError(r, err)
	return made
}

// made waits until the works of the namespace's sets are in these clusters, and gives them in that order.
func (r *replicated) made(clusters ...string) []workv1.ManifestWork {
	r.Helper()
	return r.madeFor("p", clusters...)
}

// madeFor is made for another placement than p.
func (r *replicated) madeFor(placement string, clusters ...string) []workv1.ManifestWork {
	r.Helper()
	var works []workv1.ManifestWork
	eventually(r.T, "works of "+strings.Join(clusters, ", "), func() error {
		all, err := r.works.WorkV1().ManifestWorks("").List(r.ctx, metav1.ListOptions{LabelSelector: replicas.PlacementLabel + "=" + placement})
		if err != nil {
			return err
		}
		works = slices.DeleteFunc(all.Items, func(w workv1.ManifestWork) bool { return !strings.HasPrefix(w.Namespace, r.namespace) })
		slices.SortFunc(works, func(a, b workv1.ManifestWork) int { return strings.Compare(a.Namespace, b.Namespace) })
		var in []string
		for _, w := range works {
			in = append(in, w.Namespace)
		}
		if !slices.Equal(in, clusters) {
			return fmt.Errorf("they are in %v", in)
		}
		return nil
	})
	return works
}

func (r *replicated) condition(name, kind, reason string) {
	r.Helper()
	eventually(r.T, kind+" "+reason, func() error {
		set, err := r.works.WorkV1alpha1().ManifestWorkReplicaSets(r.namespace).Get(r.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c := meta.FindStatusCondition(set.Status.Conditions, kind); c == nil || c.Reason != reason {
			return fmt.Errorf("conditions are %v", set.Status.Conditions)
		}
		return nil
	})
}

func (r *replicated) change(name, patch string) {
	r.Helper()
	_, err := r.works.WorkV1alpha1().ManifestWorkReplicaSets(r.namespace).Patch(r.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(r, err)
}

const oneMap = `placementRefs: [{name: p}]
manifestWorkTemplate: {deleteOption: {propagationPolicy: Orphan}, workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {k: "1"}}]}}
`

// TestReplicaSetFollows: works are as the set is, whoever changes either.
func TestReplicaSetFollows(t *testing.T) {
	r := &replicated{newAdministrator(t), "follows"}
	r.selects("follows-a", "follows-b")
	name := "web." + strings.Repeat("long.", 20) + "name"
	set := r.create(name, oneMap)
	works := r.made("follows-a", "follows-b")
	require.Equal(t, works[0].Name, works[1].Name)
	require.Equal(t, "blue", works[0].Labels["team"])
	require.Equal(t, set.Spec.ManifestWorkTemplate.DeleteOption, works[0].Spec.DeleteOption)
	r.condition(name, "PlacementVerified", "AsExpected")
	r.condition(name, "PlacementRolledOut", "Progressing")

	all := r.works.WorkV1().ManifestWorks("follows-a")
	_, err := all.Patch(r.ctx, works[0].Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"theirs":"x"}},"spec":{"deleteOption":{"propagationPolicy":"Foreground"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	looks := func(what string, as func(*workv1.ManifestWork) bool) {
		eventually(t, what, func() error {
			work, err := all.Get(r.ctx, works[0].Name, metav1.GetOptions{})
			if err == nil && !as(work) {
				err = errors.New("it has not")
			}
			return err
		})
	}
	looks("the content comes back", func(w *workv1.ManifestWork) bool {
		return w.Spec.DeleteOption.PropagationPolicy == workv1.DeletePropagationPolicyTypeOrphan && w.Labels["theirs"] == "x"
	})
	r.change(name, `{"metadata":{"labels":{"team":null,"ring":"inner"}},"spec":{"manifestWorkTemplate":{"deleteOption":null}}}`)
	looks("labels and content follow", func(w *workv1.ManifestWork) bool {
		_, team := w.Labels["team"]
		return !team && w.Labels["ring"] == "inner" && w.Labels["theirs"] == "x" && (w.Spec.DeleteOption == nil || w.Spec.DeleteOption.PropagationPolicy != workv1.DeletePropagationPolicyTypeOrphan)
	})
	require.NoError(t, all.Delete(r.ctx, works[0].Name, metav1.DeleteOptions{}))
	again := r.made("follows-a", "follows-b")
	require.Equal(t, works[0].Name, again[0].Name)

	require.NoError(t, r.clusters.ClusterV1beta1().Placements(r.namespace).Delete(r.ctx, "p", metav1.DeleteOptions{}))
	r.condition(name, "PlacementVerified", "PlacementDecisionNotFound")
	r.made("follows-a", "follows-b") // a deleted placement takes nothing away
	require.NoError(t, r.works.WorkV1alpha1().ManifestWorkReplicaSets(r.namespace).Delete(r.ctx, name, metav1.DeleteOptions{}))
	r.made()
}

// TestReplicaSetNames: names and labels may be as long as an API server takes them, and sets whose names begin alike have works
// of their own.
func TestReplicaSetNames(t *testing.T) {
	namespace := strings.Repeat("n", 63)
	r := &replicated{newAdministrator(t), namespace}
	r.team(namespace, 0)
	for _, cluster := range []string{"names-1", "names-2"} {
		r.cluster(cluster, namespace, "")
	}
	r.place(namespace, "p", silent)
	r.chooses(namespace, "p", "names-1", "names-2")
	long := strings.Repeat("long.", 50)
	names := []string{long + "one", long + "two", "one"}
	key, value := strings.Repeat("prefix.", 36)+"x/"+strings.Repeat("k", 63), strings.Repeat("v", 63)
	for _, name := range names {
		set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{key: value}}}
		require.NoError(t, yaml.UnmarshalStrict([]byte(oneMap), &set.Spec))
		_, err := r.works.WorkV1alpha1().ManifestWorkReplicaSets(namespace).Create(r.ctx, set, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	count := func(name string, want int) {
		eventually(t, "works of "+name, func() error {
			list, err := r.works.WorkV1().ManifestWorks("").List(r.ctx, metav1.ListOptions{LabelSelector: replicas.SetLabel + "=" + replicas.SetValue(namespace, name)})
			if err == nil && len(list.Items) != want {
				err = fmt.Errorf("%d", len(list.Items))
			}
			for _, work := range list.Items {
				if work.Labels[key] != value {
					err = errors.Join(err, fmt.Errorf("labels are %v", work.Labels))
				}
			}
			return err
		})
	}
	for _, name := range names {
		count(name, 2)
		r.condition(name, "PlacementVerified", "AsExpected")
	}
	r.label("names-2", clusterv1beta2.ClusterSetLabel, "default")
	for _, name := range names {
		count(name, 1)
	}
	require.NoError(t, r.works.WorkV1alpha1().ManifestWorkReplicaSets(namespace).Delete(r.ctx, names[0], metav1.DeleteOptions{}))
	count(names[0], 0)
	count(names[1], 1)
	count(names[2], 1)
}

// TestReplicaSetLeaves is how a set and its works go (case ocm-988).
func TestReplicaSetLeaves(t *testing.T) {
	for _, test := range []struct {
		policy string
		waits  bool
	}{{"Foreground", true}, {"Background", false}} {
		t.Run(test.policy, func(t *testing.T) {
			r := &replicated{newAdministrator(t), "leaves-" + strings.ToLower(test.policy)}
			cluster := r.namespace + "-a"
			r.selects(cluster)
			r.create("web", oneMap+"cascadeDeletionPolicy: "+test.policy)
			work := r.made(cluster)[0]
			works, sets := r.works.WorkV1().ManifestWorks(cluster), r.works.WorkV1alpha1().ManifestWorkReplicaSets(r.namespace)
			finalizers := func(text string) {
				_, err := works.Patch(r.ctx, work.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":`+text+`}}`), metav1.PatchOptions{})
				require.NoError(t, err)
			}
			finalizers(`["example.com/agent"]`)
			require.NoError(t, sets.Delete(r.ctx, "web", metav1.DeleteOptions{}))
			gone := func() error {
				if _, err := sets.Get(r.ctx, "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					return fmt.Errorf("it is there: %v", err)
				}
				return nil
			}
			eventually(t, "the work is being deleted", func() error {
				w, err := works.Get(r.ctx, work.Name, metav1.GetOptions{})
				if err == nil && w.DeletionTimestamp == nil {
					err = errors.New("it is not")
				}
				return err
			})
			if test.waits {
				eventually(t, "the set says what it waits for", func() error {
					set, err := sets.Get(r.ctx, "web", metav1.GetOptions{})
					if err != nil {
						return err
					}
					if c := meta.FindStatusCondition(set.Status.Conditions, "ManifestworkApplied"); c == nil || !strings.Contains(c.Message, cluster) {
						return fmt.Errorf("conditions are %v", set.Status.Conditions)
					}
					return nil
				})
			} else {
				eventually(t, "the set goes first", gone)
			}
			finalizers("null")
			eventually(t, "the set goes", gone)
			r.made()
		})
	}
}
