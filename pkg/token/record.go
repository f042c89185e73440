package token

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Namespace is where the records are kept.
	Namespace = "kube-system"
	// SecretType marks the Secrets that are records of join tokens; their list is the list of tokens.
	SecretType corev1.SecretType = "nave.dev/join-token"

	secretPrefix = "join-token-"
)

// Causes say why a token cannot be used, in a Status's details. They are part of the wire.
const (
	CauseUnknown      metav1.CauseType = "JoinTokenUnknown"
	CauseUsed         metav1.CauseType = "JoinTokenUsed"
	CauseExpired      metav1.CauseType = "JoinTokenExpired"
	CauseRevoked      metav1.CauseType = "JoinTokenRevoked"
	CauseWrongCluster metav1.CauseType = "JoinTokenWrongCluster"
)

// Keys of a record's data.
const (
	keyHash       = "hash"
	keyExpires    = "expires"
	keyCluster    = "cluster"
	keyBound      = "bound"
	keyAutoAccept = "auto-accept"
	keyUsedAt     = "used-at"
	keyKey        = "key"
	keyRevokedAt  = "revoked-at"
)

// Record is what the hub knows of a token.
type Record struct {
	ID         string
	Hash       string    // of the secret
	Expires    time.Time // zero: never
	Cluster    string    // the cluster that it is for, or was used for; empty before either
	Bound      bool      // it was made for Cluster, rather than used for it
	AutoAccept bool      // a cluster that joins with it is accepted at once
	UsedAt     time.Time // zero: not yet
	Key        string    // KeyHash of the key pair that it was used with
	RevokedAt  time.Time // zero: not revoked
}

// SecretName is the name of a token's record.
func SecretName(id string) string { return secretPrefix + id }

// Matches tells whether secret is the token's, in a time that says nothing about how much of it is right.
func (r Record) Matches(secret string) bool { return sameHash(r.Hash, Hash(secret)) }

// Unusable says why the token cannot be used at all any more; the cause is empty while it can.
func (r Record) Unusable(now time.Time) (cause metav1.CauseType, text string) {
	switch {
	case !r.RevokedAt.IsZero():
		return CauseRevoked, fmt.Sprintf("join token %s was revoked at %s; create another one", r.ID, stamp(r.RevokedAt))
	case !r.Expires.IsZero() && !now.Before(r.Expires):
		if !r.UsedAt.IsZero() {
			return CauseUsed, fmt.Sprintf("join token %s was used already, for cluster %s; create another one", r.ID, r.Cluster)
		}
		return CauseExpired, fmt.Sprintf("join token %s expired at %s; create another one", r.ID, stamp(r.Expires))
	}
	return "", ""
}

// State is one word for lists: unused, used, expired or revoked.
func (r Record) State(now time.Time) string {
	switch {
	case !r.RevokedAt.IsZero():
		return "revoked"
	case !r.UsedAt.IsZero():
		return "used"
	case !r.Expires.IsZero() && !now.Before(r.Expires):
		return "expired"
	}
	return "unused"
}

// Secret is the record as it is stored.
func (r Record) Secret() *corev1.Secret {
	data := map[string][]byte{keyHash: []byte(r.Hash)}
	set := func(key, value string) {
		if value != "" {
			data[key] = []byte(value)
		}
	}
	set(keyExpires, stamp(r.Expires))
	set(keyCluster, r.Cluster)
	set(keyUsedAt, stamp(r.UsedAt))
	set(keyKey, r.Key)
	set(keyRevokedAt, stamp(r.RevokedAt))
	if r.Bound {
		set(keyBound, "true")
	}
	if r.AutoAccept {
		set(keyAutoAccept, "true")
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: SecretName(r.ID), Namespace: Namespace},
		Type:       SecretType,
		Data:       data,
	}
}

// FromSecret reads a stored record.
func FromSecret(s *corev1.Secret) (Record, error) {
	id, ok := strings.CutPrefix(s.Name, secretPrefix)
	if s.Type != SecretType || !ok {
		return Record{}, fmt.Errorf("secret %s/%s of type %q is no join token", s.Namespace, s.Name, s.Type)
	}
	r := Record{ID: id, Hash: string(s.Data[keyHash]), Cluster: string(s.Data[keyCluster]), Key: string(s.Data[keyKey])}
	for key, field := range map[string]*time.Time{keyExpires: &r.Expires, keyUsedAt: &r.UsedAt, keyRevokedAt: &r.RevokedAt} {
		text := string(s.Data[key])
		if text == "" {
			continue
		}
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return Record{}, fmt.Errorf("join token %s: %s: %w", id, key, err)
		}
		*field = parsed
	}
	for key, field := range map[string]*bool{keyBound: &r.Bound, keyAutoAccept: &r.AutoAccept} {
		text := string(s.Data[key])
		if text == "" {
			continue
		}
		parsed, err := strconv.ParseBool(text)
		if err != nil {
			return Record{}, fmt.Errorf("join token %s: %s: %w", id, key, err)
		}
		*field = parsed
	}
	return r, nil
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
