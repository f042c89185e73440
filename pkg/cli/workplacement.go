package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/rollout"
	"nave/pkg/workload"
)

// byPlacement is what nave work apply is told about a replica set.
type byPlacement struct {
	placement, namespace string
	rollout              string
	maxConcurrency       string
	maxFailures          string
	minSuccessTime       time.Duration
	progressDeadline     string
	foreground           bool
}

func (b *byPlacement) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&b.placement, "placement", "", "instead of --cluster: the placement that selects the clusters")
	flags.StringVarP(&b.namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of the placement")
	flags.StringVar(&b.rollout, "rollout", "all", "how clusters of a placement get it: all, progressive or progressive-per-group")
	flags.StringVar(&b.maxConcurrency, "max-concurrency", "", "progressive: how many clusters at a time, a number or a percentage; all if empty")
	flags.StringVar(&b.maxFailures, "max-failures", "", "not for all: how many clusters may fail, a number or a percentage; none if empty")
	flags.DurationVar(&b.minSuccessTime, "min-success-time", 0, "not for all: how long a cluster has to stay well before the next")
	flags.StringVar(&b.progressDeadline, "progress-deadline", "", "after how long a cluster that is not well has failed, as in 10m; never if empty")
	flags.BoolVar(&b.foreground, "foreground", false, "the replica set is not gone, when it is deleted, before its works are")
}

// check refuses flags that would be ignored, before anything is asked of a hub.
func (b *byPlacement) check(flags *pflag.FlagSet, clusters []string, dryRun string) error {
	if b.placement == "" {
		for _, name := range []string{"namespace", "rollout", "max-concurrency", "max-failures", "min-success-time", "progress-deadline", "foreground"} {
			if flags.Changed(name) {
				return usageError{fmt.Errorf("--%s is for --placement, which is not given", name)}
			}
		}
		return nil
	}
	switch {
	case len(clusters) > 0:
		return usageError{errors.New("say --cluster NAME or --placement NAME, not both")}
	case dryRun != "none":
		return usageError{errors.New("--dry-run is for --cluster; it does not print replica sets")}
	}
	strategy, err := b.strategy()
	if err != nil {
		return usageError{err}
	}
	if err := rollout.Check(strategy); err != nil {
		return usageError{err}
	}
	return nil
}

func (b *byPlacement) strategy() (clusterv1alpha1.RolloutStrategy, error) {
	config := clusterv1alpha1.RolloutConfig{MinSuccessTime: metav1.Duration{Duration: b.minSuccessTime}, ProgressDeadline: b.progressDeadline, MaxFailures: intstr.Parse(b.maxFailures)}
	if b.maxFailures == "" {
		config.MaxFailures = intstr.FromInt32(0)
	}
	concurrency := intstr.FromInt32(0) // no limit
	if b.maxConcurrency != "" {
		concurrency = intstr.Parse(b.maxConcurrency)
	}
	switch b.rollout {
	case "all":
		if b.maxConcurrency+b.maxFailures != "" || b.minSuccessTime != 0 {
			return clusterv1alpha1.RolloutStrategy{}, errors.New("--max-concurrency, --max-failures and --min-success-time are not for --rollout all; say --rollout progressive")
		}
		return clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.All, All: &clusterv1alpha1.RolloutAll{RolloutConfig: config}}, nil
	case "progressive":
		return clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.Progressive, Progressive: &clusterv1alpha1.RolloutProgressive{RolloutConfig: config, MaxConcurrency: concurrency}}, nil
	case "progressive-per-group":
		if b.maxConcurrency != "" {
			return clusterv1alpha1.RolloutStrategy{}, errors.New("--max-concurrency is not for --rollout progressive-per-group, which takes a decision group at a time")
		}
		return clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.ProgressivePerGroup, ProgressivePerGroup: &clusterv1alpha1.RolloutProgressivePerGroup{RolloutConfig: config}}, nil
	}
	return clusterv1alpha1.RolloutStrategy{}, fmt.Errorf("--rollout %q is unknown; it is all, progressive or progressive-per-group", b.rollout)
}

// applyByPlacement writes a replica set, and follows its rollout if that is wanted.
func (g *global) applyByPlacement(ctx context.Context, to *access, b *byPlacement, a *workload.Applier, objects []workload.Object, wait waiting) error {
	if a.Set == "" {
		return usageError{errors.New("a ManifestWork cannot be put into a replica set; give the objects that it holds")}
	}
	hub, err := to.connect()
	if err != nil {
		return err
	}
	if _, err := hub.clusters.ClusterV1beta1().Placements(b.namespace).Get(ctx, b.placement, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %s has no placement %s; nave placement create %s -n %s --set NAME makes one", b.namespace, b.placement, b.placement, b.namespace)
	}
	strategy, err := b.strategy()
	if err != nil {
		return usageError{err}
	}
	cascade := workv1alpha1.Background
	if b.foreground {
		cascade = workv1alpha1.Foreground
	}
	a.Hub = hub.works
	verb, err := a.ApplyReplicaSet(ctx, b.namespace, []workv1alpha1.LocalPlacementReference{{Name: b.placement, RolloutStrategy: strategy}}, cascade, objects)
	if err != nil {
		return err
	}
	fmt.Fprintf(g.streams.Out, "replica set %s of namespace %s %s (%d manifests)\n", a.Set, b.namespace, verb, len(objects))
	if !wait.on {
		fmt.Fprintf(g.streams.Out, "nave work rollout status %s -n %s says how far it is\n", a.Set, b.namespace)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait.timeout)
	defer cancel()
	r := replicaSet{hub, b.namespace, a.Set}
	return r.await(ctx, g.streams.Out)
}

// deleteReplicaSet deletes a replica set, whose works the hub deletes.
func (g *global) deleteReplicaSet(ctx context.Context, hub *clients, namespace, name string, waiting waiting) error {
	r := replicaSet{hub, namespace, name}
	if err := hub.works.WorkV1alpha1().ManifestWorkReplicaSets(namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return r.wrap(err)
	}
	if !waiting.on {
		fmt.Fprintf(g.streams.Out, "replica set %s of namespace %s is being deleted\n", name, namespace)
		return nil
	}
	err := wait.PollUntilContextTimeout(ctx, rolloutInterval, waiting.timeout, true, func(ctx context.Context) (bool, error) {
		_, err := hub.works.WorkV1alpha1().ManifestWorkReplicaSets(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("replica set %s of namespace %s is not gone after %s: %w; it goes on, see nave work list -A", name, namespace, waiting.timeout, err)
	}
	fmt.Fprintf(g.streams.Out, "replica set %s of namespace %s deleted\n", name, namespace)
	return nil
}
