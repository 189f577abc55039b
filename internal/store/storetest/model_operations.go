package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func (m *model) create(t *rapid.T) {
	n := newTask(func(n *contract.NewTask) {
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

func (m *model) heartbeat(t *rapid.T) {
	l := m.anyLease(t)
	usage := l.Usage
	usage.TokensUsed = rapid.Int64Range(0, 100).Draw(t, "used")
	r, err := m.h.s.Heartbeat(m.h.ctx, l.TaskID, l.ID, &usage)
	if m.agree("heartbeat", err, m.beat(l)) {
		l.Usage = usage
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
	replay := l.done != nil && l.done.BodyHash == req.BodyHash
	var refused error
	switch {
	case l.done == nil:
		refused = m.finish(l, req.Completion)
	case !replay:
		refused = bloom.ErrOtherOutcome
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
}

func (m *model) release(t *rapid.T) {
	l := m.anyLease(t)
	spec := bloom.ReleaseSpec{LeaseID: l.ID, Reason: "reason"}
	if rapid.Bool().Draw(t, "later") {
		spec.NotBefore = m.now() + 5_000
	}
	_, err := m.h.s.Release(m.h.ctx, l.TaskID, spec, "w")
	m.agree("release", err, m.unlease(l, spec.NotBefore))
}

func (m *model) cancel(t *rapid.T) {
	task := m.anyTask(t)
	_, err := m.h.s.Cancel(m.h.ctx, task.id, "me")
	m.agree("cancel", err, m.withdraw(task))
}

func (m *model) requeue(t *rapid.T) {
	task := m.anyTask(t)
	_, err := m.h.s.Requeue(m.h.ctx, task.id, "me")
	m.agree("requeue", err, m.again(task))
}

func (m *model) reap(t *rapid.T) {
	want := contract.Reaped{}
	for _, l := range m.leases {
		if m.expire(l) {
			reaped(&want, l.task.state.Status)
		}
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
