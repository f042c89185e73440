package apiserver

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/log"
	"nave/pkg/token"
)

const (
	// replayEvery is how often a token's replays are worth an Event; who has a used token may send it without end.
	replayEvery = time.Minute
	// replayTokens is how many tokens are told apart for that.
	replayTokens = 1024
	// replayTimeout is how long an Event may take to be written.
	replayTimeout = 5 * time.Second
)

// replays tells people of join tokens that come a second time: somebody else may have got hold of one.
type replays struct {
	kube  kubernetes.Interface
	clock clock.PassiveClock
	log   logrus.FieldLogger
	told  *limiters
}

func newReplays(kube kubernetes.Interface, clock clock.PassiveClock, log logrus.FieldLogger) *replays {
	return &replays{kube: kube, clock: clock, log: log, told: newLimiters(replayTokens, replayEvery, 1, clock)}
}

// tell writes an Event about a token that was used for cluster before. It stands in the cluster's namespace, or beside the
// token's record if there is none. An Event that cannot be written is in the log.
func (p *replays) tell(ctx context.Context, id, cluster, text string) {
	if !p.told.take(id) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replayTimeout)
	defer cancel()
	p.log.WithFields(logrus.Fields{log.FieldCluster: cluster, log.FieldReason: text}).Warn("a join token came a second time")
	err := p.write(ctx, cluster, corev1.ObjectReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "ManagedCluster", Name: cluster, Namespace: cluster}, text)
	if apierrors.IsNotFound(err) {
		err = p.write(ctx, token.Namespace, corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Name: token.SecretName(id), Namespace: token.Namespace}, text)
	}
	if err != nil {
		p.log.WithError(err).Warn("event about a join token that came a second time")
	}
}

func (p *replays) write(ctx context.Context, namespace string, regarding corev1.ObjectReference, text string) error {
	now := p.clock.Now()
	host, err := os.Hostname()
	if err != nil {
		host = "hub"
	}
	_, err = p.kube.EventsV1().Events(namespace).Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", regarding.Name, now.UnixNano()), Namespace: namespace},
		EventTime:  metav1.NewMicroTime(now), Type: corev1.EventTypeWarning, Reason: "JoinTokenReplayed", Action: "Join",
		ReportingController: "nave-hub", ReportingInstance: host, Regarding: regarding, Note: text,
	}, metav1.CreateOptions{})
	return err
}
