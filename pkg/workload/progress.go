package workload

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
	Missing   bool // there is no such placement, and what was made for it stays
	Whole     bool // all that the placement has decided is known; no cluster gets the content before
	Selected  int
	*rollout.Result
	Reasons map[string]string // why clusters have failed
}

// Progress says how far the rollout is. While it is not complete, that takes reading the decisions and works of the set, page by
// page; when it is, the hub has counted them.
func (r ReplicaSet) Progress(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) ([]Progress, error) {
	if c := about(set, workv1alpha1.ManifestWorkReplicaSetConditionPlacementRolledOut); c != nil && c.Status == metav1.ConditionTrue {
		return counted(set), nil
	}
	template := &set.Spec.ManifestWorkTemplate
	judge := judge{content: replicas.Content(template), ruled: replicas.Ruled(template)}
	var all []Progress
	for _, ref := range replicas.RefsOf(set) {
		chosen, err := r.selection(ctx, ref.Name)
		if err != nil {
			return nil, err
		}
		works, err := r.works(ctx, ref.Name, judge)
		if err != nil {
			return nil, err
		}
		p := Progress{Placement: ref.Name, Missing: chosen.Missing, Whole: chosen.Whole, Selected: chosen.Total, Reasons: map[string]string{}}
		statuses := map[string]rollout.Status{}
		for cluster, work := range works {
			statuses[cluster] = work.status
			if work.failure != "" {
				p.Reasons[cluster] = work.failure
			}
		}
		if p.Result, err = rollout.Decide(ref.RolloutStrategy, chosen.Groups, statuses, r.Clock.Now()); err != nil {
			return nil, fmt.Errorf("%s, placement %s: %w", r, ref.Name, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// counted is the progress of a set whose rollout is complete.
func counted(set *workv1alpha1.ManifestWorkReplicaSet) []Progress {
	var all []Progress
	for _, p := range set.Status.PlacementsSummary {
		selected := max(p.Summary.DesiredTotal, p.Summary.Total) // upstream's hub only counts the works
		all = append(all, Progress{Placement: p.Name, Whole: true, Selected: selected, Result: &rollout.Result{Done: selected}})
	}
	return all
}

// selection is what a placement selects, by its decisions.
func (r ReplicaSet) selection(ctx context.Context, name string) (replicas.Selection, error) {
	p, err := r.Clusters.ClusterV1beta1().Placements(r.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case missing(err):
		return replicas.SelectionOf(nil, nil), nil
	case err != nil:
		return replicas.Selection{}, fmt.Errorf("placement %s of namespace %s: %w", name, r.Namespace, err)
	}
	var decisions []*clusterv1beta1.PlacementDecision
	options := metav1.ListOptions{Limit: progressPage, LabelSelector: labels.Set{clusterv1beta1.PlacementLabel: name}.String()}
	for {
		page, err := r.Clusters.ClusterV1beta1().PlacementDecisions(r.Namespace).List(ctx, options)
		if err != nil {
			return replicas.Selection{}, fmt.Errorf("decisions of placement %s of namespace %s: %w", name, r.Namespace, err)
		}
		for i := range page.Items {
			decisions = append(decisions, &page.Items[i])
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return replicas.SelectionOf(p, decisions), nil
		}
	}
}

// judge knows what works are to hold.
type judge struct {
	content string
	ruled   bool
}

// judged is what is kept of a work: its content may be half a megabyte.
type judged struct {
	metav1.Object
	status  rollout.Status
	failure string
}

func (j judge) of(work *workv1.ManifestWork) judged {
	out := judged{status: replicas.Judge(work, replicas.HasContent(work, replicas.Content(&work.Spec), j.content), j.ruled)}
	if out.status.State == rollout.Failed {
		out.failure = failureOf(work)
	}
	out.Object = &metav1.ObjectMeta{
		Namespace: work.Namespace, Name: work.Name, CreationTimestamp: work.CreationTimestamp, DeletionTimestamp: work.DeletionTimestamp,
	}
	return out
}

// works are the works for a placement of the set, by cluster.
func (r ReplicaSet) works(ctx context.Context, placement string, judge judge) (map[string]judged, error) {
	var all []judged
	options := metav1.ListOptions{Limit: progressPage, LabelSelector: labels.Set{
		replicas.SetLabel: replicas.SetValue(r.Namespace, r.Name), replicas.PlacementLabel: replicas.PlacementValue(placement),
	}.String()}
	for {
		page, err := r.Works.WorkV1().ManifestWorks(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("works of %s: %w", r, err)
		}
		for i := range page.Items {
			all = append(all, judge.of(&page.Items[i]))
		}
		if options.Continue = page.Continue; options.Continue == "" {
			one, _ := replicas.OnePerCluster(all)
			return one, nil
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
