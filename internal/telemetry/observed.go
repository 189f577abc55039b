package telemetry

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// maxAgents bounds the values of the label agent, because clients choose agents' names.
const maxAgents = 100

// work counts what happened to tasks on this server.
type work struct {
	created, leased, requeued, released, cancelled, events, artifacts, bytes prometheus.Counter
	results, expired, tokens, cost                                           *prometheus.CounterVec
	wait, lease, group, commit                                               prometheus.Histogram
	run                                                                      *prometheus.HistogramVec
	requests, refused                                                        *prometheus.CounterVec
	took                                                                     *prometheus.HistogramVec

	mu     sync.Mutex
	agents map[string]bool
}

var (
	runBuckets     = []float64{1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21600, 86400}
	waitBuckets    = []float64{0.01, 0.05, 0.25, 1, 5, 15, 60, 300, 900, 3600, 14400}
	commitBuckets  = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10}
	requestBuckets = []float64{0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 30, 65, 300}
)

func newWork() *work {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "bloom_" + name, Help: help})
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bloom_" + name, Help: help}, labels)
	}
	w := &work{
		agents:    map[string]bool{},
		created:   counter("tasks_created_total", "Tasks created."),
		leased:    counter("leases_granted_total", "Leases granted to workers."),
		requeued:  counter("tasks_requeued_total", "Tasks requeued manually."),
		released:  counter("leases_released_total", "Leases released by their workers before the task had ended."),
		cancelled: counter("task_cancellations_total", "Cancellations requested."),
		events:    counter("task_events_total", "Events sent by workers."),
		artifacts: counter("artifacts_created_total", "Artifacts stored."),
		bytes:     counter("artifacts_created_bytes_total", "Content of stored artifacts."),
		results:   vec("task_results_total", "Outcomes recorded, by status.", "status"),
		expired:   vec("leases_expired_total", "Leases that expired, by the task's new status.", "task"),
		tokens:    vec("task_tokens_total", "Tokens that runs used, by agent; the first 100 agents by name.", "agent", "direction"),
		cost:      vec("task_cost_dollars_total", "Cost of runs, as estimated by claude, by agent; the first 100 agents by name.", "agent"),
		wait: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "bloom_task_wait_seconds", Buckets: waitBuckets,
			Help: "Time from when a task could start to its lease by a claim, first attempts only."}),
		lease: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "bloom_lease_held_seconds", Buckets: runBuckets,
			Help: "How long leases were held until their task was completed."}),
		group: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "bloom_store_transaction_operations", Buckets: prometheus.ExponentialBuckets(1, 2, 8),
			Help: "Operations committed together."}),
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "bloom_store_transaction_seconds", Buckets: commitBuckets,
			Help: "Duration of write transactions, including retries."}),
		run: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "bloom_task_run_seconds", Buckets: runBuckets,
			Help: "How long runs took, as workers measured them."}, []string{"status"}),
		requests: vec("http_requests_total", "Requests answered, by route.", "route", "status"),
		refused:  vec("requests_refused_total", "Requests refused with 429, by limit.", "limit"),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "bloom_http_request_duration_seconds", Buckets: requestBuckets,
			Help: "Duration of requests, by route; claims and streams wait on purpose."}, []string{"route"}),
	}
	for _, status := range []bloom.Outcome{bloom.OutcomeSuccess, bloom.OutcomeError} {
		w.results.WithLabelValues(string(status))
	}
	for _, limit := range []string{"address", "sign-in", "test-connection", "key", "worker", "queue"} {
		w.refused.WithLabelValues(limit)
	}
	w.reaped(contract.Reaped{})
	return w
}

func (w *work) collectors() []prometheus.Collector {
	return []prometheus.Collector{w.created, w.leased, w.requeued, w.released, w.cancelled, w.events, w.artifacts, w.bytes,
		w.results, w.expired, w.tokens, w.cost, w.wait, w.lease, w.group, w.commit, w.run, w.requests, w.refused, w.took}
}

func (w *work) reaped(r contract.Reaped) {
	w.expired.WithLabelValues("queued").Add(float64(r.Requeued))
	w.expired.WithLabelValues("dead").Add(float64(r.Dead))
	w.expired.WithLabelValues("cancelled").Add(float64(r.Cancelled))
}

func (w *work) granted(t bloom.Task, l bloom.Lease) {
	w.leased.Inc()
	if t.Attempts == 1 {
		w.wait.Observe(max(0, float64(l.StartedAt-max(t.RunAt, t.CreatedAt))/1000))
	}
}

func (w *work) completed(c bloom.Completed) {
	status, m := string(c.Result.Status), c.Result.Metrics
	w.results.WithLabelValues(status).Inc()
	w.lease.Observe(max(0, float64(c.HeldMS)/1000))
	w.run.WithLabelValues(status).Observe(float64(m.DurationMS) / 1000)
	w.stored(c.Artifact)
	agent := w.agent(c.Task.AgentSlug)
	// Bounded: one infinite value in a report would make the sum infinite forever.
	in, out := m.TokensInOut()
	if m.InputTokens != nil {
		w.tokens.WithLabelValues(agent, "input").Add(float64(in))
	}
	if m.OutputTokens != nil {
		w.tokens.WithLabelValues(agent, "output").Add(float64(out))
	}
	if m.CostUSD != nil {
		w.cost.WithLabelValues(agent).Add(bloom.Dollars(m.CostNano()))
	}
}

func (w *work) stored(a bloom.Artifact) {
	w.artifacts.Inc()
	w.bytes.Add(float64(a.Size))
}

// agent returns the label of an agent: its name, while there are few.
func (w *work) agent(slug string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.agents[slug] {
		if len(w.agents) >= maxAgents {
			return "other"
		}
		w.agents[slug] = true
	}
	return slug
}

// Request counts an answered request. The route is the pattern it matched, if any.
func (m *Metrics) Request(route string, status int, took time.Duration) {
	route = cmp.Or(route, "none")
	m.work.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.work.took.WithLabelValues(route).Observe(took.Seconds())
}

// Committed counts a transaction of the store.
func (m *Metrics) Committed(operations int, took time.Duration) {
	m.work.group.Observe(float64(operations))
	m.work.commit.Observe(took.Seconds())
}

// Refused counts a request that a limit refused.
func (m *Metrics) Refused(limit string) { m.work.refused.WithLabelValues(limit).Inc() }

// Observe returns a store that counts and traces what happens to tasks; t may be nil.
func (m *Metrics) Observe(s contract.Store, t *Tracing) contract.Store {
	return &observed{s, m.work, t}
}

type observed struct {
	contract.Store
	work    *work
	tracing *Tracing
}

func (o *observed) CreateTask(ctx context.Context, t contract.NewTask) (bloom.Task, bool, error) {
	began := time.Now()
	task, replayed, err := o.Store.CreateTask(ctx, t)
	if err == nil && !replayed {
		o.work.created.Inc()
		o.tracing.created(ctx, task, began)
	}
	return task, replayed, err
}

func (o *observed) StartScheduled(ctx context.Context, r contract.ScheduledStart) (*bloom.Task, error) {
	began := time.Now()
	task, err := o.Store.StartScheduled(ctx, r)
	if err == nil && task != nil {
		o.work.created.Inc()
		o.tracing.created(ctx, *task, began)
	}
	return task, err
}

func (o *observed) Cancel(ctx context.Context, id, actor string) (bloom.Task, error) {
	t, err := o.Store.Cancel(ctx, id, actor)
	if err == nil {
		o.work.cancelled.Inc()
	}
	return t, err
}

func (o *observed) Requeue(ctx context.Context, id, actor string) (bloom.Task, error) {
	t, err := o.Store.Requeue(ctx, id, actor)
	if err == nil {
		o.work.requeued.Inc()
	}
	return t, err
}

func (o *observed) AppendEvents(ctx context.Context, taskID, leaseID string, events []bloom.WorkerEvent) (int64, error) {
	last, err := o.Store.AppendEvents(ctx, taskID, leaseID, events)
	if err == nil {
		o.work.events.Add(float64(len(events)))
	}
	return last, err
}

func (o *observed) LeaseTask(ctx context.Context, r contract.LeaseRequest) (bloom.Lease, bloom.Worker, error) {
	l, w, err := o.Store.LeaseTask(ctx, r)
	if err == nil {
		o.work.leased.Inc()
	}
	return l, w, err
}

func (o *observed) Claim(ctx context.Context, r contract.ClaimRequest) (bloom.ClaimResult, error) {
	got, err := o.Store.Claim(ctx, r)
	for _, l := range got.Leases {
		o.work.granted(l.Task, l.Lease)
		o.tracing.leased(ctx, l.Task, l.Lease)
	}
	return got, err
}

func (o *observed) Complete(ctx context.Context, r contract.CompleteRequest) (bloom.Completed, error) {
	began := time.Now()
	c, err := o.Store.Complete(ctx, r)
	if err == nil && !c.Replayed {
		o.work.completed(c)
		o.tracing.completed(ctx, c, began)
	}
	return c, err
}

func (o *observed) AddArtifact(ctx context.Context, n contract.NewArtifact) (bloom.Artifact, bool, error) {
	a, replayed, err := o.Store.AddArtifact(ctx, n)
	if err == nil && !replayed {
		o.work.stored(a)
	}
	return a, replayed, err
}

func (o *observed) Release(ctx context.Context, taskID string, r bloom.ReleaseSpec, actor string) (bloom.Task, error) {
	t, err := o.Store.Release(ctx, taskID, r, actor)
	if err == nil {
		o.work.released.Inc()
	}
	return t, err
}

func (o *observed) Reap(ctx context.Context, limit int) (contract.Reaped, error) {
	r, err := o.Store.Reap(ctx, limit)
	if err == nil {
		o.work.reaped(r)
	}
	return r, err
}
