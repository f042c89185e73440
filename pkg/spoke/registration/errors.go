package registration

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

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

// unreachable tells whether an error says nothing but that the hub is away or busy.
func unreachable(err error) bool {
	var final *JoinError
	var t *trouble
	if errors.As(err, &final) || errors.As(err, &t) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}

// refusedBy tells whether the hub said that it does not know or not allow the caller.
func refusedBy(err error) bool {
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err)
}

// explainTLS names what is wrong with a hub's certificate, and what to do.
func explainTLS(server string, err error) error {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case errors.As(err, &authority):
		issuer := "nobody"
		if authority.Cert != nil {
			issuer = authority.Cert.Issuer.String()
		}
		return fmt.Errorf("the certificate of hub %s is signed by an unknown authority (%s); give a token or bootstrap kubeconfig with the hub's CA: %w", server, issuer, err)
	case errors.As(err, &host):
		return fmt.Errorf("the certificate of hub %s is not for that address; use one that it is for, or start the hub with it in --advertise: %w", server, err)
	}
	return err
}

// untrusted tells whether the hub's certificate is not one that may be talked to, for another reason than the time of day.
func untrusted(err error) bool {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	return errors.As(err, &authority) || errors.As(err, &host)
}

// kindOf is the same for errors of which people need to be told once. Those of the network often differ by a port only.
func kindOf(err error) string {
	if unreachable(err) && !untrusted(err) {
		return "unreachable"
	}
	return err.Error()
}
