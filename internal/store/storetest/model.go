package storetest

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
)

// modelChecks is how many random histories the ordinary run tries;
// -rapid.checks=10000 -rapid.steps=50 is the nightly dose.
const modelChecks = "10"

// chooseChecks sets the ordinary number unless another was chosen: once, for suites
// that run side by side.
var chooseChecks = sync.OnceFunc(func() {
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "rapid.checks" })
	if !chosen {
		if err := flag.Set("rapid.checks", modelChecks); err != nil {
			panic(err) // the suite's own flag and number
		}
	}
})

// runModel drives a store and a model of it through the same random history
// and compares every answer, every task's state, and at the end the invariants.
func runModel(t *testing.T, open Open) {
	chooseChecks()
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{T: rt, h: newHarness(t, open), workers: map[string]*modelWorker{}}
		defer func() { _ = m.h.s.Close() }()
		m.register("w0", 2)
		rt.Repeat(map[string]func(*rapid.T){
			"":         m.compare,
			"create":   m.create,
			"lease":    m.lease,
			"claim":    m.claim,
			"beat":     m.beat,
			"complete": m.complete,
			"release":  m.release,
			"cancel":   m.cancel,
			"requeue":  m.requeue,
			"reap":     m.reap,
			"advance":  m.advance,
			"register": m.registerAny,
			"remove":   m.remove,
			"drain":    m.drain,
			"extend":   m.extend,
			"old":      m.old,
			"events":   m.oldEvents,
			"audit":    m.oldAudit,
		})
		if err := CheckInvariants(m.h.ctx, m.h.s); err != nil {
			rt.Fatal(err)
		}
	})
}

// model is the reference: plain maps and the rules of internal/lifecycle.
type model struct {
	*rapid.T
	h       *harness
	tasks   []*modelTask
	leases  []*modelLease
	workers map[string]*modelWorker
	gone    []string // tasks that were removed
}

type modelTask struct {
	id, context string
	ordered     bool
	priority    int
	labels      []string
	state       bloom.TaskState
	queuedAt    int64 // when it last became ready for anyone, at the latest
}

type modelLease struct {
	bloom.Lease
	task *modelTask
	done *bloom.CompleteRequest
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

// agree fails unless store and rule both took or both refused the operation.
func (m *model) agree(what string, got, want error) bool {
	if (got == nil) != (want == nil) || want != nil && !errors.Is(got, want) {
		m.Fatalf("%s: the store says %v, the model %v", what, got, want)
	}
	return want == nil
}

func (m *model) apply(t *modelTask, l *modelLease, tr lifecycle.Transition) {
	if tr.Noop {
		return
	}
	terminal := tr.Task.Status.Terminal() && !t.state.Status.Terminal()
	t.state = tr.Task
	if l != nil {
		l.Lease = tr.Lease
	}
	t.queuedAt = m.now()
	if terminal {
		for _, o := range m.tasks { // the next one of the context opens now
			if o.ordered && o.context == t.context {
				o.queuedAt = m.now()
			}
		}
	}
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

func (m *model) create(t *rapid.T) {
	n := newTask(func(n *bloom.NewTask) {
		n.Spec.ContextID = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "context")
		n.Spec.Policy.Ordered = rapid.Bool().Draw(t, "ordered")
		n.Spec.Priority = rapid.IntRange(-1, 1).Draw(t, "priority")
		n.Spec.MaxAttempts = rapid.IntRange(1, 3).Draw(t, "attempts")
		n.Spec.Labels = rapid.SampledFrom([][]string{nil, {"x"}, {"x", "y"}}).Draw(t, "labels")
		if rapid.IntRange(0, 3).Draw(t, "delayed") == 0 {
			n.Spec.RunAt = m.now() + 10_000
		}
	})
	if _, _, err := m.h.s.CreateTask(m.h.ctx, n); err != nil {
		t.Fatal(err)
	}
	runAt := n.Spec.RunAt
	if runAt == 0 {
		runAt = m.now()
	}
	m.tasks = append(m.tasks, &modelTask{
		id: n.ID, context: n.Spec.ContextID, ordered: n.Spec.Policy.Ordered, priority: n.Spec.Priority, labels: n.Spec.Labels, queuedAt: m.now(),
		state: bloom.TaskState{Status: bloom.TaskQueued, UpdatedAt: m.now(), MaxAttempts: n.Spec.MaxAttempts, RunAt: runAt},
	})
}

func (m *model) anyTask(t *rapid.T) *modelTask {
	if len(m.tasks) == 0 {
		t.Skip("no task")
	}
	return rapid.SampledFrom(m.tasks).Draw(t, "task")
}

// anyLease prefers the recent ones: most of the old are simply lost.
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

// granted follows a lease that the store made.
func (m *model) granted(task *modelTask, l bloom.Lease) error {
	tr, err := lifecycle.GrantLease(task.state, task.id, task.context, l.ID, l.WorkerID, modelTTL, m.blocked(task), m.now())
	if err != nil {
		return err
	}
	if d := cmp.Diff(tr.Lease, l); d != "" {
		return fmt.Errorf("another lease (-model +store):\n%s", d)
	}
	ml := &modelLease{task: task}
	m.apply(task, ml, tr)
	m.leases = append(m.leases, ml)
	return nil
}

func (m *model) lease(t *rapid.T) {
	task := m.anyTask(t)
	_, refused := lifecycle.GrantLease(task.state, task.id, task.context, "", "", modelTTL, m.blocked(task), m.now())
	fits := false
	for name, w := range m.workers {
		fits = fits || m.free(name) > 0 && m.carries(w, task)
	}
	if refused == nil && !fits {
		refused = bloom.ErrNoWorker
	}
	l, w, err := m.h.s.LeaseTask(m.h.ctx, bloom.LeaseRequest{TaskID: task.id, TTLSec: modelTTL})
	if !m.agree("lease", err, refused) {
		return
	}
	if m.free(l.WorkerID) == 0 || w.ID != l.WorkerID || !m.carries(m.workers[l.WorkerID], task) {
		t.Fatalf("leased to %s, which cannot take it", l.WorkerID)
	}
	if err := m.granted(task, l); err != nil {
		t.Fatal(err)
	}
}

func (m *model) claim(t *rapid.T) {
	name, most := m.anyWorker(t), rapid.IntRange(0, 3).Draw(t, "max")
	var held []string
	for _, l := range m.leases {
		if l.WorkerID == name && l.Status == bloom.LeaseActive {
			held = append(held, l.ID)
		}
	}
	var refused error
	w := m.workers[name]
	if w == nil || w.removed {
		refused = bloom.ErrWorkerNotFound
	}
	want := min(most, m.free(name))
	res, err := m.h.s.Claim(m.h.ctx, bloom.ClaimRequest{WorkerID: name, InstanceID: name + "-1", Max: most, TTLSec: modelTTL, Held: held, Renew: true})
	if !m.agree("claim", err, refused) {
		return
	}
	for _, l := range m.leases {
		if slices.Contains(held, l.ID) {
			tr, err := lifecycle.Heartbeat(l.task.state, l.Lease, m.now())
			if err != nil {
				t.Fatal(err)
			}
			m.apply(l.task, l, tr)
		}
	}
	if len(res.Leases) > want || len(res.Lost) > 0 || len(res.Renewed) != len(held) {
		t.Fatalf("claimed %+v with room for %d", res, want)
	}
	open := m.claimable(w)
	for _, l := range res.Leases {
		i := slices.IndexFunc(open, func(o *modelTask) bool { return o.id == l.Task.ID })
		if i < 0 {
			t.Fatalf("claimed task %s, which nobody may", l.Task.ID)
		}
		if err := m.granted(open[i], l.Lease); err != nil {
			t.Fatal(err)
		}
		open = slices.Delete(open, i, i+1)
	}
	m.fair(t, res, open, len(res.Leases) < want)
}

func (m *model) claimable(w *modelWorker) (open []*modelTask) {
	for _, o := range m.tasks {
		if o.state.Status == bloom.TaskQueued && o.state.RunAt <= m.now() && !m.blocked(o) && m.carries(w, o) {
			open = append(open, o)
		}
	}
	return open
}

// fair checks that what was passed over had a reason: a lower place, or a
// worker of its context for which it may still wait.
func (m *model) fair(t *rapid.T, res bloom.ClaimResult, passed []*modelTask, short bool) {
	for _, o := range passed {
		if max(o.queuedAt, o.state.RunAt)+bloom.StickyGrace.Milliseconds() > m.now() {
			continue
		}
		if m.delayedOpen(o) {
			continue
		}
		if short {
			t.Fatalf("task %s was passed over though there was room", o.id)
		}
		for _, l := range res.Leases {
			if l.Task.Priority < o.priority {
				t.Fatalf("task %s was passed over for %s of lower priority", o.id, l.Task.ID)
			}
		}
	}
}

// delayedOpen reports that a task was delayed: its gate opens at the first
// claim after its time, and only then its wait for a worker begins.
func (m *model) delayedOpen(o *modelTask) bool { return o.state.RunAt > o.queuedAt }

func (m *model) beat(t *rapid.T) {
	l := m.anyLease(t)
	tr, refused := lifecycle.Heartbeat(l.task.state, l.Lease, m.now())
	r, err := m.h.s.Heartbeat(m.h.ctx, l.TaskID, l.ID)
	if m.agree("heartbeat", err, refused) {
		m.apply(l.task, l, tr)
		if d := cmp.Diff(l.Lease, r.Lease); d != "" {
			t.Fatalf("lease (-model +store):\n%s", d)
		}
	}
}

func (m *model) complete(t *rapid.T) {
	l := m.anyLease(t)
	req := success(l.TaskID, l.ID, "done")
	switch rapid.IntRange(0, 2).Draw(t, "outcome") {
	case 1:
		req = failure(l.TaskID, l.ID, "broken", false)
	case 2:
		req = failure(l.TaskID, l.ID, "shaken", true)
	}
	tr, refused := lifecycle.Finish(l.task.state, l.Lease, req.Completion, m.now())
	replay := l.done != nil && l.done.BodyHash == req.BodyHash
	if l.done != nil {
		refused = bloom.ErrOtherOutcome
	}
	if replay {
		refused = nil
	}
	c, err := m.h.s.Complete(m.h.ctx, req)
	if !m.agree("complete", err, refused) {
		return
	}
	if c.Replayed != replay {
		t.Fatalf("replayed is %v", c.Replayed)
	}
	if replay {
		if c.Result.ID != l.done.ResultID || c.Artifact.ID != l.done.ArtifactID {
			t.Fatal("a replay has other records")
		}
		return
	}
	l.done = &req
	m.apply(l.task, l, tr)
}

func (m *model) release(t *rapid.T) {
	l := m.anyLease(t)
	spec := bloom.ReleaseSpec{LeaseID: l.ID, Reason: "reason"}
	if rapid.Bool().Draw(t, "later") {
		spec.NotBefore = m.now() + 5_000
	}
	tr, refused := lifecycle.Release(l.task.state, l.Lease, spec.Reason, spec.NotBefore, m.now())
	if l.done != nil && refused == nil && tr.Noop {
		refused = nil // a retried completion released it too
	}
	_, err := m.h.s.Release(m.h.ctx, l.TaskID, spec, "w")
	if m.agree("release", err, refused) {
		m.apply(l.task, l, tr)
	}
}

func (m *model) cancel(t *rapid.T) {
	task := m.anyTask(t)
	tr, refused := lifecycle.Cancel(task.state, m.now())
	_, err := m.h.s.Cancel(m.h.ctx, task.id, "me")
	if m.agree("cancel", err, refused) {
		m.apply(task, nil, tr)
	}
}

func (m *model) requeue(t *rapid.T) {
	task := m.anyTask(t)
	tr, refused := lifecycle.Requeue(task.state, m.now())
	_, err := m.h.s.Requeue(m.h.ctx, task.id, "me")
	if m.agree("requeue", err, refused) {
		m.apply(task, nil, tr)
	}
}

func (m *model) reap(t *rapid.T) {
	want := bloom.Reaped{}
	for _, l := range m.leases {
		tr := lifecycle.Expire(l.task.state, l.Lease, m.now())
		if tr.Noop {
			continue
		}
		switch tr.Task.Status {
		case bloom.TaskDead:
			want.Dead++
		case bloom.TaskCancelled:
			want.Cancelled++
		default:
			want.Requeued++
		}
		m.apply(l.task, l, tr)
	}
	got, err := m.h.s.Reap(m.h.ctx, 1000)
	if err != nil || got != want {
		t.Fatalf("reaped %+v, want %+v: %v", got, want, err)
	}
}

func (m *model) extend(t *rapid.T) {
	want := 0
	for _, l := range m.leases {
		if until := m.now() + int64(l.TTLSeconds)*1000; l.Status == bloom.LeaseActive && l.ExpiresAt < until {
			l.ExpiresAt = until
			want++
		}
	}
	got, err := m.h.s.ExtendLeases(m.h.ctx)
	if err != nil || got != want {
		t.Fatalf("extended %d, want %d: %v", got, want, err)
	}
}

func (m *model) advance(t *rapid.T) {
	m.h.advance(time.Duration(rapid.SampledFrom([]int{1, 1000, 2000, 5000, 31_000}).Draw(t, "ms")) * time.Millisecond)
}

func (m *model) register(name string, slots int, labels ...string) {
	_, created, err := m.h.s.RegisterWorker(m.h.ctx, bloom.WorkerSpec{
		Name: name, InstanceID: name + "-1", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: slots, Labels: labels},
	}, "me")
	w := m.workers[name]
	if err != nil || created != (w == nil || w.removed) {
		m.Fatalf("register: created is %v, %v", created, err)
	}
	draining := w != nil && !w.removed && w.draining
	m.workers[name] = &modelWorker{slots: slots, labels: labels, draining: draining}
}

func (m *model) registerAny(t *rapid.T) {
	m.register(m.anyWorker(t), rapid.IntRange(1, 3).Draw(t, "slots"), rapid.SampledFrom([][]string{nil, {"x"}, {"y", "x"}}).Draw(t, "carries")...)
}

func (m *model) remove(t *rapid.T) {
	name := m.anyWorker(t)
	var refused error
	if w := m.workers[name]; w == nil || w.removed {
		refused = bloom.ErrWorkerNotFound
	}
	if !m.agree("remove", m.h.s.RemoveWorker(m.h.ctx, name, "me"), refused) {
		return
	}
	m.workers[name].removed = true
	for _, l := range m.leases {
		if l.WorkerID == name && l.Status == bloom.LeaseActive {
			tr, err := lifecycle.Release(l.task.state, l.Lease, "", 0, m.now())
			if err != nil {
				t.Fatal(err)
			}
			m.apply(l.task, l, tr)
		}
	}
}

func (m *model) drain(t *rapid.T) {
	name, drain := m.anyWorker(t), rapid.Bool().Draw(t, "drain")
	var refused error
	w := m.workers[name]
	if w == nil || w.removed {
		refused = bloom.ErrWorkerNotFound
	}
	_, err := m.h.s.DrainWorker(m.h.ctx, name, drain, "me")
	if m.agree("drain", err, refused) {
		w.draining = drain
	}
}
