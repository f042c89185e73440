package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"

	"nave/pkg/agentstate"
	"nave/pkg/lifecycle"
	"nave/pkg/log"
	"nave/pkg/spoke/registration"
	"nave/pkg/uplink"
)

// session is an agent's life with one identity on one hub. A renewed certificate is the same identity.
type session struct {
	*Agent
	credentials registration.Credentials
	uplink      *uplink.Uplink
	hub         *rest.Config // for any client of the hub; all share the uplink
	kube        *kubernetes.Clientset
	clusters    *clusterclient.Clientset
	addons      *addonclient.Clientset
	own         clusterinformers.SharedInformerFactory // of the agent's own ManagedCluster alone
	ownAddOns   addoninformers.SharedInformerFactory   // of the add-ons of the agent's own cluster
}

// sessions runs one session after the other until ctx ends, or there is an error that neither time nor anybody can mend.
func (a *Agent) sessions(ctx context.Context) error {
	for ctx.Err() == nil {
		credentials, err := a.registration.Identity(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil // it was told to stop while it waited
			}
			return err
		}
		s, err := a.newSession(credentials)
		if err != nil {
			return err
		}
		err = s.run(ctx)
		var ended *registration.Ended
		if !errors.As(err, &ended) {
			return err
		}
		a.config.Log.WithFields(logrus.Fields{log.FieldCluster: a.config.Hub.Cluster, log.FieldAddress: credentials.Server}).
			WithError(ended).Warn("identity on the hub is of no use any more")
	}
	return nil
}

func (a *Agent) newSession(credentials registration.Credentials) (*session, error) {
	up, err := uplink.New(uplink.Config{Target: credentials.Target(), Clock: a.config.Clock, Changed: a.hubChanged})
	if err != nil {
		return nil, fmt.Errorf("hub %s: %w", credentials.Server, err)
	}
	s := &session{Agent: a, credentials: credentials, uplink: up, hub: up.Client(userAgent())}
	var errs [3]error
	s.kube, errs[0] = kubernetes.NewForConfig(s.hub)
	s.clusters, errs[1] = clusterclient.NewForConfig(s.hub)
	s.addons, errs[2] = addonclient.NewForConfig(s.hub)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("client of hub %s: %w", credentials.Server, err)
	}
	s.own = clusterinformers.NewSharedInformerFactoryWithOptions(s.clusters, 0, clusterinformers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", a.config.Hub.Cluster).String()
	}))
	s.ownAddOns = addoninformers.NewSharedInformerFactoryWithOptions(s.addons, 0, addoninformers.WithNamespace(a.config.Hub.Cluster))
	return s, nil
}

// run runs the session's loops until ctx ends, or the identity does. What was applied on the cluster stays as it is.
func (s *session) run(ctx context.Context) error {
	defer s.uplink.Close()
	loops, err := s.loops()
	if err != nil {
		return err
	}
	group := lifecycle.New(s.config.Log)
	for _, l := range loops {
		group.Add(l.name, lifecycle.Background(l.run))
	}
	s.config.Log.WithFields(logrus.Fields{log.FieldCluster: s.config.Hub.Cluster, log.FieldAddress: s.credentials.Server}).Info("agent runs")
	return group.Run(ctx)
}

// hubChanged takes note that the hub went away, and why, or came back.
func (a *Agent) hubChanged(err error) {
	if err == nil {
		a.config.Log.Info("the hub is back")
	} else {
		a.config.Log.WithError(err).Warn("the hub is away; what is on the cluster stays as it is")
	}
	a.state.Update(func(s agentstate.State) agentstate.State {
		s.HubConnection = nil
		if err != nil {
			s.HubConnection = &agentstate.Fault{Part: "uplink", Reason: agentstate.HubError, Message: err.Error(), At: a.config.Clock.Now()}
			s.LastError = *s.HubConnection
		}
		return s
	})
}
