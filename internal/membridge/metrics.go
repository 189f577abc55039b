package membridge

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

// metrics are the control plane's metrics, on their own registry: the process may also serve the
// runtime's.
type metrics struct {
	registry   *prometheus.Registry
	requests   *prometheus.CounterVec
	heartbeats *prometheus.CounterVec
	jobs       *prometheus.CounterVec
	selections prometheus.Counter
	loopErrors *prometheus.CounterVec
	refused    *prometheus.CounterVec
}

func newMetrics(version string) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "membridge_" + name, Help: help}, labels)
	}
	m := &metrics{
		registry:   prometheus.NewRegistry(),
		requests:   counter("http_requests_total", "Requests by route and status.", "route", "code"),
		heartbeats: counter("heartbeats_total", "Heartbeats recorded, of agents and of nodes.", "of"),
		jobs:       counter("sync_jobs_total", "Sync jobs, by kind and how they reached the agent.", "kind", "by"),
		loopErrors: counter("loop_errors_total", "Failures of the background loops.", "loop"),
		refused:    counter("requests_refused_total", "Requests refused with 429, by limit.", "limit"),
		selections: prometheus.NewCounter(prometheus.CounterOpts{Name: "membridge_leadership_selections_total", Help: "Leadership terms started."}),
	}
	// Start counters at 0, so that the first event counts as an increase.
	for _, of := range []string{"agent", "node"} {
		m.heartbeats.WithLabelValues(of)
	}
	for _, kind := range []registry.JobKind{registry.JobPush, registry.JobPull} {
		m.jobs.WithLabelValues(string(kind), "heartbeat")
		m.jobs.WithLabelValues(string(kind), "call")
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "membridge_build_info", Help: "Always 1; the version is a label.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	m.registry.MustRegister(m.requests, m.heartbeats, m.jobs, m.loopErrors, m.refused, m.selections, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// watch registers the metrics that are collected at scrape time.
func (m *metrics) watch(s *Server) {
	for _, loop := range s.Loops() {
		m.loopErrors.WithLabelValues(loop.Name)
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "membridge_waiting_heartbeats", Help: "Heartbeats waiting for a command.",
	}, func() float64 { return float64(s.waiting.size()) }))
	m.registry.MustRegister(agentGauge{s, prometheus.NewDesc("membridge_agents", "Agents by status.", []string{"status"}, nil)})
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// agentGauge counts the agents by status at each scrape.
type agentGauge struct {
	s    *Server
	desc *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (g agentGauge) Describe(ch chan<- *prometheus.Desc) { ch <- g.desc }

// Collect implements prometheus.Collector.
func (g agentGauge) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(g.s.quiesced, 5*time.Second)
	defer cancel()
	agents, err := g.s.store.Agents(ctx, "", 0)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(g.desc, err)
		return
	}
	counts := map[bloom.WorkerStatus]float64{bloom.WorkerOnline: 0, bloom.WorkerOffline: 0} // also without any
	now := g.s.store.Now()
	for _, a := range agents {
		counts[g.s.uptime.Liveness(a, now)]++
	}
	for status, n := range counts {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, n, string(status))
	}
}

// metricRoute keeps the label's cardinality low: patterns, never paths.
func metricRoute(pattern string) string {
	if pattern == "" {
		return "none"
	}
	return pattern
}
