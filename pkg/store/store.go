// Package store runs the hub's database: etcd, in this process, on a unix socket that nobody else can open.
package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"nave/pkg/log"
)

const (
	// memberName is etcd's name for its only member. It is part of the data, so it never changes.
	memberName = "nave"

	// peerURL is what the member advertises to other members. There are none, and nothing listens on it; but it is
	// part of the data, so it does not depend on where the data directory lies.
	peerURL = "http://127.0.0.1:2380"

	// heartbeat and election are etcd's ticks. A single member only waits for its own election, so a short one gets the
	// hub up sooner; it is not shorter because a slow disk must not make the leader step down.
	heartbeat = 100 * time.Millisecond
	election  = 500 * time.Millisecond

	// DefaultQuotaBytes bounds the database (D9). etcd's own default, with which 10,000 works of 20 KiB fit ten times.
	DefaultQuotaBytes = 2 << 30

	// maxRequestBytes is what one write may hold: kube-apiserver takes bodies of 3 MiB, and some room for encoding.
	maxRequestBytes = 4 << 20

	// snapshotCount is how many entries etcd keeps in memory before it writes a snapshot. The default of 10,000 keeps
	// up to that many whole requests; works are large, so fewer are kept.
	snapshotCount = 1_000

	// maxSocketPath is a little under the 108 bytes that Linux has for the address of a unix socket.
	maxSocketPath = 100
)

// Config says where the database lives.
type Config struct {
	Dir        string // its own folder; made if absent
	QuotaBytes int64  // DefaultQuotaBytes if 0
	Log        logrus.FieldLogger
	Zap        *zap.Logger // for etcd's own lines
}

// Store is the running database. It implements lifecycle.Component and lifecycle.Failer.
type Store struct {
	Config
	socket    string
	temporary string // folder to remove at the end, where the socket could not lie in Dir
	etcd      *embed.Etcd
	failed    chan error
	closing   atomic.Bool
}

// untilClosing drops what etcd says once it is told to end: each listener that closes is an error to it.
type untilClosing struct {
	zapcore.Core
	closing *atomic.Bool
}

// Check implements zapcore.Core.
func (c untilClosing) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.closing.Load() {
		return checked
	}
	return c.Core.Check(entry, checked)
}

// With implements zapcore.Core.
func (c untilClosing) With(fields []zapcore.Field) zapcore.Core {
	return untilClosing{c.Core.With(fields), c.closing}
}

// New prepares a store; Start opens it.
func New(c Config) (*Store, error) {
	if c.QuotaBytes == 0 {
		c.QuotaBytes = DefaultQuotaBytes
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("store in %s: %w", c.Dir, err)
	}
	c.Dir = dir
	return &Store{Config: c, socket: filepath.Join(dir, "client.sock"), failed: make(chan error, 1)}, nil
}

// Endpoint is the address for etcd clients in this process. It is valid once Start has returned.
func (s *Store) Endpoint() string { return "unix://" + s.socket }

// Start opens the database and returns when it answers.
func (s *Store) Start(ctx context.Context) error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("store in %s: %w", s.Dir, err)
	}
	if err := s.placeSocket(); err != nil {
		return err
	}
	config, err := s.etcdConfig()
	if err != nil {
		return err
	}
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("open store in %s: %w", s.Dir, err)
	}
	s.etcd = etcd
	select {
	case <-etcd.Server.ReadyNotify():
	case err := <-etcd.Err():
		etcd.Close()
		return fmt.Errorf("open store in %s: %w", s.Dir, err)
	case <-ctx.Done():
		etcd.Close()
		return fmt.Errorf("open store in %s: %w", s.Dir, context.Cause(ctx))
	}
	go s.watch()
	return s.clearAlarm(ctx)
}

// watch reports when etcd ends by itself. It ends with etcd, whose error channel closes then.
func (s *Store) watch() {
	for err := range s.etcd.Err() {
		select {
		case s.failed <- fmt.Errorf("store in %s: %w", s.Dir, err):
		default:
		}
	}
}

// Failed delivers the error with which the database ended by itself.
func (s *Store) Failed() <-chan error { return s.failed }

// Stop closes the database. Everything that uses it has to be stopped before.
func (s *Store) Stop(context.Context) error {
	s.closing.Store(true)
	s.etcd.Close()
	if s.temporary != "" {
		return os.RemoveAll(s.temporary)
	}
	return nil
}

// placeSocket moves the socket to a private temporary folder if its path is too long for the kernel.
func (s *Store) placeSocket() error {
	if len(s.socket) <= maxSocketPath {
		return nil
	}
	dir, err := os.MkdirTemp("", "nave-")
	if err != nil {
		return fmt.Errorf("folder for the store's socket: %w", err)
	}
	s.temporary, s.socket = dir, filepath.Join(dir, "client.sock")
	return nil
}

func (s *Store) etcdConfig() (*embed.Config, error) {
	peer, err := url.Parse(peerURL)
	if err != nil {
		return nil, fmt.Errorf("peer address: %w", err)
	}
	client := url.URL{Scheme: "unix", Path: s.socket}
	c := embed.NewConfig()
	c.Name = memberName
	c.Dir = filepath.Join(s.Dir, "data")
	c.ListenPeerUrls = nil
	c.AdvertisePeerUrls = []url.URL{*peer}
	c.InitialCluster = memberName + "=" + peerURL
	c.ListenClientUrls = []url.URL{client}
	c.AdvertiseClientUrls = []url.URL{client}
	c.TickMs = uint(heartbeat.Milliseconds())
	c.ElectionMs = uint(election.Milliseconds())
	c.QuotaBackendBytes = s.QuotaBytes
	c.MaxRequestBytes = maxRequestBytes
	c.SnapshotCount = snapshotCount
	c.SnapshotCatchUpEntries = snapshotCount
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(s.Zap.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return untilClosing{core, &s.closing}
	})))
	return c, nil
}

// clearAlarm takes back the alarm of a full database if it has room again, so that a hub whose objects were compacted or
// whose quota was raised writes again without an operator.
func (s *Store) clearAlarm(ctx context.Context) error {
	client := v3client.New(s.etcd.Server)
	defer client.Close()
	size := s.etcd.Server.Backend().SizeInUse()
	if size >= s.QuotaBytes {
		s.Log.WithField(log.FieldPath, s.Dir).Warnf("store uses %d of %d bytes and takes no more writes; raise the quota or delete objects", size, s.QuotaBytes)
		return nil
	}
	if size >= s.QuotaBytes/5*4 {
		s.Log.WithField(log.FieldPath, s.Dir).Warnf("store uses %d of %d bytes, over 80 %%", size, s.QuotaBytes)
	}
	if _, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("clear alarms of the store: %w", err)
	}
	return nil
}
