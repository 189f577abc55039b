package storetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var retentionRaceTests = map[string]func(*harness){
	"either the requeue or the removal wins": func(h *harness) {
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
					if _, err := h.s.RemoveTasks(h.ctx, contract.RemoveRequest{OlderThan: kept, Limit: 3}); err != nil {
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
	"removal does not affect working clients": func(h *harness) {
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
					_, err := h.s.RemoveTasks(h.ctx, contract.RemoveRequest{OlderThan: kept, Limit: 5})
					if err == nil {
						_, err = h.s.RemoveAudit(h.ctx, contract.RemoveRequest{OlderThan: kept, Limit: 20})
					}
					if err == nil {
						_, err = h.s.RemoveEvents(h.ctx, contract.RemoveRequest{OlderThan: kept, Limit: 5})
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
				l, _, err := h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: task.ID, WorkerID: fmt.Sprint("w", i)})
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
		if left > 7 { // the contexts' last leases may be theirs
			h.Errorf("%d old tasks are left", left)
		}
	},
}
