package storetest

import (
	"errors"
	"flag"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// modelChecks is the number of random histories in one part of an ordinary run;
// -rapid.checks=10000 -rapid.steps=50 is what the nightly run uses.
const modelChecks = "10"

// chooseChecks sets the number of an ordinary run unless a flag sets another. It runs once
// for parallel suites.
var chooseChecks = sync.OnceFunc(func() {
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "rapid.checks" })
	if !chosen {
		if err := flag.Set("rapid.checks", modelChecks); err != nil {
			panic(err) // the suite's own flag and number
		}
	}
})

// runModel drives a store and a model through the same random history. It compares every
// result and every task's state, and checks the invariants at the end.
func runModel(t *testing.T, open Open) {
	chooseChecks()
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{T: rt, h: newHarness(t, open), workers: map[string]*modelWorker{}}
		defer func() { _ = m.h.s.Close() }()
		m.register("w0", 2)
		rt.Repeat(map[string]func(*rapid.T){
			"":          m.compare,
			"create":    m.create,
			"lease":     m.lease,
			"claim":     m.claim,
			"heartbeat": m.heartbeat,
			"complete":  m.complete,
			"release":   m.release,
			"cancel":    m.cancel,
			"requeue":   m.requeue,
			"reap":      m.reap,
			"advance":   m.advance,
			"register":  m.registerAny,
			"remove":    m.remove,
			"drain":     m.drain,
			"extend":    m.extend,
			"old":       m.old,
			"events":    m.oldEvents,
			"audit":     m.oldAudit,
		})
		if err := CheckInvariants(m.h.ctx, m.h.s); err != nil {
			rt.Fatal(err)
		}
	})
}

// model is the reference implementation: plain maps and the rules of model_rules.go.
type model struct {
	*rapid.T
	h       *harness
	tasks   []*modelTask
	leases  []*modelLease
	workers map[string]*modelWorker
	gone    []string // removed tasks
}

type modelTask struct {
	id, context string
	ordered     bool
	priority    int
	labels      []string
	state       bloom.TaskState
	holder      *modelLease // nil unless it is leased or running
	last        *modelLease // the latest lease; nil before the first and after a manual requeue
	queuedAt    int64       // the latest time at which it became claimable
}

type modelLease struct {
	bloom.Lease
	task *modelTask
	done *contract.CompleteRequest
}

type modelWorker struct {
	slots    int
	labels   []string
	draining bool
	removed  bool
}

func (m *model) now() int64 { return m.h.now() }

func (m *model) held(worker string) (n int) {
	for _, l := range m.leases {
		if l.WorkerID == worker && l.Status == bloom.LeaseActive {
			n++
		}
	}
	return n
}

func (m *model) blocked(t *modelTask) bool {
	if !t.ordered {
		return false
	}
	for _, o := range m.tasks {
		if o == t {
			return false
		}
		if o.ordered && o.context == t.context && !o.state.Status.Terminal() {
			return true
		}
	}
	return false
}

func (m *model) carries(w *modelWorker, t *modelTask) bool {
	return (bloom.Capabilities{Labels: w.labels}).Carries(t.labels)
}

func (m *model) free(name string) int {
	w := m.workers[name]
	if w == nil || w.removed || w.draining {
		return 0
	}
	return max(0, w.slots-m.held(name))
}

// agree fails unless store and rule both accepted or both refused the operation.
func (m *model) agree(what string, got, want error) bool {
	if (got == nil) != (want == nil) || want != nil && !errors.Is(got, want) {
		m.Fatalf("%s: the store says %v, the model %v", what, got, want)
	}
	return want == nil
}

func (m *model) compare(*rapid.T) {
	for _, t := range m.tasks {
		got, err := m.h.s.Task(m.h.ctx, t.id)
		if err != nil {
			m.Fatal(err)
		}
		if d := cmp.Diff(t.state, got.TaskState); d != "" {
			m.Fatalf("task %s (-model +store):\n%s", t.id, d)
		}
	}
}

func (m *model) anyTask(t *rapid.T) *modelTask {
	if len(m.tasks) == 0 {
		t.Skip("no task")
	}
	return rapid.SampledFrom(m.tasks).Draw(t, "task")
}

// anyLease prefers recent leases: most old ones are lost.
func (m *model) anyLease(t *rapid.T) *modelLease {
	if len(m.leases) == 0 {
		t.Skip("no lease")
	}
	return rapid.SampledFrom(m.leases[max(0, len(m.leases)-8):]).Draw(t, "lease")
}

func (m *model) anyWorker(t *rapid.T) string {
	return rapid.SampledFrom([]string{"w0", "w1", "w2"}).Draw(t, "worker")
}

const modelTTL = 30
