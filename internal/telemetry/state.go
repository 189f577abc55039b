package telemetry

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// scrapeTimeout bounds the queries of a scrape.
const scrapeTimeout = 5 * time.Second

// Membridge is the state of the control plane's client.
type Membridge struct {
	Connected           bool
	ConsecutiveFailures int
	LastSuccess         *int64 // Unix milliseconds
}

// Inner is what a store reports about itself.
type Inner interface {
	Queued() int
	WritesFail() string
	Pools() []store.Pool
}

// Describe registers what is read at each scrape: the store's counts, and membridge's state;
// membridge may be nil.
func (m *Metrics) Describe(version string, s contract.Store, membridge func() Membridge) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("bloom_"+name, help, labels, nil)
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "bloom_build_info", Help: "Always 1; the version is a label.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	m.registry.MustRegister(build, &state{store: s, clock: m.clock, membridge: membridge,
		up:       desc("store_up", "Whether the store answered this scrape."),
		tasks:    desc("tasks", "Tasks by status, as the store counts them.", "status"),
		leases:   desc("leases_active", "Leases that workers hold."),
		workers:  desc("workers", "Workers by status.", "status"),
		slots:    desc("worker_slots", "Tasks that online workers can run at once, by state.", "state"),
		queue:    desc("queue_tasks", "Tasks that a worker could start now, by the labels that they require; at most 20 sets of labels, counting up to 10,000 tasks each.", "labels"),
		oldest:   desc("queue_oldest_age_seconds", "Longest wait of a task that could start, by the labels that it requires.", "labels"),
		waiting:  desc("store_operations_waiting", "Writes waiting in the queue."),
		writable: desc("store_writable", "Whether the database accepted the last write that it answered."),
		open:     desc("store_connections", "Connections to the database, by pool and state.", "pool", "state"),
		most:     desc("store_connections_max", "Maximum connections to the database, by pool.", "pool"),
		bridge:   desc("membridge_connected", "Whether the last call to membridge succeeded."),
		failures: desc("membridge_consecutive_failures", "Calls to membridge that failed since the last success."),
		success:  desc("membridge_last_success_timestamp_seconds", "When membridge last answered."),
	})
}

// DescribeAuth registers the authentication mode, which may change while the server runs.
func (m *Metrics) DescribeAuth(now func() string, modes ...string) {
	for _, mode := range modes {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "bloom_auth_mode", ConstLabels: prometheus.Labels{"mode": mode},
			Help: "How callers are authenticated: 1 for the current mode. The modes development and insecure require no key."},
			func() float64 { return truth(now() == mode) }))
	}
}

// DescribeCertificate registers when the server's certificate expires. A zero time is not shown:
// none has been obtained yet.
func (m *Metrics) DescribeCertificate(expires func() time.Time) {
	m.registry.MustRegister(certificate{expires, prometheus.NewDesc("bloom_certificate_expires_timestamp_seconds", "When the server's certificate expires.", nil, nil)})
}

type certificate struct {
	expires func() time.Time
	desc    *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c certificate) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements prometheus.Collector.
func (c certificate) Collect(out chan<- prometheus.Metric) {
	if at := c.expires(); !at.IsZero() {
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(at.Unix()))
	}
}

type state struct {
	store                                                        contract.Store
	clock                                                        timing.Clock
	membridge                                                    func() Membridge
	up, tasks, leases, workers, slots, bridge, failures, success *prometheus.Desc
	waiting, writable, open, most, queue, oldest                 *prometheus.Desc
}

func (s *state) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.up, s.tasks, s.leases, s.workers, s.slots, s.bridge, s.failures, s.success, s.waiting, s.writable, s.open, s.most, s.queue, s.oldest} {
		out <- d
	}
}

func (s *state) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if s.membridge != nil {
		m := s.membridge()
		gauge(s.bridge, truth(m.Connected))
		gauge(s.failures, float64(m.ConsecutiveFailures))
		if m.LastSuccess != nil {
			gauge(s.success, float64(*m.LastSuccess)/1000)
		}
	}
	if inner, ok := s.store.(Inner); ok {
		gauge(s.waiting, float64(inner.Queued()))
		gauge(s.writable, truth(inner.WritesFail() == ""))
		for _, p := range inner.Pools() {
			gauge(s.open, float64(p.Used), p.Name, "used")
			gauge(s.open, float64(p.Open-p.Used), p.Name, "idle")
			gauge(s.most, float64(p.Max), p.Name)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	stats, err := s.store.Stats(ctx)
	workers, err2 := s.store.Workers(ctx)
	gauge(s.up, truth(err == nil && err2 == nil))
	if err != nil || err2 != nil {
		return
	}
	for _, status := range bloom.TaskStatuses {
		gauge(s.tasks, float64(stats.Tasks.ByStatus[status]), string(status))
	}
	gauge(s.leases, float64(stats.Leases.Active))
	byStatus := map[bloom.WorkerStatus]int{bloom.WorkerOnline: 0, bloom.WorkerOffline: 0}
	free, busy := 0, 0
	for _, w := range workers {
		byStatus[w.Status]++
		if w.Status == bloom.WorkerOnline && w.Capabilities.ClaudeCLI {
			busy += w.ActiveLeases
			if !w.Draining {
				free += max(0, w.Capabilities.MaxConcurrency-w.ActiveLeases)
			}
		}
	}
	for status, n := range byStatus {
		gauge(s.workers, float64(n), string(status))
	}
	gauge(s.slots, float64(free), "free")
	gauge(s.slots, float64(busy), "busy")
	s.collectQueue(ctx, gauge)
}

// Limits of a scrape of the queue, because clients choose labels.
const (
	queueSets  = 20
	queueTasks = 10_000
	queueText  = 200 // bytes
)

func (s *state) collectQueue(ctx context.Context, gauge func(*prometheus.Desc, float64, ...string)) {
	depths, err := s.store.QueueDepths(ctx, queueSets, queueTasks)
	if err != nil {
		return // see bloom_store_up
	}
	now := timing.Millis(s.clock.Now())
	tasks, ages := map[string]float64{}, map[string]float64{}
	for _, d := range depths { // a comma may be part of a label
		labels := labelText(d.Labels)
		tasks[labels] += float64(d.Tasks)
		ages[labels] = max(ages[labels], float64(now-d.Since)/1000)
	}
	for labels, n := range tasks {
		gauge(s.queue, n, labels)
		gauge(s.oldest, ages[labels], labels)
	}
}

// labelText formats a set of labels in at most queueText bytes.
func labelText(labels []string) string {
	text := strings.Join(slices.Sorted(slices.Values(labels)), ",")
	if len(text) > queueText {
		text = strings.ToValidUTF8(text[:queueText], "") + "…"
	}
	return text
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
