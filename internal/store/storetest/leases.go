package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func cancelled(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	cancel()
	return ctx, cancel
}

var leaseTests = map[string]func(*harness){
	"a lease binds a task to a worker": func(h *harness) {
		h.worker("w", 1)
		task := h.create()
		l, w, err := h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: task.ID, Actor: "me"})
		h.ok(err)
		same(h, "worker", w.ID, "w")
		same(h, "active", w.ActiveLeases, 1)
		same(h, "ttl", l.TTLSeconds, bloom.DefaultLeaseTTLSec)
		same(h, "expiry", l.ExpiresAt, h.now()+300_000)
		same(h, "epoch", l.Epoch, 1)
		same(h, "context", deref(l.ContextID), "context")
		got := h.status(task.ID, bloom.TaskLeased)
		if deref(got.LeaseID) != l.ID || deref(got.WorkerID) != "w" || got.Attempts != 1 {
			h.Errorf("the task says %+v", got.TaskState)
		}
		_, _, err = h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: task.ID})
		h.refused(err, conflict)
		if got, want := asError(err).Message, "Task status is 'leased', expected 'queued'"; got != want {
			h.Errorf("says %q", got)
		}
	},
	"no worker fits": func(h *harness) {
		task := h.create(labelled("gpu"))
		_, _, err := h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: task.ID})
		h.refused(err, bloom.ErrNoWorker)
		_, _, err = h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: task.ID, WorkerID: "nobody"})
		h.refused(err, bloom.ErrWorkerNotFound)
		h.worker("w", 1)
		_, _, err = h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: task.ID, WorkerID: "w"})
		h.refused(err, bloom.ErrNoWorker)
		h.worker("g", 1, "gpu")
		h.lease(task.ID, "")
		other := h.create(labelled("gpu"))
		_, _, err = h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: other.ID, WorkerID: "g"})
		h.refused(err, bloom.ErrNoWorker) // full
	},
	"workers that are paused are not chosen, however many": func(h *harness) {
		for i := range 20 {
			_, _, err := h.s.RegisterWorker(h.ctx, bloom.WorkerSpec{
				Name: fmt.Sprint("paused-", i), Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 4}, Pause: &bloom.Pause{Class: bloom.ClassRateLimited},
			}, "test")
			h.ok(err)
		}
		h.worker("w", 1)
		same(h, "worker", h.lease(h.create().ID, "").WorkerID, "w")
	},
	"hundreds of workers": func(h *harness) {
		const many = 300
		for i := range many {
			h.worker(fmt.Sprint("small-", i), 1)
		}
		h.worker("large", 2)
		held := map[string]int{}
		var last bloom.Lease
		for i := range many + 2 {
			last = h.lease(h.create(inContext(fmt.Sprint(i))).ID, "")
			if held[last.WorkerID]++; i == 0 {
				same(h, "of most room", last.WorkerID, "large")
			}
		}
		for name, n := range held {
			if n > 1 && name != "large" {
				h.Errorf("%s got %d tasks", name, n)
			}
		}
		task := h.create(inContext("another"))
		_, _, err := h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: task.ID})
		h.refused(err, bloom.ErrNoWorker)
		h.complete(success(last.TaskID, last.ID, "done"))
		h.advance(time.Second) // a replica learns so late what another one has written
		same(h, "who has room again", h.lease(task.ID, "").WorkerID, last.WorkerID)
		h.worker("late", 9)
		h.advance(time.Second)
		same(h, "who has just registered", h.lease(h.create(inContext("late")).ID, "").WorkerID, "late")
		h.worker("later", 1)
		h.advance(time.Second)
		same(h, "of more room", h.lease(h.create(inContext("later")).ID, "").WorkerID, "late")
		_, err = h.s.DrainWorker(h.ctx, "late", true, "test")
		h.ok(err)
		same(h, "who is not drained", h.lease(h.create(inContext("latest")).ID, "").WorkerID, "later")
	},
	"the context's worker is preferred to one with more free slots": func(h *harness) {
		h.worker("big", 9)
		h.worker("small", 3)
		h.lease(h.create().ID, "small")
		same(h, "of the same context", h.lease(h.create().ID, "").WorkerID, "small")
		same(h, "of another", h.lease(h.create(inContext("x")).ID, "").WorkerID, "big")
	},
	"a leased context moves from its worker only if that is offline, full or drained": func(h *harness) {
		h.worker("big", 9)
		h.worker("home", 2)
		h.finish(h.create(inContext("talk")).ID, "home")
		next := func(why, want string) {
			h.Helper()
			l := h.lease(h.create(inContext("talk")).ID, "")
			same(h, "where the context is: "+why, l.WorkerID, want)
			h.complete(success(l.TaskID, l.ID, "done"))
		}
		drain := func(name string, drain bool) {
			h.Helper()
			_, err := h.s.DrainWorker(h.ctx, name, drain, "me")
			h.ok(err)
		}
		for range 3 {
			next("nothing has happened", "home")
		}
		var fillers []bloom.Lease
		for _, id := range []string{"x", "y"} {
			fillers = append(fillers, h.lease(h.create(inContext(id)).ID, "home"))
		}
		next("its worker is full", "big")
		for _, l := range fillers {
			h.complete(success(l.TaskID, l.ID, "done"))
		}
		next("the one before has room again", "big")
		drain("big", true)
		next("its worker is drained", "home")
		drain("big", false)
		next("the one before is undrained", "home")
		h.advance(bloom.OfflineAfter + time.Second)
		h.claim("big", 0)
		_, err := h.s.MarkSilent(h.ctx, bloom.OfflineAfter)
		h.ok(err)
		next("its worker is offline", "big")
	},
	"the first heartbeat starts the task, later ones only renew": func(h *harness) {
		h.worker("w", 1)
		task := h.create()
		l := h.lease(task.ID, "w")
		h.advance(10 * time.Second)
		r := h.heartbeat(l)
		same(h, "expiry", r.ExpiresAt, h.now()+60_000)
		same(h, "lease's expiry", r.Lease.ExpiresAt, r.ExpiresAt)
		h.status(task.ID, bloom.TaskRunning)
		h.advance(10 * time.Second)
		r, err := h.s.Heartbeat(h.ctx, task.ID, "", nil)
		h.ok(err)
		same(h, "expiry", r.ExpiresAt, h.now()+60_000)
		want := []string{audit.ActionTaskCreated, audit.ActionTaskLeased, audit.ActionTaskStarted}
		if got := h.actions(task.ID); !slices.Equal(got, want) {
			h.Errorf("audited %v", got)
		}
	},
	"a heartbeat without an active lease": func(h *harness) {
		task := h.create()
		_, err := h.s.Heartbeat(h.ctx, task.ID, "", nil)
		h.refused(err, bloom.ErrLeaseNotFound)
		_, err = h.s.Heartbeat(h.ctx, task.ID, newID(), nil)
		h.refused(err, bloom.ErrLeaseLost)
	},
	"a heartbeat that is late but before the reaper renews the lease": func(h *harness) {
		h.worker("w", 1)
		l := h.lease(h.create().ID, "w")
		h.advance(2 * time.Hour)
		h.heartbeat(l)
		h.reap(contract.Reaped{})
	},
	"the reaper requeues, ends and cancels tasks": func(h *harness) {
		h.worker("w", 9)
		again, last, off, fresh := h.create(), h.create(attempts(1)), h.create(), h.create()
		for _, task := range []bloom.Task{again, last, off} {
			h.lease(task.ID, "w")
		}
		_, err := h.s.Cancel(h.ctx, off.ID, "me")
		h.ok(err)
		h.reap(contract.Reaped{})
		h.advance(60 * time.Second)
		l := h.lease(fresh.ID, "w")
		h.reap(contract.Reaped{Requeued: 1, Dead: 1, Cancelled: 1})
		same(h, "class", deref(h.status(again.ID, bloom.TaskQueued).ErrorClass), bloom.ClassWorkerLost)
		h.status(last.ID, bloom.TaskDead)
		h.status(off.ID, bloom.TaskCancelled)
		h.heartbeat(l)
		h.reap(contract.Reaped{})
	},
	"the reaper stops at its limit and continues": func(h *harness) {
		h.worker("w", 9)
		for range 5 {
			h.lease(h.create().ID, "w")
		}
		h.advance(time.Hour)
		for _, want := range []int{2, 2, 1, 0} {
			did, err := h.s.Reap(h.ctx, 2)
			h.ok(err)
			same(h, "reaped", did.Total(), want)
		}
	},
	"grace shortens deadlines from a clock that was ahead": func(h *harness) {
		h.worker("w", 1)
		l := h.lease(h.create().ID, "w")
		h.advance(-24 * time.Hour)
		n, err := h.s.ExtendLeases(h.ctx)
		h.ok(err)
		same(h, "changed", n, 1)
		_, leases, err := h.s.Worker(h.ctx, "w")
		h.ok(err)
		if len(leases) != 1 || leases[0].ID != l.ID || leases[0].ExpiresAt != h.now()+60_000 {
			h.Errorf("leases %+v at %d", leases, h.now())
		}
	},
	"grace extends every active lease to its TTL, and shortens none": func(h *harness) {
		h.worker("w", 9)
		old := h.lease(h.create().ID, "w")
		h.advance(time.Hour)
		young, _, err := h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: h.create().ID, TTLSec: 10})
		h.ok(err)
		n, err := h.s.ExtendLeases(h.ctx)
		h.ok(err)
		same(h, "extended", n, 1)
		h.reap(contract.Reaped{})
		_, leases, err := h.s.Worker(h.ctx, "w")
		h.ok(err)
		for _, l := range leases {
			want := map[string]int64{old.ID: h.now() + 60_000, young.ID: h.now() + 10_000}[l.ID]
			same(h, "expiry", l.ExpiresAt, want)
		}
	},
	"a lost lease changes nothing": func(h *harness) {
		h.worker("w", 9)
		h.worker("v", 9)
		task := h.create()
		old := h.lease(task.ID, "w")
		h.advance(61 * time.Second)
		h.reap(contract.Reaped{Requeued: 1})
		now := h.lease(task.ID, "v")
		before, trail := h.task(task.ID), h.actions(task.ID)
		_, err := h.s.Heartbeat(h.ctx, task.ID, old.ID, nil)
		h.refused(err, bloom.ErrLeaseLost)
		_, err = h.s.AppendEvents(h.ctx, task.ID, old.ID, []bloom.WorkerEvent{{Seq: 1, Type: "text", Data: []byte(`1`)}})
		h.refused(err, bloom.ErrLeaseLost)
		_, err = h.s.Complete(h.ctx, success(task.ID, old.ID, "stale"))
		h.refused(err, bloom.ErrLeaseLost)
		_, err = h.s.Complete(h.ctx, failure(task.ID, old.ID, "stale", true))
		h.refused(err, bloom.ErrLeaseLost)
		_, err = h.s.Release(h.ctx, task.ID, bloom.ReleaseSpec{LeaseID: old.ID}, "w")
		h.refused(err, bloom.ErrLeaseLost)
		if after := h.task(task.ID); after.UpdatedAt != before.UpdatedAt || deref(after.LeaseID) != now.ID || !slices.Equal(h.actions(task.ID), trail) {
			h.Errorf("a stale write changed %+v to %+v", before.TaskState, after.TaskState)
		}
		other := h.create()
		_, err = h.s.Heartbeat(h.ctx, other.ID, now.ID, nil) // a lease of another task
		h.refused(err, bloom.ErrLeaseLost)
	},
	"a release refunds the attempt, delays the task, and may be repeated": func(h *harness) {
		h.worker("w", 1)
		task := h.create(attempts(1))
		l := h.lease(task.ID, "w")
		r := bloom.ReleaseSpec{LeaseID: l.ID, Reason: "rate limit", NotBefore: h.now() + 5_000}
		got, err := h.s.Release(h.ctx, task.ID, r, "w")
		h.ok(err)
		if got.Status != bloom.TaskQueued || got.Attempts != 0 || got.RunAt != r.NotBefore || got.LeaseID != nil {
			h.Errorf("released: %+v", got.TaskState)
		}
		_, err = h.s.Release(h.ctx, task.ID, r, "w")
		h.ok(err)
		same(h, "given before its time", len(h.claim("w", 1).Leases), 0)
		h.advance(5 * time.Second)
		same(h, "given in its time", len(h.claim("w", 1).Leases), 1)
		_, err = h.s.Release(h.ctx, task.ID, r, "w")
		h.refused(err, bloom.ErrLeaseLost)
	},
}
