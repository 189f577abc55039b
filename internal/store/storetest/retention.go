package storetest

import (
	"encoding/json"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

const (
	kept = time.Hour
	long = 100 * 24 * time.Hour
)

// remove repeats one kind of removal until nothing is left.
func (h *harness) remove(batch func(contract.RemoveRequest) (contract.Removed, error), limit int) (all contract.Removed) {
	h.Helper()
	r := contract.RemoveRequest{OlderThan: kept, Limit: limit}
	for range 1000 {
		did, err := batch(r)
		h.ok(err)
		if did.More && did.Next < r.After {
			h.Fatalf("the walk went back from %d to %d", r.After, did.Next)
		}
		all.Add(did)
		if !did.More {
			return all
		}
		r.After = did.Next
	}
	h.Fatal("the removal does not end")
	return all
}

func (h *harness) removeTasks() contract.Removed {
	h.Helper()
	return h.remove(func(r contract.RemoveRequest) (contract.Removed, error) { return h.s.RemoveTasks(h.ctx, r) }, 0)
}

func (h *harness) removeEvents() contract.Removed {
	h.Helper()
	return h.remove(func(r contract.RemoveRequest) (contract.Removed, error) { return h.s.RemoveEvents(h.ctx, r) }, 0)
}

func (h *harness) removeAudit() contract.Removed {
	h.Helper()
	h.ok(awaitChained(h.ctx, h.s)) // an entry is removed once it is chained
	return h.remove(func(r contract.RemoveRequest) (contract.Removed, error) { return h.s.RemoveAudit(h.ctx, r) }, 0)
}

// removed compares counts.
func (h *harness) removed(got, want contract.Removed) {
	h.Helper()
	got.Next, got.More, got.UpTo = 0, false, 0
	same(h, "removed", got, want)
}

// gone checks that no trace of a task can be read.
func (h *harness) gone(id string) {
	h.Helper()
	_, err := h.s.Task(h.ctx, id)
	h.refused(err, bloom.ErrTaskNotFound)
	_, err = h.s.Events(h.ctx, id, 0, 10)
	h.refused(err, bloom.ErrTaskNotFound)
	_, err = h.s.Results(h.ctx, id)
	h.refused(err, bloom.ErrTaskNotFound)
	artifacts, _, err := h.s.Artifacts(h.ctx, bloom.ArtifactQuery{TaskID: id})
	h.ok(err)
	same(h, "artifacts of a removed task", len(artifacts), 0)
}

// failed returns a task that ended with an error.
func (h *harness) failed(worker string, change ...func(*contract.NewTask)) bloom.Task {
	h.Helper()
	task := h.create(change...)
	h.complete(failure(task.ID, h.lease(task.ID, worker).ID, "no", false))
	return task
}

var retentionTests = map[string]func(*harness){
	"an ended task is removed with everything that belongs to it": func(h *harness) {
		h.worker("w", 4)
		n := newTask(func(n *contract.NewTask) { n.Spec.IdempotencyKey, n.IdempotencyScope = "key", "scope" })
		attached := file(n.ID, "", "attachments/a.txt", "s")
		n.Attachments = []contract.NewArtifact{attached}
		task, _, err := h.s.CreateTask(h.ctx, n)
		h.ok(err)
		l := h.lease(task.ID, "w")
		_, err = h.s.Release(h.ctx, task.ID, bloom.ReleaseSpec{LeaseID: l.ID}, "w")
		h.ok(err)
		l = h.lease(task.ID, "w")
		h.complete(failure(task.ID, l.ID, "once more", true))
		h.advance(10 * time.Second)
		l = h.lease(task.ID, "w")
		h.heartbeat(l)
		_, err = h.s.AppendEvents(h.ctx, task.ID, l.ID, []bloom.WorkerEvent{{Seq: 1, Type: "text"}, {Seq: 2, Type: "text"}})
		h.ok(err)
		last := success(task.ID, l.ID, "")
		url := "file:artifacts/" + task.ID + "/" + last.ArtifactID
		last.Content, last.URL = nil, &url
		done := h.complete(last)
		young := h.create()
		h.finish(young.ID, "w")
		events := h.eventTypes(task.ID)

		h.advance(kept)
		h.removed(h.removeTasks(), contract.Removed{})
		h.advance(time.Millisecond)
		h.removed(h.removeTasks(), contract.Removed{
			Tasks: 2, Leases: 4, Results: 3, Artifacts: 4, Contents: 2, Events: int64(len(events)) + 3,
		})
		h.gone(task.ID)
		h.gone(young.ID)
		_, err = h.s.Artifact(h.ctx, done.Artifact.ID)
		h.refused(err, bloom.NotFound("Artifact"))
		leases, _, err := h.s.Leases(h.ctx, bloom.LeaseQuery{})
		h.ok(err)
		same(h, "leases", len(leases), 0)
		_, err = h.s.Complete(h.ctx, last)
		h.refused(err, bloom.ErrTaskNotFound)
		_, err = h.s.Heartbeat(h.ctx, task.ID, l.ID, nil)
		h.refused(err, bloom.ErrTaskNotFound)
		_, err = h.s.Requeue(h.ctx, task.ID, "me")
		h.refused(err, bloom.ErrTaskNotFound)
		h.removed(h.removeTasks(), contract.Removed{})

		contents, err := h.s.RemovedContent(h.ctx, 0, 10)
		h.ok(err)
		if len(contents) != 2 || contents[0].URL != attached.URL || contents[1].URL != url {
			h.Fatalf("content to delete: %v, want %s and %s", contents, attached.URL, url)
		}
		h.ok(h.s.ConfirmDeleted(h.ctx, []int64{contents[0].Seq, contents[1].Seq}))
		contents, err = h.s.RemovedContent(h.ctx, 0, 10)
		h.ok(err)
		same(h, "contents that were forgotten", len(contents), 0)

		if actions := h.actions(task.ID); len(actions) == 0 || actions[0] != audit.ActionTaskCreated || actions[len(actions)-1] != audit.ActionTaskCompleted {
			h.Errorf("the audit of the removed task is %v", actions)
		}
		entries, _, err := h.s.Audit(h.ctx, bloom.AuditQuery{Action: audit.ActionTasksRemoved})
		h.ok(err)
		var cut contract.AuditCut
		if len(entries) != 1 || json.Unmarshal(entries[0].Data, &cut) != nil || cut.Tasks != 2 || cut.Before != h.now()-kept.Milliseconds() || entries[0].Actor != audit.ActorRetention {
			h.Errorf("the removal is audited as %+v", entries)
		}
		again, replayed, err := h.s.CreateTask(h.ctx, n)
		if err != nil || replayed || again.Epoch != 0 {
			h.Errorf("id and key are not free: replayed %v, %v", replayed, err)
		}
	},
	"unfinished tasks stay regardless of age": func(h *harness) {
		h.worker("w", 8)
		live := map[string]bloom.TaskStatus{h.create().ID: bloom.TaskQueued}
		live[h.create(func(n *contract.NewTask) { n.Spec.RunAt = h.now() + 2*long.Milliseconds() }).ID] = bloom.TaskQueued
		live[h.lease(h.create().ID, "w").TaskID] = bloom.TaskLeased
		running := h.lease(h.create().ID, "w")
		h.heartbeat(running)
		_, err := h.s.Cancel(h.ctx, running.TaskID, "me")
		h.ok(err)
		live[running.TaskID] = bloom.TaskRunning
		again := h.failed("w")
		_, err = h.s.Requeue(h.ctx, again.ID, "me")
		h.ok(err)
		live[again.ID] = bloom.TaskQueued
		released := h.lease(h.create().ID, "w")
		_, err = h.s.Release(h.ctx, released.TaskID, bloom.ReleaseSpec{LeaseID: released.ID}, "w")
		h.ok(err)
		live[released.TaskID] = bloom.TaskQueued
		before := map[string]int{}
		for id := range live {
			before[id] = len(h.eventTypes(id)) + len(h.actions(id))
		}

		h.advance(long)
		h.removed(h.removeTasks(), contract.Removed{})
		h.removed(h.removeEvents(), contract.Removed{})
		h.removeAudit() // the worker's registration
		for id, status := range live {
			h.status(id, status)
			same(h, "events and audit of a live task", len(h.eventTypes(id))+len(h.actions(id)), before[id])
		}
		results, err := h.s.Results(h.ctx, again.ID)
		h.ok(err)
		same(h, "results of a requeued task", len(results), 1)
		h.heartbeat(running) // not reaped yet: still valid
	},
	"tasks with every final status are removed": func(h *harness) {
		h.worker("w", 8)
		ended := []string{h.failed("w").ID}
		task := h.create()
		_, err := h.s.Cancel(h.ctx, task.ID, "me")
		h.ok(err)
		ended = append(ended, task.ID)
		dead := h.lease(h.create(attempts(1)).ID, "w")
		h.advance(2 * time.Minute)
		h.reap(contract.Reaped{Dead: 1})
		ended = append(ended, dead.TaskID, h.finish(h.create().ID, "w").Task.ID)
		h.advance(long)
		same(h, "tasks removed", h.removeTasks().Tasks, 4)
		for _, id := range ended {
			h.gone(id)
		}
	},
	"a context keeps its worker when the worker's last task is removed": func(h *harness) {
		h.worker("knows", 4)
		h.worker("other", 4)
		first, last := h.create(inContext("c")), h.create(inContext("c"))
		h.finish(first.ID, "other")
		h.finish(last.ID, "knows")
		waiting := h.create(inContext("c"), func(n *contract.NewTask) { n.Spec.RunAt = h.now() + long.Milliseconds() })
		elsewhere := h.create(inContext("d"))
		h.finish(elsewhere.ID, "knows")

		h.advance(long - time.Minute)
		same(h, "tasks removed", h.removeTasks().Tasks, 3)
		for _, task := range []bloom.Task{first, last, elsewhere} {
			h.gone(task.ID)
		}
		h.advance(time.Minute)
		for _, name := range []string{"other", "knows"} {
			h.worker(name, 4) // online again
		}
		if r := h.claim("other", 1); len(r.Leases) != 0 {
			h.Error("a stranger to the context got its task")
		}
		if r := h.claim("knows", 1); len(r.Leases) != 1 || r.Leases[0].Task.ID != waiting.ID {
			h.Errorf("the worker that knows the context got %v", r.Leases)
		}
	},
}
