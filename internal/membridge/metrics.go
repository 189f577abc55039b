package membridge

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the control plane's figures, on a registry of their own: the
// process may serve the runtime's too.
type metrics struct {
	registry   *prometheus.Registry
	requests   *prometheus.CounterVec
	heartbeats *prometheus.CounterVec
	jobs       *prometheus.CounterVec
	selections prometheus.Counter
	loopErrors *prometheus.CounterVec
	refused    *prometheus.CounterVec
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "membridge_" + name, Help: help}, labels)
	}
	m := &metrics{
		registry:   prometheus.NewRegistry(),
		requests:   counter("http_requests_total", "Requests by route and status.", "route", "code"),
		heartbeats: counter("heartbeats_total", "Heartbeats taken, of agents and of nodes.", "of"),
		jobs:       counter("sync_jobs_total", "Sync jobs ordered, by kind and how they reached the agent.", "kind", "by"),
		loopErrors: counter("loop_errors_total", "Failed rounds of the background loops.", "loop"),
		refused:    counter("requests_refused_total", "Requests answered 429, by the limit that was reached.", "limit"),
		selections: prometheus.NewCounter(prometheus.CounterOpts{Name: "membridge_leadership_selections_total", Help: "Leaderships begun."}),
	}
	m.registry.MustRegister(m.requests, m.heartbeats, m.jobs, m.loopErrors, m.refused, m.selections)
	return m
}

// watch adds the figures that are read when somebody asks.
func (m *metrics) watch(s *Server) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "membridge_waiting_heartbeats", Help: "Heartbeats held open until there is an order.",
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

// Describe is for prometheus.
func (g agentGauge) Describe(ch chan<- *prometheus.Desc) { ch <- g.desc }

// Collect is for prometheus.
func (g agentGauge) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(g.s.calm, 5*time.Second)
	defer cancel()
	agents, err := g.s.store.Agents(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(g.desc, err)
		return
	}
	counts := map[string]float64{}
	now := g.s.store.Now()
	for _, a := range agents {
		counts[string(g.s.uptime.Liveness(a, now))]++
	}
	for status, n := range counts {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, n, status)
	}
}

// metricRoute keeps the label's values few: patterns, never paths.
func metricRoute(pattern string) string {
	if pattern == "" {
		return "none"
	}
	return pattern
}
