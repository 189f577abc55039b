package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var eventRetentionTests = map[string]func(*harness){
	"events are removed and the numbering continues": func(h *harness) {
		h.worker("w", 4)
		task := h.create()
		l := h.lease(task.ID, "w")
		_, err := h.s.AppendEvents(h.ctx, task.ID, l.ID, []bloom.WorkerEvent{{Seq: 1, Type: "text"}, {Seq: 2, Type: "text"}})
		h.ok(err)
		h.complete(failure(task.ID, l.ID, "no", false))
		had := int64(len(h.eventTypes(task.ID)))
		h.advance(kept)
		h.removed(h.removeEvents(), contract.Removed{})
		h.advance(time.Millisecond)
		h.removed(h.removeEvents(), contract.Removed{Events: had})
		h.removed(h.removeEvents(), contract.Removed{})
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
	"a stream too long for a batch is removed in several": func(h *harness) {
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
		first, err := h.s.RemoveEvents(h.ctx, contract.RemoveRequest{OlderThan: kept})
		h.ok(err)
		if first.Events == 0 || first.Events > contract.MaxRemoveEvents || !first.More {
			h.Fatalf("the first batch is %+v", first)
		}
		h.ok(CheckInvariants(h.ctx, h.s))
		tasks, err := h.s.RemoveTasks(h.ctx, contract.RemoveRequest{OlderThan: kept})
		h.ok(err)
		if tasks.Events == 0 || tasks.Events > contract.MaxRemoveEvents || tasks.Tasks != 0 {
			h.Fatalf("a batch of tasks is %+v", tasks)
		}
		all := h.removeTasks()
		same(h, "tasks", all.Tasks, 2)
		same(h, "events", first.Events+tasks.Events+all.Events, 2*4503)
		h.gone(ids[0])
		h.gone(ids[1])
	},
	"audit entries are removed by age, except those of live tasks": func(h *harness) {
		h.worker("w", 4)
		ended, live := h.create(), h.create()
		h.finish(ended.ID, "w")
		h.advance(kept)
		h.failed("w")
		h.advance(time.Millisecond)
		// The worker's registration, and created, leased, completed.
		h.removed(h.removeAudit(), contract.Removed{Audit: 4})
		same(h, "entries of the old task", len(h.actions(ended.ID)), 0)
		same(h, "entries of the live task", len(h.actions(live.ID)), 1)
		h.status(ended.ID, bloom.TaskCompleted)
		removals, _, err := h.s.Audit(h.ctx, bloom.AuditQuery{Action: audit.ActionAuditRemoved})
		h.ok(err)
		same(h, "audit entries of the removal", len(removals), 1)
		highest := removals[0].Seq

		// Numbers are never reused, even when everything is old.
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
	"batches are bounded, audited one by one, and continue where they stopped": func(h *harness) {
		h.worker("w", 4)
		for i := range 25 {
			if i%5 == 0 {
				h.create() // stays
			}
			h.failed("w", inContext(fmt.Sprint(i)))
		}
		h.advance(long)
		r := contract.RemoveRequest{OlderThan: kept, Limit: 10}
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
		entries, _, err := h.s.Audit(h.ctx, bloom.AuditQuery{Action: audit.ActionTasksRemoved})
		h.ok(err)
		same(h, "entries in the audit", len(entries), 3)
		tasks, _, err := h.s.Tasks(h.ctx, bloom.TaskQuery{})
		h.ok(err)
		same(h, "tasks left", len(tasks), 5)
	},
	"a list continues while its entries are removed": func(h *harness) {
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
			_, err := h.s.RemoveTasks(h.ctx, contract.RemoveRequest{OlderThan: kept, Limit: 2})
			h.ok(err)
		})
		listed := slices.DeleteFunc(slices.Clone(got), func(id string) bool { return !slices.Contains(want, id) })
		if !slices.Equal(listed, want) {
			h.Errorf("listed %d of the %d that stay", len(listed), len(want))
		}
	},
}
