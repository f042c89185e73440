package registration

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nave/pkg/token"
)

// Exit codes of a join that cannot succeed, one for each reason, so that scripts can tell them apart.
const (
	exitUnreachable = 3
	exitMalformed   = 4
	exitOtherHub    = 5
	exitUsed        = 6
	exitExpired     = 7
	exitRevoked     = 8
	exitUnknown     = 9
)

// JoinError is a reason for which joining with this token at this hub cannot succeed; trying again does not help.
type JoinError struct {
	code int
	err  error
}

// Error implements error.
func (e *JoinError) Error() string { return e.err.Error() }

// Unwrap implements error.
func (e *JoinError) Unwrap() error { return e.err }

// ExitCode is the exit code of the process that ends with this error.
func (e *JoinError) ExitCode() int { return e.code }

func refusal(code int, format string, arguments ...any) error {
	return &JoinError{code: code, err: fmt.Errorf(format, arguments...)}
}

// explain turns the hub's refusal of a token into the error that says so, and leaves every other error alone.
func explain(err error) error {
	codes := map[metav1.CauseType]int{
		token.CauseUnknown: exitUnknown, token.CauseUsed: exitUsed, token.CauseWrongCluster: exitUsed,
		token.CauseExpired: exitExpired, token.CauseRevoked: exitRevoked,
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return err
	}
	for _, cause := range status.Status().Details.Causes {
		if code, ok := codes[cause.Type]; ok {
			return &JoinError{code: code, err: errors.New(cause.Message)}
		}
	}
	return err
}
