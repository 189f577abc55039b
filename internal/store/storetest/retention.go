package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

const (
	kept = time.Hour
	long = 100 * 24 * time.Hour
)

// remove calls one kind of removal until there is no more.
func (h *harness) remove(batch func(bloom.RemoveRequest) (bloom.Removed, error), limit int) (all bloom.Removed) {
	h.Helper()
	r := bloom.RemoveRequest{OlderThan: kept, Limit: limit}
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

func (h *harness) removeTasks() bloom.Removed {
	h.Helper()
	return h.remove(func(r bloom.RemoveRequest) (bloom.Removed, error) { return h.s.RemoveTasks(h.ctx, r) }, 0)
}

func (h *harness) removeEvents() bloom.Removed {
	h.Helper()
	return h.remove(func(r bloom.RemoveRequest) (bloom.Removed, error) { return h.s.RemoveEvents(h.ctx, r) }, 0)
}

func (h *harness) removeAudit() bloom.Removed {
	h.Helper()
	return h.remove(func(r bloom.RemoveRequest) (bloom.Removed, error) { return h.s.RemoveAudit(h.ctx, r) }, 0)
}

// removed compares counts.
func (h *harness) removed(got, want bloom.Removed) {
	h.Helper()
	got.Next, got.More, got.UpTo = 0, false, 0
	same(h, "removed", got, want)
}

// gone checks that a task is to everybody as if it had never been.
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

// failed is a task that ended with an error.
func (h *harness) failed(worker string, change ...func(*bloom.NewTask)) bloom.Task {
	h.Helper()
	task := h.create(change...)
	h.complete(failure(task.ID, h.lease(task.ID, worker).ID, "no", false))
	return task
}

var retentionTests = map[string]func(*harness){
	"an ended task goes with all that is its own": func(h *harness) {
		h.worker("w", 4)
		n := newTask(func(n *bloom.NewTask) { n.Spec.IdempotencyKey, n.IdempotencyScope = "key", "scope" })
		task, _, err := h.s.CreateTask(h.ctx, n)
		h.ok(err)
		l := h.lease(task.ID, "w")
		_, err = h.s.Release(h.ctx, task.ID, bloom.ReleaseSpec{LeaseID: l.ID}, "w")
		h.ok(err)
		l = h.lease(task.ID, "w")
		h.complete(failure(task.ID, l.ID, "once more", true))
		h.advance(10 * time.Second)
		l = h.lease(task.ID, "w")
		h.beat(l)
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
		h.removed(h.removeTasks(), bloom.Removed{})
		h.advance(time.Millisecond)
		h.removed(h.removeTasks(), bloom.Removed{
			Tasks: 2, Leases: 4, Results: 3, Artifacts: 3, Contents: 1, Events: int64(len(events)) + 3,
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
		_, err = h.s.Heartbeat(h.ctx, task.ID, l.ID)
		h.refused(err, bloom.ErrTaskNotFound)
		_, err = h.s.Requeue(h.ctx, task.ID, "me")
		h.refused(err, bloom.ErrTaskNotFound)
		h.removed(h.removeTasks(), bloom.Removed{})

		contents, err := h.s.RemovedContent(h.ctx, 0, 10)
		h.ok(err)
		if len(contents) != 1 || contents[0].URL != url {
			h.Fatalf("content to delete: %v, want %s", contents, url)
		}
		h.ok(h.s.ForgetContent(h.ctx, []int64{contents[0].Seq}))
		contents, err = h.s.RemovedContent(h.ctx, 0, 10)
		h.ok(err)
		same(h, "contents that were forgotten", len(contents), 0)

		if actions := h.actions(task.ID); len(actions) == 0 || actions[0] != bloom.ActionTaskCreated || actions[len(actions)-1] != bloom.ActionTaskCompleted {
			h.Errorf("the audit of the removed task is %v", actions)
		}
		told, _, err := h.s.Audit(h.ctx, bloom.AuditQuery{Action: bloom.ActionTasksRemoved})
		h.ok(err)
		var cut bloom.AuditCut
		if len(told) != 1 || json.Unmarshal(told[0].Data, &cut) != nil || cut.Tasks != 2 || cut.Before != h.now()-kept.Milliseconds() || told[0].Actor != bloom.ActorRetention {
			h.Errorf("the removal is audited as %+v", told)
		}
		again, replayed, err := h.s.CreateTask(h.ctx, n)
		if err != nil || replayed || again.Epoch != 0 {
			h.Errorf("id and key are not free: replayed %v, %v", replayed, err)
		}
	},
	"what has not ended stays however old it is": func(h *harness) {
		h.worker("w", 8)
		live := map[string]bloom.TaskStatus{h.create().ID: bloom.TaskQueued}
		live[h.create(func(n *bloom.NewTask) { n.Spec.RunAt = h.now() + 2*long.Milliseconds() }).ID] = bloom.TaskQueued
		live[h.lease(h.create().ID, "w").TaskID] = bloom.TaskLeased
		running := h.lease(h.create().ID, "w")
		h.beat(running)
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
		h.removed(h.removeTasks(), bloom.Removed{})
		h.removed(h.removeEvents(), bloom.Removed{})
		h.removeAudit() // the worker's registration
		for id, status := range live {
			h.status(id, status)
			same(h, "events and audit of a live task", len(h.eventTypes(id))+len(h.actions(id)), before[id])
		}
		results, err := h.s.Results(h.ctx, again.ID)
		h.ok(err)
		same(h, "results of a requeued task", len(results), 1)
		h.beat(running) // not reaped yet: still good
	},
	"every way to end is an end": func(h *harness) {
		h.worker("w", 8)
		ended := []string{h.failed("w").ID}
		task := h.create()
		_, err := h.s.Cancel(h.ctx, task.ID, "me")
		h.ok(err)
		ended = append(ended, task.ID)
		dead := h.lease(h.create(attempts(1)).ID, "w")
		h.advance(2 * time.Minute)
		h.reap(bloom.Reaped{Dead: 1})
		ended = append(ended, dead.TaskID, h.finish(h.create().ID, "w").Task.ID)
		h.advance(long)
		same(h, "tasks removed", h.removeTasks().Tasks, 4)
		for _, id := range ended {
			h.gone(id)
		}
	},
	"a context keeps its worker when the task that it last held is removed": func(h *harness) {
		h.worker("knows", 4)
		h.worker("other", 4)
		first, last := h.create(inContext("c")), h.create(inContext("c"))
		h.finish(first.ID, "other")
		h.finish(last.ID, "knows")
		waiting := h.create(inContext("c"), func(n *bloom.NewTask) { n.Spec.RunAt = h.now() + long.Milliseconds() })
		elsewhere := h.create(inContext("d"))
		h.finish(elsewhere.ID, "knows")

		h.advance(long - time.Minute)
		same(h, "tasks removed", h.removeTasks().Tasks, 3)
		for _, task := range []bloom.Task{first, last, elsewhere} {
			h.gone(task.ID)
		}
		h.advance(time.Minute)
		for _, name := range []string{"other", "knows"} {
			h.worker(name, 4) // heard of again
		}
		if r := h.claim("other", 1); len(r.Leases) != 0 {
			h.Error("a stranger to the context got its task")
		}
		if r := h.claim("knows", 1); len(r.Leases) != 1 || r.Leases[0].Task.ID != waiting.ID {
			h.Errorf("the worker that knows the context got %v", r.Leases)
		}
	},
	"events go and the numbering goes on": func(h *harness) {
		h.worker("w", 4)
		task := h.create()
		l := h.lease(task.ID, "w")
		_, err := h.s.AppendEvents(h.ctx, task.ID, l.ID, []bloom.WorkerEvent{{Seq: 1, Type: "text"}, {Seq: 2, Type: "text"}})
		h.ok(err)
		h.complete(failure(task.ID, l.ID, "no", false))
		had := int64(len(h.eventTypes(task.ID)))
		h.advance(kept)
		h.removed(h.removeEvents(), bloom.Removed{})
		h.advance(time.Millisecond)
		h.removed(h.removeEvents(), bloom.Removed{Events: had})
		h.removed(h.removeEvents(), bloom.Removed{})
		same(h, "events left", len(h.eventTypes(task.ID)), 0)
		results, err := h.s.Results(h.ctx, task.ID)
		h.ok(err)
		same(h, "results left", len(results), 1)

		_, err = h.s.Requeue(h.ctx, task.ID, "me")
		h.ok(err)
		l = h.lease(task.ID, "w")
		last, err := h.s.AppendEvents(h.ctx, task.ID, l.ID, []bloom.WorkerEvent{{Seq: 1, Type: "text"}})
		h.ok(err)
		same(h, "the stream's last number", last, had+3)
		for _, after := range []int64{0, had} {
			events, err := h.s.Events(h.ctx, task.ID, after, 10)
			h.ok(err)
			if len(events) != 3 || events[0].Type != bloom.EventRequeued || events[0].Seq != had+1 {
				h.Errorf("the stream after %d goes on with %+v, want number %d", after, events, had+1)
			}
		}
	},
	"a stream too long for a batch goes in several": func(h *harness) {
		h.worker("w", 4)
		fill := func() string {
			l := h.lease(h.create().ID, "w")
			for from := range int64(5) {
				events := make([]bloom.WorkerEvent, 900)
				for i := range events {
					events[i] = bloom.WorkerEvent{Seq: from*900 + int64(i) + 1, Type: "text"}
				}
				_, err := h.s.AppendEvents(h.ctx, l.TaskID, l.ID, events)
				h.ok(err)
			}
			h.complete(success(l.TaskID, l.ID, "x"))
			return l.TaskID
		}
		ids := []string{fill(), fill()}
		h.advance(long)
		first, err := h.s.RemoveEvents(h.ctx, bloom.RemoveRequest{OlderThan: kept})
		h.ok(err)
		if first.Events == 0 || first.Events > bloom.MaxRemoveEvents || !first.More {
			h.Fatalf("the first batch is %+v", first)
		}
		h.ok(CheckInvariants(h.ctx, h.s))
		tasks, err := h.s.RemoveTasks(h.ctx, bloom.RemoveRequest{OlderThan: kept})
		h.ok(err)
		if tasks.Events == 0 || tasks.Events > bloom.MaxRemoveEvents || tasks.Tasks != 0 {
			h.Fatalf("a batch of tasks is %+v", tasks)
		}
		all := h.removeTasks()
		same(h, "tasks", all.Tasks, 2)
		same(h, "events", first.Events+tasks.Events+all.Events, 2*4503)
		h.gone(ids[0])
		h.gone(ids[1])
	},
	"audit goes by its own age and spares live tasks": func(h *harness) {
		h.worker("w", 4)
		ended, live := h.create(), h.create()
		h.finish(ended.ID, "w")
		h.advance(kept)
		h.failed("w")
		h.advance(time.Millisecond)
		// The worker's registration, and created, leased, completed.
		h.removed(h.removeAudit(), bloom.Removed{Audit: 4})
		same(h, "entries of the old task", len(h.actions(ended.ID)), 0)
		same(h, "entries of the live task", len(h.actions(live.ID)), 1)
		h.status(ended.ID, bloom.TaskCompleted)
		told, _, err := h.s.Audit(h.ctx, bloom.AuditQuery{Action: bloom.ActionAuditRemoved})
		h.ok(err)
		same(h, "entries that tell of it", len(told), 1)
		highest := told[0].Seq

		// The numbers never begin again, even when everything is old.
		h.advance(long)
		_, err = h.s.Cancel(h.ctx, live.ID, "me")
		h.ok(err)
		h.advance(long)
		h.removeAudit()
		entries, _, err := h.s.Audit(h.ctx, bloom.AuditQuery{})
		h.ok(err)
		if len(entries) != 2 || entries[1].Seq <= highest || entries[0].Seq <= entries[1].Seq {
			h.Errorf("after all of the audit was removed it is %+v", entries)
		}
	},
	"batches are bounded, told one by one, and go on where they stopped": func(h *harness) {
		h.worker("w", 4)
		for i := range 25 {
			if i%5 == 0 {
				h.create() // stays
			}
			h.failed("w", inContext(fmt.Sprint(i)))
		}
		h.advance(long)
		r := bloom.RemoveRequest{OlderThan: kept, Limit: 10}
		var sizes []int64
		for more := true; more; {
			did, err := h.s.RemoveTasks(h.ctx, r)
			h.ok(err)
			sizes, r.After, more = append(sizes, did.Tasks), did.Next, did.More
			h.ok(CheckInvariants(h.ctx, h.s))
		}
		if !slices.Equal(sizes, []int64{10, 10, 5}) {
			h.Errorf("batches of %v", sizes)
		}
		told, _, err := h.s.Audit(h.ctx, bloom.AuditQuery{Action: bloom.ActionTasksRemoved})
		h.ok(err)
		same(h, "entries in the audit", len(told), 3)
		tasks, _, err := h.s.Tasks(h.ctx, bloom.TaskQuery{})
		h.ok(err)
		same(h, "tasks left", len(tasks), 5)
	},
	"a list goes on while what it lists goes": func(h *harness) {
		h.worker("w", 4)
		var want []string
		for i := range 20 {
			if i%2 == 0 {
				want = append(want, h.create(inContext("live")).ID)
			} else {
				h.failed("w", inContext(fmt.Sprint(i)))
			}
		}
		h.advance(long)
		slices.Reverse(want)
		got := h.walk(bloom.TaskQuery{Page: bloom.Page{Limit: 3}}, func() {
			_, err := h.s.RemoveTasks(h.ctx, bloom.RemoveRequest{OlderThan: kept, Limit: 2})
			h.ok(err)
		})
		listed := slices.DeleteFunc(slices.Clone(got), func(id string) bool { return !slices.Contains(want, id) })
		if !slices.Equal(listed, want) {
			h.Errorf("listed %d of the %d that stay", len(listed), len(want))
		}
	},
	"a requeue or the removal, one of them wins": func(h *harness) {
		h.worker("w", 4)
		var ids []string
		for i := range 40 {
			ids = append(ids, h.failed("w", inContext(fmt.Sprint(i))).ID)
		}
		h.advance(long)
		var requeued sync.Map
		together(8, func(i int) {
			for n, id := range ids {
				switch {
				case i < 4 && n%4 == i:
					_, err := h.s.Requeue(h.ctx, id, "me")
					if err == nil {
						requeued.Store(id, true)
					} else if !errors.Is(err, bloom.ErrTaskNotFound) {
						h.Error(err)
					}
				case i >= 4 && n%5 == 0:
					if _, err := h.s.RemoveTasks(h.ctx, bloom.RemoveRequest{OlderThan: kept, Limit: 3}); err != nil {
						h.Error(err)
					}
				}
			}
		})
		h.removeTasks()
		for _, id := range ids {
			if _, won := requeued.Load(id); won {
				h.status(id, bloom.TaskQueued)
			} else {
				h.gone(id)
			}
		}
	},
	"removal leaves those who work alone": func(h *harness) {
		const clients, each = 6, 15
		for i := range clients {
			h.worker(fmt.Sprint("w", i), 4)
		}
		var old []string
		for i := range 60 {
			old = append(old, h.failed("w0", inContext(fmt.Sprint("c", i%7))).ID)
		}
		h.advance(long)
		made := make([][]string, clients)
		together(clients+2, func(i int) {
			for n := range each {
				if i >= clients {
					_, err := h.s.RemoveTasks(h.ctx, bloom.RemoveRequest{OlderThan: kept, Limit: 5})
					if err == nil {
						_, err = h.s.RemoveAudit(h.ctx, bloom.RemoveRequest{OlderThan: kept, Limit: 20})
					}
					if err == nil {
						_, err = h.s.RemoveEvents(h.ctx, bloom.RemoveRequest{OlderThan: kept, Limit: 5})
					}
					if err != nil {
						h.Error(err)
					}
					continue
				}
				task, _, err := h.s.CreateTask(h.ctx, newTask(inContext(fmt.Sprint("c", n%7))))
				if err != nil {
					h.Error(err)
					return
				}
				made[i] = append(made[i], task.ID)
				l, _, err := h.s.LeaseTask(h.ctx, bloom.LeaseRequest{TaskID: task.ID, WorkerID: fmt.Sprint("w", i)})
				if err == nil && n%3 != 0 {
					_, err = h.s.Complete(h.ctx, success(task.ID, l.ID, "x"))
				}
				if err != nil && !errors.Is(err, bloom.ErrNoWorker) {
					h.Error(err)
				}
			}
		})
		h.removeTasks()
		for _, ids := range made {
			for _, id := range ids {
				h.task(id)
			}
		}
		left := 0
		for _, id := range old {
			if _, err := h.s.Task(h.ctx, id); err == nil {
				left++
			}
		}
		if left > 7 { // the contexts' last leases may have been theirs
			h.Errorf("%d old tasks are left", left)
		}
	},
}
