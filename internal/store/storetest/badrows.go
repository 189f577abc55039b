package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Breaker is implemented by stores under test. It makes the database refuse every
// change of a task's row, as for a damaged row, until the row is repaired.
type Breaker interface {
	Break(t testing.TB, taskID string)
	Mend(t testing.TB, taskID string)
}

func (h *harness) breaker() Breaker {
	h.Helper()
	b, ok := h.s.(Breaker)
	if !ok {
		h.Fatal("the store under test cannot break a row")
	}
	return b
}

func (h *harness) breakRow(taskID string) {
	h.Helper()
	h.breaker().Break(h.T, taskID)
}

// A row that cannot be changed must not block any other.
var badRowTests = map[string]func(*harness){
	"a task that cannot be leased blocks no claim": func(h *harness) {
		h.worker("w", 9)
		bad := h.create(priority(9))
		good := []string{h.create().ID, h.create().ID}
		h.breakRow(bad.ID)
		var got []string
		for range 5 {
			r, err := h.s.Claim(h.ctx, contract.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Max: 9 - len(got), TTLSec: 60})
			h.ok(err)
			for _, id := range ids(r) {
				if !slices.Contains(got, id) {
					got = append(got, id)
				}
			}
			if len(got) == len(good) {
				break
			}
		}
		if !slices.Equal(got, good) {
			h.Errorf("claimed %v, want %v", got, good)
		}
	},
	"many tasks that cannot be leased hide no task behind them": func(h *harness) {
		h.worker("w", 9)
		for range 32 {
			h.breakRow(h.create(priority(9)).ID)
		}
		good := []string{h.create().ID, h.create().ID}
		same(h, "claimed", h.take("w"), good[0])
		same(h, "claimed then", h.take("w", deref(h.task(good[0]).LeaseID)), good[1])
	},
	"a lease that cannot be renewed blocks no other renewal": func(h *harness) {
		h.worker("w", 9)
		bad, good := h.lease(h.create().ID, "w"), h.lease(h.create().ID, "w")
		next := h.create()
		h.breakRow(bad.TaskID)
		r := h.claim("w", 1, bad.ID, good.ID)
		if len(r.Renewed) != 1 || r.Renewed[0].LeaseID != good.ID || len(r.Lost) != 0 {
			h.Errorf("claimed %+v", r)
		}
		if !slices.Equal(ids(r), []string{next.ID}) {
			h.Errorf("claimed %v, want %v", ids(r), next.ID)
		}
	},
	"a lease that could not be renewed expires on time": func(h *harness) {
		h.worker("w", 9)
		bad := h.lease(h.create().ID, "w")
		h.breakRow(bad.TaskID)
		h.claim("w", 0, bad.ID)
		h.breaker().Mend(h.T, bad.TaskID)
		h.advance(2 * time.Minute)
		h.reap(contract.Reaped{Requeued: 1})
	},
	"an interrupted claim harms no lease and no task": func(h *harness) {
		h.worker("w", 9)
		l := h.lease(h.create().ID, "w")
		open := h.create()
		left, leave := context.WithCancel(h.ctx)
		leave()
		late, done := context.WithDeadline(h.ctx, time.Unix(0, 0))
		defer done()
		for _, ctx := range []context.Context{left, late} {
			if _, err := h.s.Claim(ctx, contract.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Max: 1, TTLSec: 60, Held: []string{l.ID}, Renew: true}); err == nil {
				h.Fatal("claimed for a caller who had left")
			}
		}
		h.advance(30 * time.Second)
		r := h.claim("w", 1, l.ID)
		if !slices.Equal(r.Renewed, []bloom.Renewal{{LeaseID: l.ID, ExpiresAt: h.now() + 60_000}}) || !slices.Equal(ids(r), []string{open.ID}) {
			h.Errorf("claimed %+v", r)
		}
	},
	"a delayed task that cannot be opened blocks no other": func(h *harness) {
		h.worker("w", 9)
		soon := func(n *contract.NewTask) { n.Spec.RunAt = h.now() + 1000 }
		bad, good := h.create(soon), h.create(soon)
		h.breakRow(bad.ID)
		h.advance(2 * time.Second)
		same(h, "claimed", h.take("w"), good.ID)
		same(h, "claimed then", h.take("w", deref(h.task(good.ID).LeaseID)), "")
	},
	"a lease that cannot be expired blocks no other": func(h *harness) {
		h.worker("w", 9)
		bad, good := h.create(), h.create()
		h.lease(bad.ID, "w")
		h.lease(good.ID, "w")
		h.breakRow(bad.ID)
		h.advance(time.Hour)
		h.reap(contract.Reaped{Requeued: 1})
		h.status(good.ID, bloom.TaskQueued)
		h.status(bad.ID, bloom.TaskLeased)
		h.reap(contract.Reaped{})
	},
	"an ordered task that cannot be opened does not block its predecessor's completion": func(h *harness) {
		h.worker("w", 9)
		first, bad := h.create(ordered), h.create(ordered)
		h.breakRow(bad.ID)
		h.finish(first.ID, "w")
		h.status(first.ID, bloom.TaskCompleted)
		h.status(bad.ID, bloom.TaskQueued)
		h.breaker().Mend(h.T, bad.ID)
		same(h, "claimed before it was opened", h.take("w"), "")
		h.reap(contract.Reaped{})
		same(h, "claimed", h.take("w"), bad.ID)
	},
	"an ordered task that cannot be opened does not block its predecessor's cancellation": func(h *harness) {
		first, bad := h.create(ordered), h.create(ordered)
		h.breakRow(bad.ID)
		_, err := h.s.Cancel(h.ctx, first.ID, "me")
		h.ok(err)
		h.status(first.ID, bloom.TaskCancelled)
		h.status(bad.ID, bloom.TaskQueued)
		h.breaker().Mend(h.T, bad.ID)
		h.reap(contract.Reaped{})
	},
	"a task that cannot be removed blocks no other": func(h *harness) {
		h.worker("w", 9)
		bad, good := h.create(inContext("a")), h.create(inContext("b"))
		h.finish(bad.ID, "w")
		h.finish(good.ID, "w")
		h.breakRow(bad.ID)
		h.advance(time.Hour)
		did, err := h.s.RemoveTasks(h.ctx, contract.RemoveRequest{OlderThan: time.Minute})
		h.ok(err)
		same(h, "removed", did.Tasks, 1)
		_, err = h.s.Task(h.ctx, good.ID)
		h.refused(err, bloom.ErrTaskNotFound)
		h.status(bad.ID, bloom.TaskCompleted)
	},
}
