package work

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nave/pkg/spoke/work/rights"
)

// explain says what a person can do about errors that no retry mends.
func explain(err error, m *manifest) error {
	switch {
	case apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict):
		return fmt.Errorf("%w; set serverSideApply.force to take these fields over, or leave them to their holder with serverSideApply.ignoreFields", err)
	case apierrors.IsForbidden(err):
		return rights.Explain(err, agentVerbs(), m.gvr)
	case apierrors.IsInvalid(err):
		return explainInvalid(err, m)
	}
	return err
}

// agentVerbs are what the agent does with objects of works.
func agentVerbs() []string {
	return []string{"get", "list", "watch", "create", "update", "patch", "delete"}
}

// explainedError says the same as an error of the API server in fewer words.
type explainedError struct {
	text  string
	cause error
}

// Error implements error.
func (e *explainedError) Error() string { return e.text }

// Unwrap implements errors.Unwrap.
func (e *explainedError) Unwrap() error { return e.cause }

// explainInvalid names the fields that cannot be changed. The API server's own text repeats the whole value of each.
func explainInvalid(err error, m *manifest) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return err
	}
	var fixed []string
	for _, cause := range status.Status().Details.Causes {
		if immutable(cause.Message) && !slices.Contains(fixed, cause.Field) {
			fixed = append(fixed, cause.Field)
		}
	}
	if len(fixed) == 0 {
		return err
	}
	fields := "field " + fixed[0] + " is immutable"
	if len(fixed) > 1 {
		fields = "fields " + strings.Join(fixed, ", ") + " are immutable"
	}
	return &explainedError{
		text:  fmt.Sprintf("%s cannot be changed: %s; restore what the manifest said before, give the object another name, or delete it on the cluster to have it made anew", m, fields),
		cause: err,
	}
}

// immutable tells whether an API server says that a field cannot be changed; there is no reason of its own for that.
func immutable(message string) bool {
	for _, words := range []string{"field is immutable", "may not be changed", "cannot change", "is immutable", "updates to", "may not change"} {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}
