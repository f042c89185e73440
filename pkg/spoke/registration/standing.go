package registration

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// askTimeout bounds a question to the hub that is asked before anything else happens.
const askTimeout = 10 * time.Second

// standing is how the hub stands to a cluster and whoever asks about it.
type standing int

const (
	// absent hubs give no answer, or one that says nothing about the cluster.
	absent standing = iota
	// accepted clusters are in.
	accepted
	// unaccepted clusters are known and not let in, or not any more.
	unaccepted
	// deleted clusters are not there.
	deleted
	// unknown is who asks: the hub does not take the certificate or the token.
	unknown
	// forbidden is it to look at the cluster: it is deleted, or not let in.
	forbidden
)

// ask asks the hub about the cluster.
func ask(ctx context.Context, config *rest.Config, cluster string) (standing, error) {
	config = rest.CopyConfig(config)
	config.Timeout = askTimeout
	client, err := clusterclient.NewForConfig(config)
	if err != nil {
		return absent, err
	}
	return standingOf(client.ClusterV1().ManagedClusters().Get(ctx, cluster, metav1.GetOptions{}))
}

func standingOf(mc *clusterv1.ManagedCluster, err error) (standing, error) {
	var status apierrors.APIStatus
	switch {
	case err == nil && letIn(mc):
		return accepted, nil
	case err == nil:
		return unaccepted, nil
	case !errors.As(err, &status):
		return absent, err
	}
	switch status.Status().Code {
	case http.StatusNotFound:
		return deleted, err
	case http.StatusUnauthorized:
		return unknown, err
	case http.StatusForbidden:
		return forbidden, err
	}
	return absent, err
}

// letIn tells whether the hub lets the cluster in. One that is being turned out still has things to do (spec 1.2).
func letIn(mc *clusterv1.ManagedCluster) bool {
	return mc.Spec.HubAcceptsClient || meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
}

// verdict is what follows from how the hub stands to an identity.
type verdict int

const (
	// goOn uses the identity.
	goOn verdict = iota
	// joinAnew drops it and asks for another one.
	joinAnew
	// holdOn waits for the hub's people to let the cluster in.
	holdOn
	// askOther asks again with the bootstrap credential, which may be told more.
	askOther
	// stuck needs a bootstrap credential, and there is none.
	stuck
)

// judge says what follows from the hub's answer to the identity. moving says that the identity may be another hub's.
func judge(s standing, moving, hasWay bool) verdict {
	switch {
	case s == accepted || s == absent:
		return goOn
	case s == unaccepted:
		return holdOn
	case !hasWay:
		return stuck
	case moving && s == unknown:
		return joinAnew
	}
	return askOther
}

// judgeOther says what follows when the hub refused the identity (own) and this is its answer to the bootstrap credential.
func judgeOther(own, other standing) verdict {
	switch {
	case other == deleted, other == accepted && own == unknown:
		return joinAnew
	case other == accepted, other == unaccepted:
		return holdOn // accepted: its rights are under way
	}
	return stuck
}
