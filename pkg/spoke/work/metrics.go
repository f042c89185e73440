package work

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Metrics of the agent. None has the name of a work or an object in it: families stay the same whatever the number of works.
var (
	metricApply = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name: "nave_agent_apply_duration_seconds", Help: "How long it took to bring one object in line with its manifest.",
		Buckets: metrics.ExponentialBuckets(0.001, 2, 14), StabilityLevel: metrics.ALPHA,
	}, []string{"strategy", "result"})
	metricWork = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name: "nave_agent_work_duration_seconds", Help: "How long one pass over a work took, statuses included.",
		Buckets: metrics.ExponentialBuckets(0.001, 2, 14), StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
	metricStatus = metrics.NewCounter(&metrics.CounterOpts{
		Name: "nave_agent_status_writes_total", Help: "Statuses of works written to the hub.", StabilityLevel: metrics.ALPHA,
	})
	metricChanges = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "nave_agent_object_changes_total", Help: "Changes of applied objects that were seen on the cluster, as drift or as progress.", StabilityLevel: metrics.ALPHA,
	}, []string{"change"})
	metricWatches = metrics.NewGauge(&metrics.GaugeOpts{
		Name: "nave_agent_watches", Help: "Watches of kinds that are open on the cluster.", StabilityLevel: metrics.ALPHA,
	})
)

// registerMetrics makes the metrics known to the process' registry. It may be called more than once.
func registerMetrics() {
	for _, m := range []metrics.Registerable{metricApply, metricWork, metricStatus, metricChanges, metricWatches} {
		// That one is registered already is the only error there can be.
		_ = legacyregistry.Register(m)
	}
}

// String names a change in metrics.
func (c change) String() string {
	if c == drift {
		return "drift"
	}
	return "progress"
}
