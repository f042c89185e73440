// Package metrics says where the parts of a process register what they measure, and serves it.
//
// Hub and agent have one registry each, that of k8s.io/component-base/metrics/legacyregistry: the API server, Kubernetes'
// controllers and clients register there, and the hub's API server serves it at /metrics to whoever may read that. A part of
// ours does the same: package-level vectors of k8s.io/component-base/metrics, registered once with
// legacyregistry.MustRegister when the part is made (there is no init to do it in). No label may take the name of a work, a
// cluster or anything else of which there can be thousands (design D10).
//
// The queue of every loop of pkg/reconcile is measured by its name: workqueue_depth, workqueue_adds_total,
// workqueue_retries_total, workqueue_queue_duration_seconds and workqueue_work_duration_seconds.
package metrics

import (
	"net/http"
	"sync"

	basemetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/restclient" // requests of clients, by host, verb and code
	_ "k8s.io/component-base/metrics/prometheus/version"    // kubernetes_build_info
	_ "k8s.io/component-base/metrics/prometheus/workqueue"  // queues, by the name of their loop

	"nave/pkg/version"
)

// atATime bounds how many answers are made at once. A scraper asks again; more than a few at a time is an accident.
const atATime = 4

var (
	buildInfo = basemetrics.NewGaugeVec(&basemetrics.GaugeOpts{
		Name: "nave_build_info",
		Help: "1, with what the running binary is made of as labels.",
	}, []string{"version", "commit", "goversion", "kubernetes"})

	describeOnce sync.Once
)

// DescribeBuild adds the running binary's version to what is measured.
func DescribeBuild() {
	describeOnce.Do(func() {
		legacyregistry.MustRegister(buildInfo)
		v := version.Current()
		buildInfo.WithLabelValues(v.Version, v.Commit, v.Go, v.Kubernetes).Set(1)
	})
}

// Handler serves what the process measures in Prometheus' format. It asks nobody who they are.
func Handler() http.Handler {
	return basemetrics.HandlerFor(legacyregistry.DefaultGatherer, basemetrics.HandlerOpts{MaxRequestsInFlight: atATime, ErrorHandling: basemetrics.ContinueOnError})
}
