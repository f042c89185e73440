package placement

import (
	"fmt"
	"time"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// maxTolerationSeconds is a hundred years. People write the largest number for ever, and a Duration ends at 292 years.
const maxTolerationSeconds = 100 * 365 * 24 * 60 * 60

// checkTolerations refuses those that mean nothing, in upstream's words.
func (p *Plan) checkTolerations(spec *clusterv1beta1.PlacementSpec) error {
	for _, t := range spec.Tolerations {
		switch {
		case t.Key == "" && t.Operator != clusterv1beta1.TolerationOpExists:
			return misconfigured(string(TaintToleration), "If the key is empty, operator must be Exists.")
		case t.Operator == clusterv1beta1.TolerationOpExists && t.Value != "":
			return misconfigured(string(TaintToleration), "If the operator is Exists, the value should be empty.")
		}
	}
	return nil
}

// JudgeTaints says whether a cluster that matches may be selected. It looks at every taint: two of one key with different
// effects are two taints (spec 10.2, C21).
func (p *Plan) JudgeTaints(mc *clusterv1.ManagedCluster, now time.Time) Verdict {
	var v Verdict
	for i := range mc.Spec.Taints {
		taint := &mc.Spec.Taints[i]
		tolerated, until := p.tolerates(taint, now)
		switch {
		case tolerated:
			if !until.IsZero() && (v.Until.IsZero() || until.Before(v.Until)) {
				v.Until = until
			}
		case taint.Effect == clusterv1.TaintEffectPreferNoSelect:
			v.Avoid++
		case taint.Effect == clusterv1.TaintEffectNoSelectIfNew:
			v.Keep, v.Taint = true, taint
		default:
			return Verdict{Refused: TaintToleration, Taint: taint} // time takes tolerations away, it gives none
		}
	}
	return v
}

// tolerates tells whether any toleration matches a taint, and until when: the longest one counts.
func (p *Plan) tolerates(taint *clusterv1.Taint, now time.Time) (bool, time.Time) {
	var until time.Time
	for i := range p.tolerations {
		t := &p.tolerations[i]
		if !matchesTaint(t, taint) {
			continue
		}
		// The seconds say how long a cluster may stay; whether it is chosen anew does not become another question with time.
		if t.TolerationSeconds == nil || taint.Effect == clusterv1.TaintEffectNoSelectIfNew {
			return true, time.Time{}
		}
		if end := endOf(t, taint); end.After(now) && end.After(until) {
			until = end
		}
	}
	return !until.IsZero(), until
}

// endOf is when a toleration with seconds ends for a taint.
func endOf(t *clusterv1beta1.Toleration, taint *clusterv1.Taint) time.Time {
	return taint.TimeAdded.Add(time.Duration(min(max(*t.TolerationSeconds, 0), maxTolerationSeconds)) * time.Second)
}

func matchesTaint(t *clusterv1beta1.Toleration, taint *clusterv1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	return t.Operator == clusterv1beta1.TolerationOpExists || t.Value == taint.Value
}

// WhyTainted tells in one sentence why a verdict is one about a taint: it names the taint, and a toleration that has run out
// or has another value.
func (p *Plan) WhyTainted(v Verdict, now time.Time) string {
	text := fmt.Sprintf("taint %s is not tolerated", TaintText(v.Taint))
	if v.Keep {
		text += ", so it is not selected anew"
	}
	for i := range p.tolerations {
		t := &p.tolerations[i]
		switch {
		case t.Key != v.Taint.Key:
		case matchesTaint(t, v.Taint) && t.TolerationSeconds != nil:
			return fmt.Sprintf("%s any more: %d seconds were over at %s", text, *t.TolerationSeconds, endOf(t, v.Taint).UTC().Format(time.RFC3339))
		case t.Effect != "" && t.Effect != v.Taint.Effect:
			text += fmt.Sprintf("; a toleration of its key is for effect %s", t.Effect)
		default:
			text += fmt.Sprintf("; a toleration of its key is for value %q", t.Value)
		}
	}
	return text
}

// TaintText gives a taint as people write it: key=value:effect.
func TaintText(taint *clusterv1.Taint) string {
	text := taint.Key
	if taint.Value != "" {
		text += "=" + taint.Value
	}
	return text + ":" + string(taint.Effect)
}
