package storetest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func (h *harness) schedule(name string, next int64) bloom.Schedule {
	h.Helper()
	is, err := h.s.SaveSchedule(h.ctx, bloom.Schedule{Name: name, NextAt: &next, ScheduleSpec: bloom.ScheduleSpec{Cron: "0 3 * * *", TimeZone: "UTC"}}, "ann")
	h.ok(err)
	return is
}

func (h *harness) started(name string, at, next int64) contract.ScheduledStart {
	n := newTask()
	n.ID = schema.NewID(h.now())
	return contract.ScheduledStart{Schedule: name, At: at, Next: &next, Actor: "ann", Task: &n, Occurrences: []bloom.Occurrence{{At: at, Count: 1}}}
}

var scheduleTests = map[string]func(*harness){
	"a time of a schedule is taken once": func(h *harness) {
		h.schedule("b", 2000)
		h.schedule("a", 1000)
		due, next, err := h.s.DueSchedules(h.ctx, 1500)
		h.ok(err)
		if len(due) != 1 || due[0].Name != "a" || due[0].Cron != "0 3 * * *" || next != 2000 {
			h.Fatalf("due: %+v, then %d", due, next)
		}
		var all sync.WaitGroup
		var tasks sync.Map
		for range 8 {
			all.Go(func() {
				task, err := h.s.StartScheduled(h.ctx, h.started("a", 1000, 3000))
				if err != nil {
					h.Error(err)
				}
				if task != nil {
					tasks.Store(task.ID, true)
				}
			})
		}
		all.Wait()
		var ids []string
		tasks.Range(func(id, _ any) bool { ids = append(ids, fmt.Sprint(id)); return true })
		is, err := h.s.Schedule(h.ctx, "a")
		h.ok(err)
		list, _, err := h.s.Tasks(h.ctx, bloom.TaskQuery{})
		h.ok(err)
		if len(ids) != 1 || len(list) != 1 || *is.NextAt != 3000 || len(is.Recent) != 1 || *is.Recent[0].TaskID != ids[0] {
			h.Errorf("%d starts, %d tasks, %+v", len(ids), len(list), is)
		}
	},
	"a schedule keeps its history when it is replaced, and its tasks when it is removed": func(h *harness) {
		first := h.schedule("a", 1000)
		_, err := h.s.StartScheduled(h.ctx, h.started("a", 1000, 3000))
		h.ok(err)
		skipped := contract.ScheduledStart{Schedule: "a", At: 3000, Actor: "ann", Occurrences: []bloom.Occurrence{{At: 3000, Count: 2, Skipped: "missed"}}}
		_, err = h.s.StartScheduled(h.ctx, skipped)
		h.ok(err)
		is := h.schedule("a", 5000)
		if len(is.Recent) != 2 || is.Recent[0].Skipped != "missed" || is.Recent[1].TaskID == nil || is.CreatedAt != first.CreatedAt || is.CreatedBy != "ann" {
			h.Errorf("%+v", is)
		}
		for range contract.MaxOccurrences + 5 {
			byHand := h.started("a", 0, 0)
			_, err = h.s.StartScheduled(h.ctx, byHand)
			h.ok(err)
		}
		is, err = h.s.Schedule(h.ctx, "a")
		h.ok(err)
		same(h, "occurrences", len(is.Recent), contract.MaxOccurrences)
		same(h, "the next time", *is.NextAt, 5000)
		h.ok(h.s.RemoveSchedule(h.ctx, "a", "ann"))
		same(h, "removed again", bloom.KindOf(h.s.RemoveSchedule(h.ctx, "a", "ann")), bloom.KindNotFound)
		_, err = h.s.StartScheduled(h.ctx, skipped)
		same(h, "started when removed", bloom.KindOf(err), bloom.KindNotFound)
		list, err := h.s.Schedules(h.ctx)
		h.ok(err)
		same(h, "schedules", len(list), 0)
		entries, _, err := h.s.Audit(h.ctx, bloom.AuditQuery{EntityID: "a", Page: bloom.Page{Limit: 1000}})
		h.ok(err)
		for action, want := range map[string]int{audit.ActionScheduleSaved: 2, audit.ActionScheduleStarted: contract.MaxOccurrences + 6, audit.ActionScheduleSkipped: 1, audit.ActionScheduleRemoved: 1} {
			if got := len(slices.DeleteFunc(slices.Clone(entries), func(a bloom.Audit) bool { return a.Action != action })); got != want {
				h.Errorf("%d entries %s, want %d", got, action, want)
			}
		}
	},
}
