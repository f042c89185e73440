package rollout

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
)

// rules are a strategy that was read.
type rules struct {
	all, perGroup  bool
	mandatory      []clusterv1alpha1.MandatoryDecisionGroup
	maxConcurrency share // 0: no limit
	maxFailures    share
	soak           time.Duration
	deadline       time.Duration // never: none
}

// Check says what is wrong with a strategy, if anything is.
func Check(strategy clusterv1alpha1.RolloutStrategy) error {
	_, err := rulesOf(strategy)
	return err
}

func rulesOf(s clusterv1alpha1.RolloutStrategy) (*rules, error) {
	r := &rules{}
	var config clusterv1alpha1.RolloutConfig
	switch s.Type {
	case "", clusterv1alpha1.All:
		r.all = true
		if s.All != nil {
			config = s.All.RolloutConfig
		}
		config.MinSuccessTime.Duration = 0 // it is for the other two
	case clusterv1alpha1.Progressive:
		if p := s.Progressive; p != nil {
			config, r.mandatory = p.RolloutConfig, p.MandatoryDecisionGroups.MandatoryDecisionGroups
			var err error
			if r.maxConcurrency, err = shareOf(p.MaxConcurrency); err != nil {
				return nil, fmt.Errorf("rollout strategy: maxConcurrency %w", err)
			}
		}
	case clusterv1alpha1.ProgressivePerGroup:
		r.perGroup = true
		if p := s.ProgressivePerGroup; p != nil {
			config, r.mandatory = p.RolloutConfig, p.MandatoryDecisionGroups.MandatoryDecisionGroups
		}
	default:
		return nil, fmt.Errorf("rollout strategy: type %q is none of All, Progressive, ProgressivePerGroup", s.Type)
	}
	return r, r.configure(config)
}

func (r *rules) configure(c clusterv1alpha1.RolloutConfig) error {
	var err error
	if r.maxFailures, err = shareOf(c.MaxFailures); err != nil {
		return fmt.Errorf("rollout strategy: maxFailures %w", err)
	}
	r.soak = max(0, c.MinSuccessTime.Duration)
	if r.deadline, err = deadlineOf(c.ProgressDeadline); err != nil {
		return fmt.Errorf("rollout strategy: progressDeadline %w", err)
	}
	return nil
}

// noDeadline is how a strategy says that it has none.
const noDeadline = "None"

// never is longer than any rollout.
const never = time.Duration(math.MaxInt64)

// deadlineOf reads a progressDeadline. With one of no time at all, clusters are late at once.
func deadlineOf(text string) (time.Duration, error) {
	if text == "" || text == noDeadline {
		return never, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is neither %s nor a time such as 90s, 10m or 2h", text, noDeadline)
	}
	return d, nil
}

// share is a number of clusters, or a percentage of them.
type share struct {
	number  int
	percent bool
}

// shareOf reads a number or a percentage. Less than none is the default, as it is upstream, which is what 0 stands for.
func shareOf(v intstr.IntOrString) (share, error) {
	if v.Type == intstr.Int {
		return share{number: max(0, int(v.IntVal))}, nil
	}
	if v.StrVal == "" {
		return share{}, nil
	}
	digits, percent := strings.CutSuffix(v.StrVal, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || percent && n > 100 {
		return share{}, fmt.Errorf("%q is neither a number nor a percentage", v.StrVal)
	}
	return share{n, percent}, nil
}

// of is how many of so many clusters it is: never more than there are, and of a percentage never none. Upstream takes a
// number that is larger than the total for the default, which for failures is 0 (spec 10.2, C4).
func (s share) of(total int) int {
	if s.percent {
		return (s.number*total + 99) / 100
	}
	return min(s.number, total)
}
