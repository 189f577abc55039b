package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// take claims one task and returns its ID, or "".
func (h *harness) take(worker string, held ...string) string {
	h.Helper()
	r := h.claim(worker, 1, held...)
	if len(r.Leases) == 0 {
		return ""
	}
	return r.Leases[0].Task.ID
}

func ids(r bloom.ClaimResult) (ids []string) {
	for _, l := range r.Leases {
		ids = append(ids, l.Task.ID)
	}
	return ids
}

// turn checks what decides a task's place in the queue.
func (h *harness) turn(id string, want contract.QueuePlace) {
	h.Helper()
	got, err := h.s.QueuePlace(h.ctx, id)
	h.ok(err)
	if want.Preferred != "" { // a database server's clock keeps running
		if got.Until < want.Until-contract.StickyGrace.Milliseconds() || got.Until > want.Until {
			h.Errorf("kept until %d, want about %d", got.Until, want.Until)
		}
		got.Until = want.Until
	}
	if got != want {
		h.Errorf("task %s: %+v, want %+v", id, got, want)
	}
}

var queueTests = map[string]func(*harness){
	"queued tasks are counted by actor": func(h *harness) {
		h.worker("w", 1)
		since := h.now()
		by := func(actor string, labels ...string) bloom.Task {
			return h.create(func(n *contract.NewTask) { n.Actor, n.Spec.Labels = actor, labels })
		}
		queued := func(actor string, most, want int64) {
			h.Helper()
			n, err := h.s.QueuedBy(h.ctx, actor, most)
			h.ok(err)
			same(h, "queued by "+actor, n, want)
		}
		first := by("ann")
		by("ann", "gpu")
		by("ann", "gpu")
		by("bob")
		queued("ann", 10, 3)
		queued("ann", 2, 2)
		queued("bob", 10, 1)
		queued("nobody", 10, 0)
		h.advance(time.Minute)
		by("bob", "gpu")
		h.create(func(n *contract.NewTask) { n.Spec.RunAt = h.now() + 60_000 }) // not in the open queue
		got, err := h.s.QueueDepths(h.ctx, 100, 100)
		h.ok(err)
		for i, d := range got { // a database server's clock keeps running
			if d.Since < since || d.Since > since+30_000 {
				h.Errorf("%v waits since %d, want %d", d.Labels, d.Since, since)
			}
			got[i].Since = since
		}
		want := []contract.QueueDepth{{Labels: []string{}, Tasks: 2, Since: since}, {Labels: []string{"gpu"}, Tasks: 3, Since: since}}
		if diff := cmp.Diff(want, got); diff != "" {
			h.Errorf("depths (-want +got):\n%s", diff)
		}
		got, err = h.s.QueueDepths(h.ctx, 1, 100)
		h.ok(err)
		same(h, "sets of labels, of which one is asked for", len(got), 1)
		same(h, "its depth", got[0].Tasks, int64(2))
		got, err = h.s.QueueDepths(h.ctx, 100, 1)
		h.ok(err)
		same(h, "sets of labels, each with one task", len(got), 2)
		same(h, "depth of the first", got[0].Tasks, int64(1))
		same(h, "depth of the second", got[1].Tasks, int64(1))
		_, err = h.s.Cancel(h.ctx, first.ID, "ann")
		h.ok(err)
		queued("ann", 10, 2)
	},
	"a full queue accepts only replays": func(h *harness) {
		full := func(key string) (bloom.Task, bool, error) {
			n := newTask()
			n.Full, n.IdempotencyScope, n.Spec.IdempotencyKey = true, "scope", key
			return h.s.CreateTask(h.ctx, n)
		}
		first := h.create(func(n *contract.NewTask) { n.IdempotencyScope, n.Spec.IdempotencyKey = "scope", "k" })
		again, replayed, err := full("k")
		h.ok(err)
		if !replayed || again.ID != first.ID {
			h.Errorf("the replay is %+v", again)
		}
		if _, _, err := full("other"); !errors.Is(err, bloom.ErrQueueFull) {
			h.Errorf("a full queue takes a task: %v", err)
		}
		st, err := h.s.Stats(h.ctx)
		h.ok(err)
		same(h, "tasks", st.Tasks.Total, int64(1))
	},
	"higher priority first, then older tasks": func(h *harness) {
		low, a, b, high := h.create(priority(-1)), h.create(), h.create(), h.create(priority(5))
		h.worker("w", 9)
		if got, want := ids(h.claim("w", 9)), []string{high.ID, a.ID, b.ID, low.ID}; !slices.Equal(got, want) {
			h.Errorf("claimed %v, want %v", got, want)
		}
	},
	"priorities hold across label sets": func(h *harness) {
		a, b, c := h.create(labelled("x"), priority(1)), h.create(priority(2)), h.create(labelled("y", "x"), priority(3))
		h.create(labelled("z"), priority(9))
		h.worker("w", 9, "x", "y")
		if got, want := ids(h.claim("w", 9)), []string{c.ID, b.ID, a.ID}; !slices.Equal(got, want) {
			h.Errorf("claimed %v, want %v", got, want)
		}
	},
	"a worker must have all labels": func(h *harness) {
		task := h.create(labelled("gpu", "eu"))
		h.worker("half", 1, "gpu")
		h.worker("whole", 1, "us", "eu", "gpu")
		same(h, "half", h.take("half"), "")
		same(h, "whole", h.take("whole"), task.ID)
	},
	"a context's next task waits briefly for its worker, then is open to all": func(h *harness) {
		h.worker("home", 1)
		h.worker("other", 1)
		h.finish(h.create().ID, "home")
		task := h.create()
		same(h, "the other, at once", h.take("other"), "")
		h.advance(contract.StickyGrace)
		same(h, "the other, later", h.take("other"), task.ID)
	},
	"a context's next task goes to its worker immediately": func(h *harness) {
		h.worker("home", 1)
		h.worker("other", 1)
		h.finish(h.create().ID, "home")
		task := h.create()
		same(h, "home", h.take("home"), task.ID)
	},
	"no task waits for a worker that lacks its labels": func(h *harness) {
		h.worker("home", 9)
		h.worker("other", 9, "gpu")
		h.finish(h.create().ID, "home")
		task := h.create(func(n *contract.NewTask) { n.Spec.Labels = []string{"gpu"} })
		same(h, "the other, at once", h.take("other"), task.ID)
	},
	"a context moves when its worker is full": moves(func(h *harness) {
		h.lease(h.create(inContext("filler")).ID, "home")
	}),
	"a context moves when its worker is offline": moves(func(h *harness) {
		h.advance(bloom.OfflineAfter + time.Second)
		h.claim("other", 0)
		_, err := h.s.MarkSilent(h.ctx, bloom.OfflineAfter)
		h.ok(err)
	}),
	"a context moves when its worker is drained": moves(func(h *harness) {
		_, err := h.s.DrainWorker(h.ctx, "home", true, "me")
		h.ok(err)
	}),
	"a context moves when its worker is removed": moves(func(h *harness) { h.ok(h.s.RemoveWorker(h.ctx, "home", "me")) }),
	"no more tasks wait for a worker than it has free slots": func(h *harness) {
		h.worker("home", 2)
		h.worker("other", 9)
		h.finish(h.create().ID, "home")
		var made []string
		for range 5 {
			made = append(made, h.create().ID)
		}
		if got := ids(h.claim("other", 9)); !slices.Equal(got, made[2:]) {
			h.Errorf("claimed %v of %v", got, made)
		}
	},
	"a worker finds its task behind any number of label sets": func(h *harness) {
		var all sync.WaitGroup
		for i := range 600 { // more than one claim reads
			all.Go(func() { h.create(labelled(fmt.Sprintf("label-%d", i))) })
		}
		all.Wait()
		few, many := h.create(labelled("few")), h.create(labelled("many", "other-3"))
		h.worker("few", 3, "few")
		same(h, "with few labels", h.take("few"), few.ID)
		labels := []string{"many"}
		for i := range 8 {
			labels = append(labels, fmt.Sprint("other-", i))
		}
		h.worker("many", 3, labels...)
		got := ""
		for range 100 {
			if got = h.take("many"); got != "" {
				break
			}
		}
		same(h, "with many labels", got, many.ID)
	},
}

// moves checks that a context's next task is reserved for the context's worker while that
// has free slots, and open to all workers after happens.
func moves(happens func(*harness)) func(*harness) {
	return func(h *harness) {
		h.worker("home", 1)
		h.worker("other", 9)
		h.finish(h.create().ID, "home")
		for range 3 {
			stays := h.create()
			same(h, "another one that asks first", h.take("other"), "")
			same(h, "the context's worker", h.take("home"), stays.ID)
			h.complete(success(stays.ID, deref(h.task(stays.ID).LeaseID), "done"))
		}
		happens(h)
		task := h.create()
		same(h, "another one then", h.take("other"), task.ID)
	}
}
