// Package hub composes the hub: which parts run, in which order they start, and how they stop.
//
//	data directory → listener → store → API server → controllers
//
// They stop in reverse, so that controllers never see an API server end and the API server never its database (D4).
package hub

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/utils/clock"

	"nave/pkg/apiserver"
	"nave/pkg/controller/scheduling"
	"nave/pkg/datadir"
	"nave/pkg/footprint"
	"nave/pkg/lifecycle"
	"nave/pkg/live"
	"nave/pkg/log"
	"nave/pkg/metrics"
	"nave/pkg/settings"
	"nave/pkg/store"
)

// Config says how a hub runs. The zero value of every field but DataDir, Listen and Log is a good one.
type Config struct {
	DataDir   string
	Listen    []string // host:port each, the first is advertised; an empty host means every address; :7443 if there is none
	Advertise []string // addresses and names, best first, for the certificate and kubeconfigs; this host's own if empty
	Log       logrus.FieldLogger
	Clock     clock.WithTicker
	AuditLog  string                    // file of the audit log; audit.log in the data directory if empty, NoAuditLog for none
	Settings  *live.Value[settings.Hub] // what can be set while the hub runs; upstream's defaults if nil

	// CertificateLife is how long the certificates that the hub makes for itself and its administrator are valid; a year if
	// zero. They are renewed after two thirds of it.
	CertificateLife time.Duration
	// AgentCertificateLife bounds the certificates that agents get, as kube-controller-manager's --cluster-signing-duration
	// does; a request may ask for less. A year if zero.
	AgentCertificateLife time.Duration
	// WorkLimitBytes bounds the manifests of one work, as upstream's webhook's --manifestLimit does; see CheckWorkLimit.
	// 500 KiB if zero.
	WorkLimitBytes int
}

// CheckWorkLimit tells whether a hub can keep works with manifests of so many bytes.
func CheckWorkLimit(bytes int) error { return apiserver.CheckWorkLimit(bytes) }

// NoAuditLog is the AuditLog of a hub that keeps none.
const NoAuditLog = "none"

// Hub is a hub that has its data directory and its port, and can run once.
type Hub struct {
	config   Config
	files    *files
	listener net.Listener
	host     string // address or name that is advertised
	server   string // URL with it
	release  func() error
	ready    chan struct{}
}

// New takes the data directory and the port and prepares the files, so that everything that a user may have got wrong is
// told before anything runs.
func New(c Config) (*Hub, error) {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.AgentCertificateLife == 0 {
		c.AgentCertificateLife = certificateLife
	}
	if c.Settings == nil {
		c.Settings = live.New(settings.Hub{})
	}
	release, err := datadir.Lock(folder(c.DataDir), "nave hub")
	if err != nil {
		return nil, err
	}
	h := &Hub{config: c, release: release, ready: make(chan struct{})}
	if err := h.prepare(); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func (h *Hub) prepare() error {
	listener, endpoints, err := listen(h.config.Listen)
	if err != nil {
		return err
	}
	h.listener = listener
	hosts, err := h.hosts(endpoints)
	if err != nil {
		return err
	}
	h.host = hosts[0]
	h.server = "https://" + endpoint{h.host, endpoints[0].port}.String()
	h.files, err = prepareFiles(files{
		dir:    folder(h.config.DataDir),
		hosts:  certificateHosts(hosts),
		server: h.server,
		life:   h.config.CertificateLife,
	}, h.config.Clock.Now())
	return err
}

// hosts are the addresses and names that others know this hub by. The first is the one that it tells them.
func (h *Hub) hosts(endpoints []endpoint) ([]string, error) {
	var all []string
	for _, text := range h.config.Advertise {
		host, err := parseHost("advertised address", text)
		if err != nil {
			return nil, err
		}
		all = append(all, host)
	}
	if len(all) == 0 {
		all = []string{reachable(endpoints)}
	}
	for _, e := range endpoints {
		if ip := net.ParseIP(e.host); e.host != "" && (ip == nil || !ip.IsUnspecified()) {
			all = append(all, e.host)
		}
	}
	return all, nil
}

func (h *Hub) auditFile() string {
	switch h.config.AuditLog {
	case "":
		return h.files.path("audit.log")
	case NoAuditLog:
		return ""
	}
	return h.config.AuditLog
}

// Server is the URL under which the hub is advertised.
func (h *Hub) Server() string { return h.server }

// Ready is closed once the hub serves and its controllers run.
func (h *Hub) Ready() <-chan struct{} { return h.ready }

// Run runs the hub until ctx ends or a part of it fails, and returns when everything has stopped.
func (h *Hub) Run(ctx context.Context) error {
	started := h.config.Clock.Now()
	group := lifecycle.New(h.config.Log)
	database, err := store.New(store.Config{
		Dir: h.files.path("etcd"),
		Log: h.config.Log.WithField(log.FieldComponent, "store"),
		Zap: log.Zap(h.config.Log.WithField(log.FieldComponent, "store")),
	})
	if err != nil {
		return errors.Join(err, h.close())
	}
	api := &serving{hub: h, store: database}
	group.Add("certificates", lifecycle.Background(func(ctx context.Context) error {
		return h.files.keepCertificates(ctx, h.config.Clock, h.config.Log.WithField(log.FieldComponent, "certificates"))
	}))
	group.Add("store", database)
	group.Add("apiserver", api)
	group.Add("controllers", &controlling{hub: h, api: api, failed: make(chan error, 1)})
	group.Add("ready", lifecycle.Background(func(ctx context.Context) error {
		h.config.Log.WithFields(logrus.Fields{
			log.FieldAddress: h.server,
			log.FieldElapsed: h.config.Clock.Since(started).Round(time.Millisecond),
		}).Info("hub is ready")
		close(h.ready)
		// Building the API's schemas leaves twice as much garbage as a hub needs.
		return footprint.Trim(ctx, h.config.Log)
	}))
	// Not earlier: while schemas are built, nearly everything is garbage, and a start would take half as long again.
	group.Add("pace", lifecycle.Background(footprint.Pace))
	return errors.Join(group.Run(ctx), h.close())
}

// close gives back what New took.
func (h *Hub) close() error {
	if h.listener != nil {
		// The API server closes it as well; a second time is no error worth telling.
		_ = h.listener.Close()
	}
	return h.release()
}

// serving is the API server as a part of the hub: it can be built only once the store runs.
type serving struct {
	hub    *Hub
	store  *store.Store
	server *apiserver.Server

	placements late
}

// Start implements lifecycle.Component.
func (s *serving) Start(ctx context.Context) error {
	h := s.hub
	var err error
	s.server, err = apiserver.New(ctx, apiserver.Config{
		Listener:              h.listener,
		Endpoint:              s.store.Endpoint(),
		AdvertiseHost:         h.host,
		ServerCertFile:        h.files.serverCert(),
		ClientCAFile:          h.files.clientCAFile(),
		ServiceAccountKeyFile: h.files.serviceAccount(),
		EncryptionFile:        h.files.encryption(),
		AuditFile:             h.auditFile(),
		CABundle:              h.files.bundle.Get,
		SystemNamespaces:      []string{"kube-node-lease", "open-cluster-management", "open-cluster-management-hub"},
		Clock:                 h.config.Clock,
		Settings:              h.config.Settings,
		WorkLimitBytes:        h.config.WorkLimitBytes,
		Placements:            apiserver.Explainer{Path: scheduling.DebugPath, Handler: &s.placements},
		Log:                   h.config.Log.WithField(log.FieldComponent, "apiserver"),
	})
	if err != nil {
		return err
	}
	metrics.DescribeBuild()
	return s.server.Start(ctx)
}

// Stop implements lifecycle.Component.
func (s *serving) Stop(ctx context.Context) error { return s.server.Stop(ctx) }
