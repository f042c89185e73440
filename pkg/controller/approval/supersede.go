package approval

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nave/pkg/log"
)

// keptAlike is how many undecided requests of one requester for one and the same agent are kept. Upstream's agent asks anew
// at each of its starts, since it keeps its key in memory only, and stops at ten requests: one that is restarted often
// before it is accepted would never be answered.
const keptAlike = 5

// supersede removes the oldest requests for an agent when its newer ones get many.
func (a *Controller) supersede(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, r request) error {
	waiting, err := a.undecided.ByIndex(byCluster, r.agent.Cluster)
	if err != nil {
		return fmt.Errorf("undecided signing requests of cluster %s: %w", r.agent.Cluster, err)
	}
	var alike []*certificatesv1.CertificateSigningRequest
	for _, obj := range waiting {
		other, ok := obj.(*certificatesv1.CertificateSigningRequest)
		if !ok || other.Spec.Username != csr.Spec.Username {
			continue
		}
		if asked, err := parse(other); err == nil && asked.agent == r.agent {
			alike = append(alike, other)
		}
	}
	for _, old := range superseded(alike) {
		err := a.Kube.CertificatesV1().CertificateSigningRequests().Delete(ctx, old.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &old.UID, ResourceVersion: &old.ResourceVersion},
		})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			continue // it is gone or decided
		}
		if err != nil {
			return fmt.Errorf("remove superseded signing request %s: %w", old.Name, err)
		}
		a.Log.WithFields(logrus.Fields{log.FieldCluster: r.agent.Cluster, log.FieldObject: old.Name}).Info("signing request is removed, newer ones of the same agent wait")
	}
	return nil
}

// superseded are all but the newest of requests alike. Their versions tell their order, since nothing changes a request
// before it is decided; a shorter number is a smaller one.
func superseded(alike []*certificatesv1.CertificateSigningRequest) []*certificatesv1.CertificateSigningRequest {
	if len(alike) <= keptAlike {
		return nil
	}
	slices.SortFunc(alike, func(x, y *certificatesv1.CertificateSigningRequest) int {
		if d := len(x.ResourceVersion) - len(y.ResourceVersion); d != 0 {
			return d
		}
		return strings.Compare(x.ResourceVersion, y.ResourceVersion)
	})
	return alike[:len(alike)-keptAlike]
}
