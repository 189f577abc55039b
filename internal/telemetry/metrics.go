package telemetry

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Metrics are the metrics of one server, served as an http.Handler. They have their own registry
// because the process may also serve the control plane's. All methods are safe for concurrent use.
type Metrics struct {
	http.Handler
	clock    timing.Clock
	registry *prometheus.Registry
	work     *work
	removed  *prometheus.CounterVec
	contents *prometheus.CounterVec
	errors   *prometheus.CounterVec
	finished *prometheus.GaugeVec
	storage  *storage

	auditFiles, auditEntries prometheus.Counter
}

// NewMetrics returns a server's metrics.
func NewMetrics(clock timing.Clock) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bloom_" + name, Help: help}, labels)
	}
	m := &Metrics{
		clock:    clock,
		removed:  counter("retention_removed_total", "Entries that retention removed from the database, by kind.", "kind"),
		contents: counter("retention_contents_total", "Deletions of contents of removed artifacts from the artifact store, by outcome.", "outcome"),
		errors:   counter("loop_errors_total", "Failed runs of the background loops.", "loop"),
		finished: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "bloom_loop_last_success_timestamp_seconds", Help: "When a background loop last finished a run on this server; none before its first.",
		}, []string{"loop"}),
		auditFiles:   prometheus.NewCounter(prometheus.CounterOpts{Name: "bloom_audit_export_files_total", Help: "Audit files that this server exported."}),
		auditEntries: prometheus.NewCounter(prometheus.CounterOpts{Name: "bloom_audit_export_entries_total", Help: "Audit entries in those files."}),
	}
	m.work, m.storage, m.registry = newWork(), newStorage(), prometheus.NewRegistry()
	m.registry.MustRegister(m.work.collectors()...)
	m.registry.MustRegister(m.removed, m.contents, m.errors, m.finished, m.storage.moved, m.storage.transcripts, m.storage.seconds,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.Handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	// Start counters at 0, so that the first event counts as an increase.
	m.Removed(contract.Removed{})
	for _, outcome := range []string{deleted, failed} {
		m.contents.WithLabelValues(outcome)
	}
	return m
}

// Outcomes of a deletion.
const (
	deleted = "deleted"
	failed  = "failed"
)

// Removed counts what retention removed.
func (m *Metrics) Removed(r contract.Removed) {
	for kind, n := range map[string]int64{
		"task": r.Tasks, "lease": r.Leases, "result": r.Results, "artifact": r.Artifacts, "event": r.Events, "audit": r.Audit, "context": r.Contexts,
	} {
		m.removed.WithLabelValues(kind).Add(float64(n))
	}
}

// ContentDeleted counts an attempt to delete content; nil is a success.
func (m *Metrics) ContentDeleted(err error) {
	outcome := deleted
	if err != nil {
		outcome = failed
	}
	m.contents.WithLabelValues(outcome).Inc()
}

// Loop returns a function that records the outcome of each run of a background loop.
func (m *Metrics) Loop(name string) func(error) {
	failures := m.errors.WithLabelValues(name)
	return func(err error) {
		if err != nil {
			failures.Inc()
			return
		}
		m.finished.WithLabelValues(name).Set(float64(m.clock.Now().UnixMilli()) / 1000)
	}
}
