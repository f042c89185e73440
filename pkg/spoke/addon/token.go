package addon

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
)

// conditionTokenReady says that the hub has a service account for the add-on.
const conditionTokenReady = "TokenInfrastructureReady"

// accountUID is the UID of the service account that the hub has for the add-on, empty while there is none. Where upstream
// puts it is the message of a condition (spec 2.6).
func accountUID(mca *addonv1beta1.ManagedClusterAddOn) (string, error) {
	c := meta.FindStatusCondition(mca.Status.Conditions, conditionTokenReady)
	if c == nil || c.Status != metav1.ConditionTrue {
		return "", nil
	}
	_, rest, _ := strings.Cut(c.Message, "(UID: ")
	uid, _, ok := strings.Cut(rest, ")")
	if !ok || uid == "" {
		return "", fmt.Errorf("condition %s of add-on %s/%s has no UID in its message %q", conditionTokenReady, mca.Namespace, mca.Name, c.Message)
	}
	return uid, nil
}

// claims are what the agent reads of a token. It trusts the connection that the token came over, so it checks no signature.
type claims struct {
	Issued     int64 `json:"iat"`
	Expires    int64 `json:"exp"`
	Kubernetes struct {
		ServiceAccount struct {
			UID string `json:"uid"`
		} `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

// tokenLife reads a token that is kept. An error says why it is of no use for the service account with this UID.
func tokenLife(token []byte, uid string, now time.Time) (life, error) {
	if len(token) == 0 {
		return life{}, errors.New("there is no token yet")
	}
	parts := strings.Split(string(token), ".")
	if len(parts) != 3 {
		return life{}, errors.New("the token is not one of a service account")
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return life{}, fmt.Errorf("claims of the token: %w", err)
	}
	var c claims
	if err := json.Unmarshal(text, &c); err != nil {
		return life{}, fmt.Errorf("claims of the token: %w", err)
	}
	if c.Issued == 0 || c.Expires <= c.Issued {
		return life{}, errors.New("the token does not say from when until when it is good")
	}
	l := life{from: time.Unix(c.Issued, 0), until: time.Unix(c.Expires, 0)}
	l.renew = l.until.Add(-time.Duration(float64(l.until.Sub(l.from)) * tokenLeft))
	switch {
	case c.Kubernetes.ServiceAccount.UID != uid:
		return life{}, errors.New("the token is one of a former service account")
	case !now.Before(l.until):
		return life{}, fmt.Errorf("the token expired at %s", l.until.UTC().Format(time.RFC3339))
	}
	return l, nil
}
