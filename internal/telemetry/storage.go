package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob"
)

// done is the outcome of a success other than a deletion.
const done = "done"

// storage has the metrics of the artifact storage.
type storage struct {
	moved, transcripts *prometheus.CounterVec
	seconds            *prometheus.HistogramVec
}

func newStorage() *storage {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bloom_" + name, Help: help}, []string{"outcome"})
	}
	s := &storage{
		moved:       counter("artifacts_moved_total", "Moves of artifacts to the object storage, by outcome."),
		transcripts: counter("transcripts_written_total", "Tasks whose transcripts were written, by outcome."),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "bloom_artifact_storage_seconds", Help: "Duration of operations of the artifact storage; of get until the first byte.",
			Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60},
		}, []string{"operation", "outcome"}),
	}
	for _, outcome := range []string{done, failed} {
		s.moved.WithLabelValues(outcome)
		s.transcripts.WithLabelValues(outcome)
	}
	return s
}

func outcomeOf(err error) string {
	if err != nil {
		return failed
	}
	return done
}

// Moved counts the move of an artifact; nil is a success.
func (m *Metrics) Moved(err error) { m.storage.moved.WithLabelValues(outcomeOf(err)).Inc() }

// RunLogWritten counts a task whose run logs were written; nil is a success.
func (m *Metrics) RunLogWritten(err error) {
	m.storage.transcripts.WithLabelValues(outcomeOf(err)).Inc()
}

// Stored records an operation of the artifact storage. Missing content is not a failure.
func (m *Metrics) Stored(operation string, took time.Duration, err error) {
	if bloom.KindOf(err) == bloom.KindNotFound {
		err = nil
	}
	m.storage.seconds.WithLabelValues(operation, outcomeOf(err)).Observe(took.Seconds())
}

// DescribeStorage registers what is read of the artifact storage at each scrape: what it can do,
// and how many artifacts wait to be moved to it.
func (m *Metrics) DescribeStorage(state func() bloom.BlobState, waiting func(context.Context) (int64, error)) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("bloom_artifact_storage_"+name, help, labels, nil)
	}
	m.registry.MustRegister(&storageState{state: state, waiting: waiting,
		up:   desc("up", "Whether the artifact storage worked when it was last used or probed.", "kind"),
		can:  desc("ability", "Whether this operation worked when the artifact storage was probed.", "operation"),
		left: desc("waiting_artifacts", "Artifacts, and contexts with their transcripts and working folders, that are kept elsewhere until they can be moved to the object storage."),
	})
}

type storageState struct {
	state         func() bloom.BlobState
	waiting       func(context.Context) (int64, error)
	up, can, left *prometheus.Desc
}

func (s *storageState) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.up, s.can, s.left} {
		out <- d
	}
}

func (s *storageState) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	now := s.state()
	gauge(s.up, truth(now.Connected), now.Kind)
	for _, ability := range blob.Abilities {
		gauge(s.can, truth(now.CanDo(ability)), ability)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	if n, err := s.waiting(ctx); err == nil {
		gauge(s.left, float64(n))
	}
}
