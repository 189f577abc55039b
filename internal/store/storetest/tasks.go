package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var taskTests = map[string]func(*harness){
	"a created task has the requested fields": func(h *harness) {
		n := newTask(func(n *contract.NewTask) {
			n.Spec = bloom.TaskSpec{
				ContextID: "c", AgentSlug: "a", Prompt: "p", ContextHints: []string{"x", "y/*.go"}, DesiredFormat: bloom.FormatJSON, MaxAttempts: 7,
				Policy: bloom.Policy{TimeoutSec: 9, Budget: 11, Ordered: true}, Priority: -3, Labels: []string{"gpu", "eu"}, IdempotencyKey: "k",
			}
			n.IdempotencyScope = "s"
		})
		got, _, err := h.s.CreateTask(h.ctx, n)
		h.ok(err)
		want := bloom.Task{
			ID: n.ID, ContextID: "c", AgentSlug: "a", Prompt: "p", ContextHints: []string{"x", "y/*.go"}, DesiredFormat: bloom.FormatJSON,
			Policy: n.Spec.Policy, CreatedAt: h.now(), Priority: -3, Labels: []string{"gpu", "eu"}, IdempotencyKey: &n.Spec.IdempotencyKey,
			TaskState: bloom.TaskState{Status: bloom.TaskQueued, UpdatedAt: h.now(), MaxAttempts: 7, RunAt: h.now()},
		}
		for what, got := range map[string]bloom.Task{"answered": got, "stored": h.task(n.ID)} {
			if d := cmp.Diff(want, got); d != "" {
				h.Errorf("%s (-want +got):\n%s", what, d)
			}
		}
		if got := h.actions(n.ID); !slices.Equal(got, []string{audit.ActionTaskCreated}) {
			h.Errorf("audited %v", got)
		}
		if got := h.eventTypes(n.ID); !slices.Equal(got, []string{bloom.EventCreated}) {
			h.Errorf("the stream has %v", got)
		}
	},
	"missing objects are not found": func(h *harness) {
		_, err := h.s.Task(h.ctx, newID())
		h.refused(err, bloom.ErrTaskNotFound)
		_, err = h.s.Cancel(h.ctx, newID(), "x")
		h.refused(err, bloom.ErrTaskNotFound)
		_, err = h.s.Requeue(h.ctx, newID(), "x")
		h.refused(err, bloom.ErrTaskNotFound)
		_, err = h.s.Events(h.ctx, newID(), 0, 0)
		h.refused(err, bloom.ErrTaskNotFound)
		_, err = h.s.Results(h.ctx, newID())
		h.refused(err, bloom.ErrTaskNotFound)
		_, err = h.s.Heartbeat(h.ctx, newID(), "", nil)
		h.refused(err, bloom.ErrTaskNotFound)
		_, err = h.s.Artifact(h.ctx, newID())
		h.refused(err, bloom.NotFound("Artifact"))
		_, _, err = h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: newID()})
		h.refused(err, bloom.ErrTaskNotFound)
		_, err = h.s.Complete(h.ctx, success(newID(), "", "x"))
		h.refused(err, bloom.ErrTaskNotFound)
		_, err = h.s.Release(h.ctx, newID(), bloom.ReleaseSpec{LeaseID: newID()}, "x")
		h.refused(err, bloom.ErrTaskNotFound)
	},
	"the same ID again returns the task in its current state": func(h *harness) {
		h.worker("w", 1)
		n := newTask()
		_, _, err := h.s.CreateTask(h.ctx, n)
		h.ok(err)
		h.lease(n.ID, "w")
		again, replayed, err := h.s.CreateTask(h.ctx, n)
		h.ok(err)
		same(h, "replayed", replayed, true)
		same(h, "status", again.Status, bloom.TaskLeased)
	},
	"an idempotency key makes one task per scope and body": func(h *harness) {
		keyed := func(scope, hash string) contract.NewTask {
			return newTask(func(n *contract.NewTask) { n.Spec.IdempotencyKey, n.IdempotencyScope, n.BodyHash = "key", scope, hash })
		}
		first, _, err := h.s.CreateTask(h.ctx, keyed("a", "1"))
		h.ok(err)
		again, replayed, err := h.s.CreateTask(h.ctx, keyed("a", "1"))
		h.ok(err)
		same(h, "replayed", replayed, true)
		same(h, "the task", again.ID, first.ID)
		_, _, err = h.s.CreateTask(h.ctx, keyed("a", "2"))
		h.refused(err, bloom.ErrIdempotency)
		other, replayed, err := h.s.CreateTask(h.ctx, keyed("b", "2"))
		h.ok(err)
		if replayed || other.ID == first.ID {
			h.Error("another scope's key met the first task")
		}
	},
	"cancel ends a queued task immediately and requests the cancel of a leased one": func(h *harness) {
		h.worker("w", 2)
		waiting, held := h.create(), h.create()
		task, err := h.s.Cancel(h.ctx, waiting.ID, "me")
		h.ok(err)
		same(h, "status", task.Status, bloom.TaskCancelled)
		_, err = h.s.Cancel(h.ctx, waiting.ID, "me")
		h.refused(err, conflict)

		l := h.lease(held.ID, "w")
		task, err = h.s.Cancel(h.ctx, held.ID, "me")
		h.ok(err)
		if task.Status != bloom.TaskLeased || !task.CancelRequested {
			h.Errorf("a held task is %s, cancel requested %v", task.Status, task.CancelRequested)
		}
		_, err = h.s.Cancel(h.ctx, held.ID, "me")
		h.ok(err) // a repeat
		same(h, "cancel requested", h.heartbeat(l).CancelRequested, true)
		h.complete(failure(held.ID, l.ID, "stopped", true))
		same(h, "class", deref(h.status(held.ID, bloom.TaskCancelled).ErrorClass), bloom.ClassCancelled)
		want := []string{audit.ActionTaskCreated, audit.ActionTaskLeased, audit.ActionTaskCancelled, audit.ActionTaskStarted, audit.ActionTaskCancelled}
		if got := h.actions(held.ID); !slices.Equal(got, want) {
			h.Errorf("audited %v, want %v", got, want)
		}
	},
	"a success that came first wins over a cancel": func(h *harness) {
		h.worker("w", 1)
		task := h.create()
		l := h.lease(task.ID, "w")
		_, err := h.s.Cancel(h.ctx, task.ID, "me")
		h.ok(err)
		h.complete(success(task.ID, l.ID, "done"))
		h.status(task.ID, bloom.TaskCompleted)
	},
	"requeue resets the attempts and begins a new epoch": func(h *harness) {
		h.worker("w", 1)
		task := h.create(attempts(1))
		_, err := h.s.Requeue(h.ctx, task.ID, "me")
		h.refused(err, conflict)
		l := h.lease(task.ID, "w")
		_, err = h.s.Requeue(h.ctx, task.ID, "me")
		h.refused(err, conflict)
		h.complete(failure(task.ID, l.ID, "broken", false))
		got, err := h.s.Requeue(h.ctx, task.ID, "me")
		h.ok(err)
		if got.Status != bloom.TaskQueued || got.Attempts != 0 || got.Epoch != 2 || got.LeaseID != nil || got.WorkerID != nil || got.ErrorClass != nil {
			h.Errorf("requeued: %+v", got.TaskState)
		}
		same(h, "the next epoch", h.lease(task.ID, "w").Epoch, 3)
		_, err = h.s.Complete(h.ctx, success(task.ID, l.ID, "late"))
		h.refused(err, bloom.ErrOtherOutcome)
	},
	"a completed task cannot be requeued or cancelled": func(h *harness) {
		h.worker("w", 1)
		task := h.create()
		h.finish(task.ID, "w")
		_, err := h.s.Requeue(h.ctx, task.ID, "me")
		h.refused(err, conflict)
		_, err = h.s.Cancel(h.ctx, task.ID, "me")
		h.refused(err, conflict)
	},
	"a worker's events share the runtime's numbering and are stored once": func(h *harness) {
		h.worker("w", 1)
		task := h.create()
		l := h.lease(task.ID, "w")
		events := []bloom.WorkerEvent{{Seq: 1, Type: "text", At: 5, Data: []byte(`{"a":1}`)}, {Seq: 2, Type: "log", Data: []byte(`"x"`)}}
		last, err := h.s.AppendEvents(h.ctx, task.ID, l.ID, events)
		h.ok(err)
		same(h, "last", last, 4)
		last, err = h.s.AppendEvents(h.ctx, task.ID, l.ID, append(events, bloom.WorkerEvent{Seq: 3, Type: "text", Data: []byte(`null`)}))
		h.ok(err)
		same(h, "last", last, 5)
		want := []string{bloom.EventCreated, bloom.EventLeased, "text", "log", "text"}
		if got := h.eventTypes(task.ID); !slices.Equal(got, want) {
			h.Errorf("the stream has %v, want %v", got, want)
		}
		rest, err := h.s.Events(h.ctx, task.ID, 2, 1)
		h.ok(err)
		if len(rest) != 1 || rest[0].Seq != 3 || string(rest[0].Data) != `{"a":1}` || rest[0].Epoch != 1 {
			h.Errorf("after 2 comes %+v", rest)
		}
		h.complete(success(task.ID, l.ID, "x"))
		_, err = h.s.AppendEvents(h.ctx, task.ID, l.ID, events)
		h.refused(err, bloom.ErrLeaseLost)
	},
	"a new attempt's events start a new worker sequence": func(h *harness) {
		h.worker("w", 1)
		task := h.create()
		one := []bloom.WorkerEvent{{Seq: 1, Type: "text", Data: []byte(`1`)}}
		for range 2 {
			l := h.lease(task.ID, "w")
			_, err := h.s.AppendEvents(h.ctx, task.ID, l.ID, one)
			h.ok(err)
			_, err = h.s.Release(h.ctx, task.ID, bloom.ReleaseSpec{LeaseID: l.ID, Reason: "drain"}, "w")
			h.ok(err)
		}
		want := []string{bloom.EventCreated, bloom.EventLeased, "text", bloom.EventReleased, bloom.EventLeased, "text", bloom.EventReleased}
		if got := h.eventTypes(task.ID); !slices.Equal(got, want) {
			h.Errorf("the stream has %v, want %v", got, want)
		}
	},
	"subscribers receive changes until they unsubscribe": func(h *harness) {
		heard := make(chan bloom.Change, 100)
		stop := h.s.Subscribe(func(changes []bloom.Change) {
			for _, c := range changes {
				heard <- c
			}
		})
		task := h.create(labelled("b", "a"))
		select {
		case c := <-heard:
			slices.Sort(c.Labels)
			if c.Kind != bloom.ChangeTask || c.TaskID != task.ID || c.TaskStatus != bloom.TaskQueued || !slices.Equal(c.Labels, []string{"a", "b"}) {
				h.Errorf("heard %+v", c)
			}
		case <-time.After(10 * time.Second):
			h.Fatal("heard nothing of a new task")
		}
		stop()
	},
	"a closed store returns that it is unavailable": func(h *harness) {
		h.ok(h.s.Ping(h.ctx))
		h.ok(h.s.Close())
		h.ok(h.s.Close())
		_, _, err := h.s.CreateTask(h.ctx, newTask())
		h.refused(err, bloom.ErrUnavailable)
		_, err = h.s.Task(h.ctx, newID())
		h.refused(err, bloom.ErrUnavailable)
		h.refused(h.s.Ping(h.ctx), bloom.ErrUnavailable)
		h.SkipNow() // a closed store cannot be checked
	},
	"a cancelled caller gets its context's error": func(h *harness) {
		ctx, cancel := cancelled(h.ctx)
		defer cancel()
		if _, _, err := h.s.CreateTask(ctx, newTask()); !errors.Is(err, ctx.Err()) {
			h.Errorf("got %v", err)
		}
	},
}
