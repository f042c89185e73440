package cluster

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
)

const (
	// clientQPS and clientBurst are limits per second on the controllers' own requests. Kubernetes' 20 and 30 protect a
	// shared control plane and would be what a test waits for here.
	clientQPS   = 500
	clientBurst = 1000
)

// ControllerManager is a kube-controller-manager with the controllers that work without clouds, disks and real nodes.
type ControllerManager struct {
	DataDir string // the cluster's folder, filled by Prepare
}

// Run controls until ctx ends. It takes over klog and the feature gates, which are the process's, so a process can run one.
func (m ControllerManager) Run(ctx context.Context) error {
	if err := m.run(ctx); err != nil {
		return fmt.Errorf("run kube-controller-manager in %s: %w", m.DataDir, err)
	}
	return nil
}

func (m ControllerManager) run(ctx context.Context) error {
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	o, err := m.options()
	if err != nil {
		return fmt.Errorf("options: %w", err)
	}
	if err := o.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("feature gates: %w", err)
	}
	c, err := o.Config(ctx, app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases())
	if err != nil {
		return fmt.Errorf("options: %w", err)
	}
	return app.Run(ctx, c.Complete())
}

func (m ControllerManager) options() (*options.KubeControllerManagerOptions, error) {
	o, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	f := folder(m.DataDir)
	o.Generic.ClientConnection.Kubeconfig = f.kubeconfig()
	o.Generic.ClientConnection.QPS = clientQPS
	o.Generic.ClientConnection.Burst = clientBurst
	o.Generic.LeaderElection.LeaderElect = false // there is no second one, and waiting for a lease takes seconds
	o.Generic.Controllers = controllers()
	o.SecureServing.BindPort = 0 // nobody asks it for anything
	o.CSRSigningController.ClusterSigningCertFile = f.authorityCert()
	o.CSRSigningController.ClusterSigningKeyFile = f.authority()
	o.SAController.RootCAFile = f.authorityCert()
	o.SAController.ServiceAccountKeyFile = f.serviceAccount()
	return o, nil
}

// controllers are those that users of a cluster meet. Left out: everything about nodes (the simulator keeps them), clouds,
// volumes, devices, bootstrap tokens, and migrations.
func controllers() []string {
	return []string{
		names.CertificateSigningRequestApprovingController,
		names.CertificateSigningRequestCleanerController,
		names.CertificateSigningRequestSigningController,
		names.ClusterRoleAggregationController,
		names.CronJobController,
		names.DaemonSetController,
		names.DeploymentController,
		names.DisruptionController,
		names.EndpointsController,
		names.EndpointSliceController,
		names.EndpointSliceMirroringController,
		names.GarbageCollectorController,
		names.HorizontalPodAutoscalerController,
		names.JobController,
		names.NamespaceController,
		names.PodGarbageCollectorController,
		names.ReplicaSetController,
		names.ReplicationControllerController,
		names.ResourceQuotaController,
		names.RootCACertificatePublisherController,
		names.ServiceAccountController,
		names.ServiceAccountTokenController,
		names.StatefulSetController,
		names.TTLAfterFinishedController,
		names.ValidatingAdmissionPolicyStatusController,
	}
}
