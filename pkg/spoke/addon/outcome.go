package addon

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nave/pkg/certrequest"
)

// tooManyMessage is upstream's.
const tooManyMessage = "Stop creating csr since there are too many csr created already on hub"

// outcome is how it went with one identity, as a condition. Without a status there is nothing new to say.
type outcome struct{ metav1.Condition }

// outcomes are those of all identities of an add-on.
type outcomes []outcome

func waiting(driver string) outcome { return outcome{metav1.Condition{Type: conditionOf(driver)}} }

func failed(driver string, err error) outcome {
	reason := reasonUpdateFailed
	if driver == driverToken {
		reason = reasonCreateFailed
	}
	message := err.Error()
	if errors.Is(err, certrequest.ErrTooMany) {
		message = tooManyMessage
	}
	return outcome{metav1.Condition{Type: conditionOf(driver), Status: metav1.ConditionFalse, Reason: reason, Message: message}}
}

func done(driver string, l life) outcome {
	until := l.until.UTC().Format(time.RFC3339)
	reason, message := reasonUpdated, fmt.Sprintf("client certificate rotated starting from %s to %s", l.from.UTC().Format(time.RFC3339), until)
	if driver == driverToken {
		reason, message = reasonRefreshed, "Addon token refreshed, expires at "+until
	}
	return outcome{metav1.Condition{Type: conditionOf(driver), Status: metav1.ConditionTrue, Reason: reason, Message: message}}
}

func conditionOf(driver string) string {
	if driver == driverToken {
		return conditionToken
	}
	return conditionCertificate
}

// conditions are those of the add-on after these outcomes, nil if nothing changes. Of several certificates the worst one
// speaks; a condition that no identity belongs to any more goes.
func (all outcomes) conditions(before []metav1.Condition) []metav1.Condition {
	after := slices.Clone(before)
	for _, kind := range []string{conditionCertificate, conditionToken} {
		of := slices.DeleteFunc(slices.Clone(all), func(o outcome) bool { return o.Type != kind })
		if len(of) == 0 {
			meta.RemoveStatusCondition(&after, kind)
			continue
		}
		if spoken := of.worst(); spoken.Status != "" {
			meta.SetStatusCondition(&after, spoken.Condition)
		}
	}
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	if after == nil {
		after = []metav1.Condition{} // a merge patch takes null for nothing
	}
	return after
}

func (all outcomes) worst() outcome {
	worst := all[0]
	for _, o := range all[1:] {
		if o.Status == metav1.ConditionFalse && worst.Status != metav1.ConditionFalse {
			worst = o
		}
	}
	return worst
}
