package workload

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/replicas"
	"nave/pkg/rollout"
)

// progressPage is how many works or decisions are read at a time: a work may be half a megabyte.
const progressPage = 50

// Progress is how far the rollout of a replica set to the clusters of one placement is, by the rules that the hub goes by.
type Progress struct {
	Placement string
	Selected  int
	*rollout.Result
	Reasons map[string]string // why clusters have failed
}

// ProgressOf reads the decisions and works of a replica set, page by page, and judges them.
func ProgressOf(ctx context.Context, clusters clusterclient.Interface, works workclient.Interface, set *workv1alpha1.ManifestWorkReplicaSet, now time.Time) ([]Progress, error) {
	var all []Progress
	for _, ref := range set.Spec.PlacementRefs {
		p := Progress{Placement: ref.Name, Reasons: map[string]string{}}
		groups, err := decidedGroups(ctx, clusters, set.Namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		for _, g := range groups {
			p.Selected += len(g.Clusters)
		}
		statuses, err := p.read(ctx, works, set)
		if err != nil {
			return nil, err
		}
		if p.Result, err = rollout.Decide(ref.RolloutStrategy, groups, statuses, now); err != nil {
			return nil, fmt.Errorf("replica set %s of namespace %s, placement %s: %w", set.Name, set.Namespace, ref.Name, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// read reads the works of one placement of a set, and keeps why those that have failed did.
func (p *Progress) read(ctx context.Context, works workclient.Interface, set *workv1alpha1.ManifestWorkReplicaSet) (map[string]rollout.Status, error) {
	statuses := map[string]rollout.Status{}
	options := metav1.ListOptions{Limit: progressPage, LabelSelector: labels.Set{
		replicas.SetLabel: replicas.SetValue(set.Namespace, set.Name), replicas.PlacementLabel: replicas.PlacementValue(p.Placement),
	}.String()}
	for {
		page, err := works.WorkV1().ManifestWorks(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("works of replica set %s of namespace %s: %w", set.Name, set.Namespace, err)
		}
		for i := range page.Items {
			work := &page.Items[i]
			status := replicas.StatusOf(work, &set.Spec.ManifestWorkTemplate)
			statuses[work.Namespace] = status
			if status.State == rollout.Failed {
				p.Reasons[work.Namespace] = failureOf(work)
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return statuses, nil
		}
	}
}

// failureOf says why a work has failed: by its manifests, of which the condition of the whole only says that there are such.
func failureOf(work *workv1.ManifestWork) string {
	var troubles []string
	for _, m := range States(work) {
		if m.State == Failed {
			troubles = append(troubles, m.trouble())
		}
	}
	if len(troubles) > 0 {
		return list(troubles)
	}
	if c := meta.FindStatusCondition(work.Status.Conditions, workv1.WorkApplied); c != nil && c.Status == metav1.ConditionFalse {
		return c.Message
	}
	if c := meta.FindStatusCondition(work.Status.Conditions, workv1.WorkDegraded); c != nil && c.Status == metav1.ConditionTrue {
		return c.Message
	}
	return ""
}

// decidedGroups are the clusters that a placement selects, by decision group.
func decidedGroups(ctx context.Context, clusters clusterclient.Interface, namespace, placement string) ([]rollout.Group, error) {
	byIndex := map[string]*rollout.Group{}
	options := metav1.ListOptions{Limit: progressPage, LabelSelector: labels.Set{clusterv1beta1.PlacementLabel: placement}.String()}
	for {
		page, err := clusters.ClusterV1beta1().PlacementDecisions(namespace).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("decisions of placement %s of namespace %s: %w", placement, namespace, err)
		}
		for _, d := range page.Items {
			text := d.Labels[clusterv1beta1.DecisionGroupIndexLabel]
			index, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				index = 0 // a decision without a group, as older hubs made them
			}
			g := byIndex[text]
			if g == nil {
				g = &rollout.Group{Index: int32(index), Name: d.Labels[clusterv1beta1.DecisionGroupNameLabel]}
				byIndex[text] = g
			}
			for _, decision := range d.Status.Decisions {
				g.Clusters = append(g.Clusters, decision.ClusterName)
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	var groups []rollout.Group
	for _, g := range byIndex {
		groups = append(groups, *g)
	}
	return groups, nil
}
