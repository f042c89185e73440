// Package hubtest runs a hub in the process of a test, for tests that need its parts or its settings at hand. What a user
// gets, the binary, is what test/e2e runs.
package hubtest

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"nave/pkg/hub"
	"nave/pkg/log"
)

// Hub is a hub that runs until Stop.
type Hub struct {
	DataDir string
	Admin   *rest.Config // with every right and no rate limit
	stop    context.CancelFunc
	ended   chan error
}

// Start runs a hub on a new data directory and a free port, and returns when it is ready. Of c it takes what the test cares
// about. Only errors are logged.
func Start(c hub.Config) (_ *Hub, err error) {
	h := &Hub{ended: make(chan error, 1)}
	if h.DataDir, err = os.MkdirTemp("", "nave-hubtest-"); err != nil {
		return nil, err
	}
	quiet := logrus.New()
	quiet.SetLevel(logrus.ErrorLevel)
	log.Bridge(quiet)
	c.DataDir, c.Listen, c.Log = h.DataDir, []string{"127.0.0.1:0"}, quiet
	prepared, err := hub.New(c)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(h.DataDir))
	}
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	go func() { h.ended <- prepared.Run(ctx) }()
	select {
	case <-prepared.Ready():
	case err := <-h.ended:
		stop()
		return nil, errors.Join(fmt.Errorf("hub ended before it was ready: %w", err), os.RemoveAll(h.DataDir))
	}
	if h.Admin, err = clientcmd.BuildConfigFromFlags("", hub.AdminKubeconfig(h.DataDir)); err != nil {
		return nil, errors.Join(err, h.Stop())
	}
	h.Admin.QPS = -1
	return h, nil
}

// Stop ends the hub and removes its data.
func (h *Hub) Stop() error {
	h.stop()
	return errors.Join(<-h.ended, os.RemoveAll(h.DataDir))
}
