package storetest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var completionTests = map[string]func(*harness){
	"a success leaves a result and an artifact": func(h *harness) {
		h.worker("w", 1)
		task := h.create()
		l := h.lease(task.ID, "w")
		h.heartbeat(l)
		r := success(task.ID, l.ID, "the answer")
		done := h.complete(r)
		same(h, "status", done.Task.Status, bloom.TaskCompleted)
		same(h, "lease stays named", deref(done.Task.LeaseID), l.ID)
		same(h, "worker stays named", deref(done.Task.WorkerID), "w")
		wantResult := bloom.Result{
			ID: r.ResultID, TaskID: task.ID, WorkerID: "w", ArtifactID: r.ArtifactID, Status: bloom.OutcomeSuccess, Output: r.Content,
			Metrics: r.Completion.Metrics, CompletedAt: h.now(), Epoch: 1,
		}
		wantArtifact := bloom.Artifact{
			ID: r.ArtifactID, TaskID: task.ID, Type: "LLM_RESULT", CreatedAt: h.now(), Finalized: true, EntityRefs: []string{}, Tags: []string{"tag"},
			Content: r.Content, Size: 10, SHA256: "sha", MediaType: r.MediaType, Epoch: 1,
		}
		results, err := h.s.Results(h.ctx, task.ID)
		h.ok(err)
		artifact, err := h.s.Artifact(h.ctx, r.ArtifactID)
		h.ok(err)
		if d := cmp.Diff([]bloom.Result{wantResult}, results) + cmp.Diff(wantResult, done.Result); d != "" {
			h.Errorf("result (-want +got):\n%s", d)
		}
		if d := cmp.Diff(wantArtifact, artifact) + cmp.Diff(wantArtifact, done.Artifact); d != "" {
			h.Errorf("artifact (-want +got):\n%s", d)
		}
		if d := cmp.Diff(h.task(task.ID), done.Task, exceptStart); d != "" {
			h.Errorf("task (-stored +answered):\n%s", d)
		}
		_, leases, err := h.s.Worker(h.ctx, "w")
		h.ok(err)
		same(h, "active leases", len(leases), 0)
		want := []string{bloom.EventCreated, bloom.EventLeased, bloom.EventStarted, bloom.EventCompleted}
		if got := h.eventTypes(task.ID); !slices.Equal(got, want) {
			h.Errorf("the stream has %v", got)
		}
	},
	"a repeated completion returns the same response and writes nothing": func(h *harness) {
		h.worker("w", 1)
		task := h.create()
		l := h.lease(task.ID, "w")
		first := h.complete(success(task.ID, l.ID, "one"))
		trail := h.actions(task.ID)
		h.advance(time.Minute)
		again := h.complete(success(task.ID, l.ID, "one"))
		same(h, "replayed", again.Replayed, true)
		again.Replayed = false
		if d := cmp.Diff(first, again); d != "" {
			h.Errorf("another answer (-first +again):\n%s", d)
		}
		_, err := h.s.Complete(h.ctx, success(task.ID, l.ID, "two"))
		h.refused(err, bloom.ErrOtherOutcome)
		_, err = h.s.Complete(h.ctx, success(h.create().ID, l.ID, "one")) // for another task
		h.refused(err, bloom.ErrLeaseLost)
		if got := h.actions(task.ID); !slices.Equal(got, trail) {
			h.Errorf("a repeat was audited: %v", got)
		}
	},
	"a completion is repeated after its task was requeued": func(h *harness) {
		h.worker("w", 1)
		task := h.create()
		l := h.lease(task.ID, "w")
		r := failure(task.ID, l.ID, "broken", false)
		first := h.complete(r)
		_, err := h.s.Requeue(h.ctx, task.ID, "me")
		h.ok(err)
		again := h.complete(r)
		same(h, "replayed", again.Replayed, true)
		same(h, "result", again.Result.ID, first.Result.ID)
		h.status(task.ID, bloom.TaskQueued)
	},
	"a client without a lease ID completes the active lease, once": func(h *harness) {
		h.worker("w", 1)
		task := h.create()
		_, err := h.s.Complete(h.ctx, success(task.ID, "", "x"))
		h.refused(err, conflict)
		h.lease(task.ID, "w")
		h.complete(success(task.ID, "", "x"))
		_, err = h.s.Complete(h.ctx, success(task.ID, "", "x"))
		h.refused(err, conflict)
	},
	"an error without output fails the task and leaves an empty artifact": func(h *harness) {
		h.worker("w", 1)
		task := h.create()
		l := h.lease(task.ID, "w")
		done := h.complete(failure(task.ID, l.ID, "broken", false))
		same(h, "status", done.Task.Status, bloom.TaskFailed)
		same(h, "class", deref(done.Task.ErrorClass), bloom.ClassCrashed)
		same(h, "class of the result", deref(done.Result.ErrorClass), bloom.ClassCrashed)
		same(h, "message", deref(done.Result.ErrorMessage), "broken")
		if done.Artifact.Content != nil || done.Artifact.Size != 0 || done.Result.Output != nil {
			h.Errorf("the artifact is %+v", done.Artifact)
		}
	},
	"a retryable error is retried while attempts are left": func(h *harness) {
		h.worker("w", 1)
		task := h.create(attempts(2))
		l := h.lease(task.ID, "w")
		done := h.complete(failure(task.ID, l.ID, "once", true))
		same(h, "status", done.Task.Status, bloom.TaskQueued)
		same(h, "run at", done.Task.RunAt, h.now()+lifecycle.RetryDelay(1).Milliseconds())
		same(h, "given too early", len(h.claim("w", 1).Leases), 0)
		h.advance(lifecycle.RetryDelay(1))
		leases := h.claim("w", 1).Leases
		if len(leases) != 1 || leases[0].Lease.Epoch != 2 {
			h.Fatalf("claimed %+v", leases)
		}
		h.complete(failure(task.ID, leases[0].Lease.ID, "twice", true))
		h.status(task.ID, bloom.TaskFailed)
		results, err := h.s.Results(h.ctx, task.ID)
		h.ok(err)
		if len(results) != 2 || deref(results[0].ErrorMessage) != "twice" || deref(results[1].ErrorMessage) != "once" {
			h.Errorf("results: %+v", results)
		}
	},
	"only errors make the delay before the next attempt longer": func(h *harness) {
		h.worker("w", 1)
		task := h.create(attempts(10))
		for range 3 {
			h.lease(task.ID, "w")
			h.advance(time.Hour)
			h.reap(contract.Reaped{Requeued: 1})
		}
		for errors := range 2 {
			delay := lifecycle.RetryDelay(errors + 1)
			done := h.complete(failure(task.ID, h.lease(task.ID, "w").ID, "broken", true))
			same(h, "run at", done.Task.RunAt, h.now()+delay.Milliseconds())
			h.advance(delay)
		}
	},
	"a late result is accepted while the task is not leased again": func(h *harness) {
		h.worker("w", 1)
		task := h.create()
		l := h.lease(task.ID, "w")
		h.advance(time.Hour)
		h.reap(contract.Reaped{Requeued: 1})
		done := h.complete(success(task.ID, l.ID, "late"))
		same(h, "status", done.Task.Status, bloom.TaskCompleted)
		same(h, "worker", deref(done.Task.WorkerID), "w")
		same(h, "given again", len(h.claim("w", 1).Leases), 0)
	},
	"a late result of the last attempt is accepted": func(h *harness) {
		h.worker("w", 1)
		for _, success := range []bool{true, false} {
			task := h.create(attempts(1), ordered)
			next := h.create(ordered)
			l := h.lease(task.ID, "w")
			h.advance(time.Hour)
			h.reap(contract.Reaped{Dead: 1})
			h.status(task.ID, bloom.TaskDead)
			h.complete(outcome(task.ID, l.ID, success))
			want := bloom.TaskFailed
			if success {
				want = bloom.TaskCompleted
			}
			h.status(task.ID, want)
			_, err := h.s.Cancel(h.ctx, next.ID, "me")
			h.ok(err)
		}
	},
	"a task that was requeued manually is not decided by an earlier attempt": func(h *harness) {
		h.worker("w", 1)
		for _, success := range []bool{true, false} {
			for _, cancel := range []bool{true, false} {
				task := h.create(attempts(1))
				l := h.lease(task.ID, "w")
				want := contract.Reaped{Dead: 1}
				if cancel {
					_, err := h.s.Cancel(h.ctx, task.ID, "me")
					h.ok(err)
					want = contract.Reaped{Cancelled: 1}
				}
				h.advance(time.Hour)
				h.reap(want)
				_, err := h.s.Requeue(h.ctx, task.ID, "me")
				h.ok(err)
				_, err = h.s.Complete(h.ctx, outcome(task.ID, l.ID, success))
				h.refused(err, bloom.ErrLeaseLost)
				h.status(task.ID, bloom.TaskQueued)
				h.complete(outcome(task.ID, h.lease(task.ID, "w").ID, true))
			}
		}
	},
	"a late retryable error requeues the task": func(h *harness) {
		h.worker("w", 1)
		task := h.create()
		l := h.lease(task.ID, "w")
		h.advance(time.Hour)
		h.reap(contract.Reaped{Requeued: 1})
		same(h, "status", h.complete(failure(task.ID, l.ID, "late", true)).Task.Status, bloom.TaskQueued)
		same(h, "given too early", len(h.claim("w", 1).Leases), 0)
		h.advance(lifecycle.RetryDelay(1))
		same(h, "given in time", len(h.claim("w", 1).Leases), 1)
	},
	"content in the blob store is stored as a URL": func(h *harness) {
		h.worker("w", 1)
		task := h.create()
		l := h.lease(task.ID, "w")
		r := success(task.ID, l.ID, "much")
		url := "file:ab/cd"
		r.Content, r.URL, r.Size = nil, &url, 1<<30
		done := h.complete(r)
		if done.Artifact.Content != nil || deref(done.Artifact.URL) != url || done.Artifact.Size != 1<<30 || done.Result.Output != nil {
			h.Errorf("artifact %+v, result %+v", done.Artifact, done.Result)
		}
		results, err := h.s.Results(h.ctx, task.ID)
		h.ok(err)
		if results[0].Output != nil {
			h.Error("the stored result has the output")
		}
	},
}
