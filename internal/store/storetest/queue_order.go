package storetest

import (
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var orderTests = map[string]func(*harness){
	"a task waits for its run_at": func(h *harness) {
		h.worker("w", 1)
		at := h.now() + 10_000
		task := h.create(func(n *contract.NewTask) { n.Spec.RunAt = at })
		same(h, "early", h.take("w"), "")
		_, _, err := h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: task.ID})
		h.refused(err, conflict)
		h.advance(10 * time.Second)
		same(h, "due", h.take("w"), task.ID)
	},
	"a delayed task that is due can be leased by name": func(h *harness) {
		h.worker("w", 1)
		at := h.now() + 10_000
		task := h.create(func(n *contract.NewTask) { n.Spec.RunAt = at })
		h.advance(10 * time.Second)
		h.lease(task.ID, "")
	},
	"ordered tasks of a context wait for each other": func(h *harness) {
		h.worker("w", 9)
		first, second, third := h.create(ordered), h.create(ordered), h.create(ordered)
		free, elsewhere := h.create(), h.create(ordered, inContext("else"))
		if got, want := ids(h.claim("w", 9)), []string{first.ID, free.ID, elsewhere.ID}; !slices.Equal(got, want) {
			h.Fatalf("claimed %v, want %v", got, want)
		}
		_, _, err := h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: second.ID})
		h.refused(err, conflict)
		h.complete(success(first.ID, "", "x"))
		_, err = h.s.Cancel(h.ctx, second.ID, "me")
		h.ok(err)
		h.lease(third.ID, "w")
	},
	"a task's place in the queue is known": func(h *harness) {
		h.worker("w", 9)
		first, second, third := h.create(ordered), h.create(ordered), h.create(ordered)
		free := h.create()
		h.turn(first.ID, contract.QueuePlace{Gate: contract.GateOpen})
		h.turn(second.ID, contract.QueuePlace{Gate: contract.GateOrdered, Before: first.ID})
		h.turn(third.ID, contract.QueuePlace{Gate: contract.GateOrdered, Before: first.ID})
		h.turn(free.ID, contract.QueuePlace{Gate: contract.GateOpen})
		at := h.now() + 10_000
		h.turn(h.create(func(n *contract.NewTask) { n.Spec.RunAt = at }).ID, contract.QueuePlace{Gate: contract.GateDelayed})
		h.lease(first.ID, "w")
		h.turn(second.ID, contract.QueuePlace{Gate: contract.GateOrdered, Before: first.ID})
		h.turn(first.ID, contract.QueuePlace{})
		h.complete(success(first.ID, "", "x"))
		h.turn(third.ID, contract.QueuePlace{Gate: contract.GateOrdered, Before: second.ID})
		h.turn(h.create().ID, contract.QueuePlace{Gate: contract.GateOpen, Preferred: "w", Until: h.now() + contract.StickyGrace.Milliseconds()})
		_, err := h.s.QueuePlace(h.ctx, newID())
		h.refused(err, bloom.ErrTaskNotFound)
	},
	"a retried ordered task keeps its place": func(h *harness) {
		h.worker("w", 9)
		first, second := h.create(ordered), h.create(ordered)
		l := h.lease(first.ID, "w")
		h.complete(failure(first.ID, l.ID, "again", true))
		same(h, "while it waits", h.take("w"), "")
		h.advance(lifecycle.RetryDelay(1))
		same(h, "in order", h.take("w"), first.ID)
		h.complete(success(first.ID, "", "x"))
		same(h, "then", h.take("w"), second.ID)
	},
	"a requeued ordered task precedes later queued ones": func(h *harness) {
		h.worker("w", 9)
		first, second := h.create(ordered), h.create(ordered)
		h.complete(failure(first.ID, h.lease(first.ID, "w").ID, "no", false))
		_, err := h.s.Requeue(h.ctx, first.ID, "me")
		h.ok(err)
		if got := ids(h.claim("w", 9)); !slices.Equal(got, []string{first.ID}) {
			h.Errorf("claimed %v, want only %s", got, first.ID)
		}
		h.complete(success(first.ID, "", "x"))
		same(h, "then", h.take("w"), second.ID)
	},
	"an ordered task with a run_at opens at that time": func(h *harness) {
		h.worker("w", 9)
		at := h.now() + 10_000
		first := h.create(ordered)
		second := h.create(ordered, func(n *contract.NewTask) { n.Spec.RunAt = at })
		h.finish(first.ID, "w")
		same(h, "early", h.take("w"), "")
		h.advance(10 * time.Second)
		same(h, "due", h.take("w"), second.ID)
	},
}
