package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/sirupsen/logrus"
	"go.uber.org/zap"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"

	"nave/pkg/store"
)

// issuer is who signs service account tokens, as every cluster calls itself.
const issuer = "https://kubernetes.default.svc"

// APIServer is a kube-apiserver with its database.
type APIServer struct {
	DataDir string // the cluster's folder, filled by Prepare
	Listen  string // address and port on the loopback interface
	Log     logrus.FieldLogger
}

// Run serves until ctx ends, then drains and closes the database. It takes over klog and the feature gates, which are the
// process's, so a process can run one.
func (a APIServer) Run(ctx context.Context) error {
	db, err := store.New(store.Config{Dir: folder(a.DataDir).etcd(), Log: a.Log, Zap: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("run kube-apiserver in %s: %w", a.DataDir, err)
	}
	if err := db.Start(ctx); err != nil {
		return fmt.Errorf("run kube-apiserver in %s: %w", a.DataDir, err)
	}
	serving, stopServing := context.WithCancelCause(ctx)
	defer stopServing(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case err := <-db.Failed():
			stopServing(err)
		case <-serving.Done():
		}
	}()
	err = a.serve(serving, db.Endpoint())
	stopServing(nil)
	<-watched
	if cause := context.Cause(serving); ctx.Err() == nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(err, cause)
	}
	// The database outlives the server, and ctx has ended by now.
	if err := errors.Join(err, db.Stop(context.WithoutCancel(ctx))); err != nil {
		return fmt.Errorf("run kube-apiserver in %s: %w", a.DataDir, err)
	}
	return nil
}

func (a APIServer) serve(ctx context.Context, endpoint string) error {
	// The server's calls to itself would otherwise fill the log with its own deprecation warnings.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	o, err := a.options(endpoint)
	if err != nil {
		return err
	}
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("feature gates: %w", err)
	}
	completed, err := o.Complete(ctx)
	if err != nil {
		return fmt.Errorf("options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return fmt.Errorf("options: %w", utilerrors.NewAggregate(errs))
	}
	return app.Run(ctx, completed)
}

func (a APIServer) options(endpoint string) (*options.ServerRunOptions, error) {
	host, portText, err := net.SplitHostPort(a.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen address %s: %w", a.Listen, err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, fmt.Errorf("listen address %s: %w", a.Listen, err)
	}
	f := folder(a.DataDir)
	o := options.NewServerRunOptions()
	o.Etcd.StorageConfig.Transport.ServerList = []string{endpoint}
	o.SecureServing.BindAddress = net.ParseIP(host)
	o.SecureServing.BindPort = port
	o.SecureServing.ServerCert.CertKey.CertFile = f.server()
	o.SecureServing.ServerCert.CertKey.KeyFile = f.server()
	o.Authentication.ClientCert.ClientCA = f.authorityCert()
	o.Authentication.ServiceAccounts.Issuers = []string{issuer}
	o.Authentication.ServiceAccounts.KeyFiles = []string{f.serviceAccount()}
	o.ServiceAccountSigningKeyFile = f.serviceAccount()
	o.Authorization.Modes = []string{"RBAC"}
	o.AllowPrivileged = true
	o.ServiceClusterIPRanges = services

	// Nothing in the lab can reach the service "kubernetes", and its endpoint may not be on the loopback interface.
	o.GenericServerRunOptions.AdvertiseAddress = o.SecureServing.BindAddress
	o.EndpointReconcilerType = string(reconcilers.NoneEndpointReconcilerType)
	// The simulated nodes are ready from their first moment, and no node controller runs to take the taint away.
	o.Admission.GenericAdmission.DisablePlugins = []string{"TaintNodesByCondition"}
	// Fair queueing costs start-up time and memory for a handful of clients that all belong to one person.
	o.Features.EnablePriorityAndFairness = false
	return o, nil
}
