package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"nave/pkg/rollout"
	"nave/pkg/workload"
)

// groupsNamed is how many decision groups a message names.
const groupsNamed = 5

// byPlacement is what nave work apply is told about a replica set.
type byPlacement struct {
	placement, namespace string
	rollout              string
	maxConcurrency       string
	maxFailures          string
	minSuccessTime       time.Duration
	progressDeadline     string
	mandatoryGroups      []string
	foreground           bool
}

// rolloutFlags are those that say how clusters of a placement get content.
func rolloutFlags() []string {
	return []string{"rollout", "max-concurrency", "max-failures", "min-success-time", "progress-deadline", "mandatory-groups"}
}

func (b *byPlacement) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&b.placement, "placement", "", "instead of --cluster: the placement that selects the clusters")
	flags.StringVarP(&b.namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of the placement")
	flags.StringVar(&b.rollout, "rollout", "all", "how clusters of a placement get it: all, progressive or progressive-per-group")
	flags.StringVar(&b.maxConcurrency, "max-concurrency", "", "progressive: how many clusters at a time, a number or a percentage; all if empty")
	flags.StringVar(&b.maxFailures, "max-failures", "", "not for all: how many clusters may fail, a number or a percentage; none if empty")
	flags.DurationVar(&b.minSuccessTime, "min-success-time", 0, "not for all: how long a cluster has to stay well before the next")
	flags.StringVar(&b.progressDeadline, "progress-deadline", "", "after how long a cluster that is not well has failed, as in 10m; never if empty")
	flags.StringSliceVar(&b.mandatoryGroups, "mandatory-groups", nil, "not for all: decision groups that come first and in which none may fail, names or numbers from 0; if it is left out, those that the replica set has, and none if empty")
	flags.BoolVar(&b.foreground, "foreground", false, "the replica set is not gone, when it is deleted, before its works are")
}

func (b *byPlacement) strategy() (clusterv1alpha1.RolloutStrategy, error) {
	if err := b.refused(); err != nil {
		return clusterv1alpha1.RolloutStrategy{}, err
	}
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
		if b.maxConcurrency+b.maxFailures != "" || b.minSuccessTime != 0 || len(b.mandatoryGroups) > 0 {
			return clusterv1alpha1.RolloutStrategy{}, errors.New("--max-concurrency, --max-failures, --min-success-time and --mandatory-groups are not for --rollout all; say --rollout progressive")
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

// refused are values that a strategy may have, with a meaning that nobody thinks of who gives them here.
func (b *byPlacement) refused() error {
	for _, given := range []struct{ flag, value string }{
		{"max-concurrency", b.maxConcurrency}, {"max-failures", b.maxFailures}, {"min-success-time", b.minSuccessTime.String()},
	} {
		if strings.HasPrefix(given.value, "-") {
			return fmt.Errorf("--%s %s is negative", given.flag, given.value)
		}
	}
	if d, err := time.ParseDuration(b.progressDeadline); err == nil && d == 0 {
		return fmt.Errorf("with --progress-deadline %s every cluster is late at once; leave it out for none", b.progressDeadline)
	}
	return nil
}

// target is what the flags say, nil if it is no placement; what they do not say is left to the replica set. Flags that would be
// ignored are refused before anything is asked of a hub.
func (b *byPlacement) target(flags *pflag.FlagSet, clusters []string) (*workload.Target, error) {
	if b.placement == "" {
		for _, name := range append(rolloutFlags(), "namespace", "foreground") {
			if flags.Changed(name) {
				return nil, usageError{fmt.Errorf("--%s is for --placement, which is not given%s", name, map[string]string{"namespace": "; that of objects is --namespace-default"}[name])}
			}
		}
		return nil, nil
	}
	if len(clusters) > 0 {
		return nil, usageError{errors.New("say --cluster NAME or --placement NAME, not both")}
	}
	if wrong := validation.IsDNS1123Subdomain(b.placement); len(wrong) > 0 {
		return nil, usageError{fmt.Errorf("--placement %q: it is one name, and %s", b.placement, wrong[0])}
	}
	strategy, err := b.strategy()
	if err == nil {
		err = rollout.Check(strategy)
	}
	if err != nil {
		return nil, usageError{err}
	}
	to := &workload.Target{Namespace: b.namespace, Placement: b.placement, Foreground: b.foreground}
	if slices.ContainsFunc(rolloutFlags(), flags.Changed) {
		to.Rollout = &strategy
	}
	if flags.Changed("mandatory-groups") {
		to.Mandatory = mandatory(b.mandatoryGroups)
	}
	return to, nil
}

// mandatory are decision groups by name, or by number.
func mandatory(groups []string) []clusterv1alpha1.MandatoryDecisionGroup {
	all := []clusterv1alpha1.MandatoryDecisionGroup{}
	for _, text := range groups {
		if index, err := strconv.ParseUint(text, 10, 31); err == nil {
			all = append(all, clusterv1alpha1.MandatoryDecisionGroup{GroupIndex: int32(index)})
		} else {
			all = append(all, clusterv1alpha1.MandatoryDecisionGroup{GroupName: text})
		}
	}
	return all
}

// checkMandatory refuses a group that a placement does not have: a rollout passes over it, so nothing would come first.
func checkMandatory(p *clusterv1beta1.Placement, groups []clusterv1alpha1.MandatoryDecisionGroup) error {
	for _, wanted := range groups {
		if wanted.GroupName == "" {
			if n := len(p.Status.DecisionGroups); n > 0 && int(wanted.GroupIndex) >= n {
				return fmt.Errorf("--mandatory-groups: placement %s of namespace %s has no decision group %d, there are %d of them, from 0", p.Name, p.Namespace, wanted.GroupIndex, n)
			}
			continue
		}
		var names []string
		for _, g := range p.Spec.DecisionStrategy.GroupStrategy.DecisionGroups {
			names = append(names, g.GroupName)
		}
		switch {
		case slices.Contains(names, wanted.GroupName):
		case len(names) == 0:
			return fmt.Errorf("--mandatory-groups: no decision group of placement %s of namespace %s has a name, so none is %s; give one in spec.decisionStrategy.groupStrategy, or say its number", p.Name, p.Namespace, wanted.GroupName)
		default:
			return fmt.Errorf("--mandatory-groups: placement %s of namespace %s has no decision group %s, it has %s", p.Name, p.Namespace, wanted.GroupName, strings.Join(names[:min(len(names), groupsNamed)], ", "))
		}
	}
	return nil
}

// caution says what a strategy may lead to that its author may not have thought of; empty if there is nothing.
func caution(s *clusterv1alpha1.RolloutStrategy) string {
	if s == nil || s.Progressive == nil {
		return ""
	}
	p := s.Progressive
	if p.MaxConcurrency == intstr.FromInt32(0) || p.ProgressDeadline != "" && p.ProgressDeadline != "None" {
		return ""
	}
	places, errPlaces := intstr.GetScaledValueFromIntOrPercent(&p.MaxConcurrency, 100, true)
	failures, errFailures := intstr.GetScaledValueFromIntOrPercent(&p.MaxFailures, 100, true)
	comparable := p.MaxConcurrency.Type == p.MaxFailures.Type // as numbers, or as percentages
	if errPlaces != nil || errFailures != nil || failures == 0 || comparable && failures < places {
		return "" // so many failures end the rollout
	}
	return "a cluster that has failed stays one of the --max-concurrency clusters at a time, so as many failures hold the rollout for good; with --progress-deadline it gives its place to the next"
}

// renderByPlacement prints a replica set without asking a hub.
func (g *global) renderByPlacement(to *workload.Target, a *workload.Applier, objects []workload.Object) error {
	set, err := a.RenderReplicaSet(*to, objects)
	if err != nil {
		return err
	}
	return g.printYAML(set)
}

// applyByPlacement writes a replica set, or lets the hub try that, and follows its rollout if that is wanted.
func (g *global) applyByPlacement(ctx context.Context, by *access, to *workload.Target, a *workload.Applier, objects []workload.Object, wait waiting) error {
	hub, err := by.connect()
	if err != nil {
		return err
	}
	p, err := hub.clusters.ClusterV1beta1().Placements(to.Namespace).Get(ctx, to.Placement, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("namespace %s has no placement %s; nave placement list -A shows those that there are, nave placement create %s -n %s --set NAME makes this one", to.Namespace, to.Placement, to.Placement, to.Namespace)
	case err == nil:
		if err := checkMandatory(p, to.Mandatory); err != nil {
			return err
		}
	} // whoever may not see placements may still name one
	a.Hub = hub.works
	done, err := a.ApplyReplicaSet(ctx, *to, objects)
	if err != nil {
		return err
	}
	if a.DryRun {
		set, err := workload.PrintableReplicaSet(done.Result)
		if err != nil {
			return err
		}
		return g.printYAML(set)
	}
	fmt.Fprintf(g.streams.Out, "replica set %s of namespace %s %s (%d manifests)\n", a.Set, to.Namespace, done.Verb, len(objects))
	if text := caution(to.Rollout); text != "" {
		fmt.Fprintf(g.streams.Err, "nave: %s\n", text)
	}
	if !wait.on {
		fmt.Fprintf(g.streams.Out, "nave work rollout status %s -n %s says how far it is\n", a.Set, to.Namespace)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait.timeout)
	defer cancel()
	return g.follow(ctx, hub.replicaSet(to.Namespace, a.Set))
}
