package apiserver

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/utils/clock"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/identity"
	"nave/pkg/token"
)

// JoinedWithAnnotation names the join token that a ManagedCluster was created with. Only this admission sets it, and
// nobody changes it: a token may ask for a certificate only for the cluster that it created or was made for.
const JoinedWithAnnotation = "nave.dev/join-token"

// clusterReader reads the ManagedCluster that a signing request is for.
type clusterReader func(ctx context.Context, name string) (*clusterv1.ManagedCluster, error)

// tokenRules holds join tokens to one cluster and one key pair each (D6). What a token was used for is written into its
// record in the same step that admits the use, and the record's resourceVersion decides between two at the same time.
type tokenRules struct {
	kube     kubernetes.Interface
	clusters clusterReader
	clock    clock.PassiveClock
	replays  *replays
}

// joinToken is the id of the join token that a request came with.
func joinToken(a admission.Attributes) (string, bool) {
	values := a.GetUserInfo().GetExtra()[identity.JoinTokenExtra]
	if len(values) != 1 {
		return "", false
	}
	return values[0], true
}

// Validate checks what a request with a join token wants to create.
func (r *tokenRules) Validate(ctx context.Context, a admission.Attributes) error {
	id, ok := joinToken(a)
	if !ok || a.GetOperation() != admission.Create {
		return nil
	}
	var want use
	switch obj := a.GetObject().(type) {
	case *clusterv1.ManagedCluster:
		want = use{cluster: obj.Name}
	case *certificates.CertificateSigningRequest:
		var err error
		if want, err = r.useOf(ctx, id, obj); err != nil {
			return err
		}
	default:
		return nil // RBAC decides; such a user may create nothing else
	}
	noteToken(ctx, id)
	if a.IsDryRun() {
		return nil
	}
	return r.take(ctx, id, want)
}

// use is what a token is used for: joining one cluster, with one key.
type use struct {
	cluster string
	key     string // hex SHA-256 of the public key; empty while only the cluster is created
	rejoin  bool   // the cluster was not created with this token
}

func (r *tokenRules) useOf(ctx context.Context, id string, csr *certificates.CertificateSigningRequest) (use, error) {
	agent, request, err := requestOf(csr).ForAgent()
	if err != nil {
		return use{}, apierrors.NewBadRequest(fmt.Sprintf("a join token can only ask for the certificate of an agent: %v", err))
	}
	mc, err := r.clusters(ctx, agent.Cluster)
	if err != nil {
		return use{}, apierrors.NewInternalError(fmt.Errorf("read ManagedCluster %s: %w", agent.Cluster, err))
	}
	return use{
		cluster: agent.Cluster,
		key:     token.KeyHash(request.RawSubjectPublicKeyInfo),
		rejoin:  mc.Annotations[JoinedWithAnnotation] != id,
	}, nil
}

// take writes the use into the token's record, or says why the token does not allow it.
func (r *tokenRules) take(ctx context.Context, id string, want use) error {
	secrets := r.kube.CoreV1().Secrets(token.Namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		stored, err := secrets.Get(ctx, token.SecretName(id), metav1.GetOptions{})
		if err != nil {
			return err
		}
		record, err := token.FromSecret(stored)
		if err != nil {
			return err
		}
		if cause, text := want.refusal(record); cause != "" {
			if cause == token.CauseUsed {
				r.replays.tell(ctx, id, record.Cluster, text)
			}
			return refused(cause, text)
		}
		if !want.fill(&record, metav1.NewTime(r.clock.Now())) {
			return nil
		}
		updated := record.Secret()
		updated.ObjectMeta = stored.ObjectMeta
		_, err = secrets.Update(ctx, updated, metav1.UpdateOptions{})
		return err
	})
	var status *apierrors.StatusError
	if err != nil && !errors.As(err, &status) {
		return apierrors.NewInternalError(fmt.Errorf("use join token %s: %w", id, err))
	}
	return err
}

// refusal says why a token with this record cannot be used so.
func (u use) refusal(record token.Record) (cause metav1.CauseType, text string) {
	switch {
	case record.Cluster != "" && record.Cluster != u.cluster && record.Bound:
		return token.CauseWrongCluster, fmt.Sprintf("join token %s is for cluster %s, not for %s", record.ID, record.Cluster, u.cluster)
	case record.Cluster != "" && record.Cluster != u.cluster:
		return token.CauseUsed, fmt.Sprintf("join token %s was used already, for cluster %s; create another one", record.ID, record.Cluster)
	case u.key != "" && record.Key != "" && record.Key != u.key:
		return token.CauseUsed, fmt.Sprintf("join token %s was used already, by another agent of cluster %s; create another one", record.ID, record.Cluster)
	case u.key != "" && u.rejoin && !record.Bound:
		return token.CauseWrongCluster, fmt.Sprintf("cluster name %s is taken, and join token %s is not for it; choose another name, or create a token with --cluster %s", u.cluster, record.ID, u.cluster)
	}
	return "", ""
}

// fill notes the use in the record; it reports whether that changed anything.
func (u use) fill(record *token.Record, now metav1.Time) bool {
	changed := false
	if record.Cluster == "" {
		record.Cluster, changed = u.cluster, true
	}
	if u.key != "" && record.Key == "" {
		record.Key, record.UsedAt, changed = u.key, now.Time, true
	}
	return changed
}

func refused(cause metav1.CauseType, text string) error {
	err := apierrors.NewForbidden(certificates.Resource("certificatesigningrequests"), "", errors.New(text))
	err.ErrStatus.Message = text
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: cause, Message: text}}
	return err
}
