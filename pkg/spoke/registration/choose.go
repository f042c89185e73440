package registration

import (
	"context"
	"errors"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// likedFirst is the order in which hubs are tried: the one of the identity that is kept, then as they were given (spec 2.5).
func likedFirst(ways []Bootstrap, kept Credentials) []Bootstrap {
	ordered := slices.Clone(ways)
	slices.SortStableFunc(ordered, func(a, b Bootstrap) int {
		switch x, y := leads(a, kept), leads(b, kept); {
		case x && !y:
			return -1
		case y && !x:
			return 1
		}
		return 0
	})
	return ordered
}

// bootstrapRights are what a bootstrap credential has to allow (spec 2.5).
func bootstrapRights() []authorizationv1.ResourceAttributes {
	var all []authorizationv1.ResourceAttributes
	for _, verb := range []string{"create", "get"} {
		all = append(all, authorizationv1.ResourceAttributes{Group: "cluster.open-cluster-management.io", Resource: "managedclusters", Verb: verb})
	}
	for _, verb := range []string{"create", "get", "list", "watch"} {
		all = append(all, authorizationv1.ResourceAttributes{Group: "certificates.k8s.io", Resource: "certificatesigningrequests", Verb: verb})
	}
	return all
}

// open says why the hub to which a bootstrap credential leads is not open to the cluster, or nil.
func open(ctx context.Context, config *rest.Config, cluster string) error {
	config = rest.CopyConfig(config)
	config.Timeout = askTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, right := range bootstrapRights() {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right}}
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return explainTLS(config.Host, err)
		}
		if !answer.Status.Allowed {
			return fmt.Errorf("its credential may not %s %s", right.Verb, right.Resource)
		}
	}
	switch s, err := ask(ctx, config, cluster); s {
	case accepted, deleted:
		return nil
	case unaccepted:
		return errors.New("it does not accept the cluster")
	default:
		return err
	}
}
