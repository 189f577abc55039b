package storetest

import (
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func (m *model) lease(t *rapid.T) {
	task := m.anyTask(t)
	refused := m.grantable(task)
	fits := false
	for name, w := range m.workers {
		fits = fits || m.free(name) > 0 && m.carries(w, task)
	}
	if refused == nil && !fits {
		refused = bloom.ErrNoWorker
	}
	l, w, err := m.h.s.LeaseTask(m.h.ctx, contract.LeaseRequest{TaskID: task.id, TTLSec: modelTTL})
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
	res, err := m.h.s.Claim(m.h.ctx, contract.ClaimRequest{WorkerID: name, InstanceID: name + "-1", Max: most, TTLSec: modelTTL, Held: held, Renew: true})
	if !m.agree("claim", err, refused) {
		return
	}
	for _, l := range m.leases {
		if slices.Contains(held, l.ID) {
			if err := m.beat(l); err != nil {
				t.Fatal(err)
			}
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

// fair checks that every skipped task had a reason: a lower rank, or a worker of its
// context that it may still wait for.
func (m *model) fair(t *rapid.T, res bloom.ClaimResult, passed []*modelTask, short bool) {
	for _, o := range passed {
		if max(o.queuedAt, o.state.RunAt)+contract.StickyGrace.Milliseconds() > m.now() {
			continue
		}
		if m.delayedOpen(o) {
			continue
		}
		if short {
			t.Fatalf("task %s was skipped though there was room", o.id)
		}
		for _, l := range res.Leases {
			if l.Task.Priority < o.priority {
				t.Fatalf("task %s was skipped for %s of lower priority", o.id, l.Task.ID)
			}
		}
	}
}

// delayedOpen reports whether a task was delayed: the first claim after its run_at opens
// it, and only then its wait for a worker begins.
func (m *model) delayedOpen(o *modelTask) bool { return o.state.RunAt > o.queuedAt }

// granted applies a lease that the store granted.
func (m *model) granted(task *modelTask, l bloom.Lease) error {
	if err := m.grantable(task); err != nil {
		return err
	}
	ml := m.grant(task, l.ID, l.WorkerID)
	if d := cmp.Diff(ml.Lease, l); d != "" {
		return fmt.Errorf("another lease (-model +store):\n%s", d)
	}
	m.leases = append(m.leases, ml)
	return nil
}
