package agent

import (
	"context"
	"path/filepath"

	"nave/pkg/footprint"
	"nave/pkg/log"
	"nave/pkg/spoke/addon"
	"nave/pkg/spoke/clusterstatus"
	"nave/pkg/spoke/heartbeat"
	"nave/pkg/spoke/klusterlet"
	"nave/pkg/spoke/managednamespace"
	"nave/pkg/spoke/registration"
	"nave/pkg/spoke/work"
)

// addonKeys is where in its data directory the agent keeps the keys of add-ons.
const addonKeys = "addons"

// loop is a part of an agent that runs until its context ends.
type loop struct {
	name string
	run  func(ctx context.Context) error
}

// loops are what runs as long as the process, whatever becomes of the agent's identity on a hub.
func (a *Agent) loops(own *klusterlet.Loop) []loop {
	loops := []loop{
		{"bootstrap", func(ctx context.Context) error { return a.registration.Watch(ctx, a.config.Hub, a.kube) }},
		{"state", a.writeState},
		{"klusterlet", own.Run},
		{"footprint", func(ctx context.Context) error { return footprint.Trim(ctx, a.config.Log) }},
	}
	if a.metrics != nil {
		loops = append(loops, loop{"metrics", a.serveMetrics})
	}
	return loops
}

// loops are what runs with one identity on one hub. A hub that is away stops none of them: they go on when it is back. They
// start in this order and stop in the reverse, so that what others depend on comes first.
func (s *session) loops() ([]loop, error) {
	self := s.own.Cluster().V1().ManagedClusters()
	rotation, err := registration.NewReporter(s.config.Log.WithField(log.FieldComponent, "registration"), s.config.Hub.Cluster, s.clusters, self)
	if err != nil {
		return nil, err
	}
	beat, err := heartbeat.New(heartbeat.Config{
		Log: s.config.Log.WithField(log.FieldComponent, "heartbeat"), Cluster: s.config.Hub.Cluster, Hub: s.kube, Clusters: self, State: s.state, Clock: s.config.Clock,
	})
	if err != nil {
		return nil, err
	}
	record := newRecorder(s.kube, s.credentials.Agent.Cluster)
	status, err := clusterstatus.New(clusterstatus.Config{
		Log: s.config.Log.WithField(log.FieldComponent, "status"), Cluster: s.config.Hub.Cluster, Hub: s.clusters, Clusters: self, Spoke: s.spoke, Clock: s.config.Clock,
		Settings: s.settings, Events: record,
	})
	if err != nil {
		return nil, err
	}
	works, err := work.New(work.Config{
		Log: s.config.Log.WithField(log.FieldComponent, "work"), Cluster: s.config.Hub.Cluster, HubServer: s.credentials.Server,
		Hub: s.hub, Spoke: s.spoke, Clusters: self, AgentID: s.credentials.Agent.Name, Settings: s.settings, Clock: s.config.Clock,
	})
	if err != nil {
		return nil, err
	}
	namespaces, err := managednamespace.New(managednamespace.Config{
		Log: s.config.Log.WithField(log.FieldComponent, "namespaces"), Cluster: s.config.Hub.Cluster, Server: s.credentials.Server,
		Hub: s.clusters, Clusters: self, Spoke: s.Agent.kube,
	})
	if err != nil {
		return nil, err
	}
	addons, err := s.addonLoops()
	if err != nil {
		return nil, err
	}
	return append([]loop{
		{"own cluster", func(ctx context.Context) error { s.own.Start(ctx.Done()); <-ctx.Done(); s.own.Shutdown(); return nil }},
		{"rotation", rotation.Run},
		{"renewal", func(ctx context.Context) error {
			return s.registration.Renew(ctx, s.uplink, s.credentials, rotation.Set)
		}},
		{"authorities", func(ctx context.Context) error { return s.registration.Learn(ctx, s.uplink, s.credentials) }},
		{"wish", func(ctx context.Context) error { return s.registration.Heed(ctx, s.credentials) }},
		{"standing", func(ctx context.Context) error { return s.registration.Attend(ctx, s.uplink, s.credentials, self) }},
		{"events", record.run},
		{"heartbeat", beat.Run},
		{"status", status.Run},
		{"work", works.Run},
		{"managed namespaces", namespaces.Run},
	}, addons...), nil
}

// addonLoops are what is done for the add-ons on the cluster.
func (s *session) addonLoops() ([]loop, error) {
	config := addon.Config{
		Log: s.config.Log.WithField(log.FieldComponent, "addon"), Agent: s.credentials.Agent,
		Entry: s.credentials.Entry, Endpoint: s.credentials.Endpoint(),
		Hub: s.kube, AddOns: s.addons, Spoke: s.Agent.kube, KeyDir: filepath.Join(s.dir, addonKeys), Settings: s.settings, Clock: s.config.Clock,
		Informer: s.ownAddOns.Addon().V1beta1().ManagedClusterAddOns(), Clusters: s.own.Cluster().V1().ManagedClusters(),
	}
	registrar, err := addon.NewRegistrar(config)
	if err != nil {
		return nil, err
	}
	leases, err := addon.NewLeases(config)
	if err != nil {
		return nil, err
	}
	return []loop{
		{"own add-ons", func(ctx context.Context) error {
			s.ownAddOns.Start(ctx.Done())
			<-ctx.Done()
			s.ownAddOns.Shutdown()
			return nil
		}},
		{"add-on registration", registrar.Run},
		{"add-on leases", leases.Run},
	}, nil
}
