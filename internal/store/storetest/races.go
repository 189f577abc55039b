package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// together runs fn in n goroutines that start at the same time.
func together(n int, fn func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			ready.Done()
			<-start
			fn(i)
		}()
	}
	ready.Wait()
	close(start)
	done.Wait()
}

const racers = 50

var raceTests = map[string]func(*harness){
	"fifty claim one task": func(h *harness) {
		for i := range racers {
			h.worker(fmt.Sprint("w", i), 1)
		}
		task := h.create()
		won := make(chan string, racers)
		together(racers, func(i int) {
			name := fmt.Sprint("w", i)
			r, err := h.s.Claim(h.ctx, contract.ClaimRequest{WorkerID: name, InstanceID: name + "-1", Max: 1, TTLSec: 60})
			if err != nil {
				h.Error(err)
			}
			for _, l := range r.Leases {
				won <- l.Task.ID
			}
		})
		if len(won) != 1 || <-won != task.ID {
			h.Error("not exactly one worker got the task")
		}
	},
	"fifty lease one task": func(h *harness) {
		h.worker("w", 32)
		task := h.create()
		var won sync.Map
		together(racers, func(i int) {
			_, _, err := h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: task.ID})
			if err == nil {
				won.Store(i, true)
			} else if e := asError(err); e == nil || e.Code != bloom.CodeConflict {
				h.Error(err)
			}
		})
		same(h, "winners", size(&won), 1)
		same(h, "epoch", h.task(task.ID).Epoch, 1)
	},
	"fifty lease fifty tasks to a worker of three slots": func(h *harness) {
		h.worker("w", 3)
		tasks := make([]bloom.Task, racers)
		for i := range tasks {
			tasks[i] = h.create()
		}
		var won sync.Map
		together(racers, func(i int) {
			if _, _, err := h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: tasks[i].ID}); err == nil {
				won.Store(i, true)
			}
		})
		same(h, "leases", size(&won), 3)
	},
	"fifty creates with one idempotency key make one task": func(h *harness) {
		var made sync.Map
		together(racers, func(int) {
			task, _, err := h.s.CreateTask(h.ctx, newTask(func(n *contract.NewTask) { n.Spec.IdempotencyKey, n.IdempotencyScope = "k", "s" }))
			if err != nil {
				h.Error(err)
			}
			made.Store(task.ID, true)
		})
		same(h, "tasks", size(&made), 1)
	},
	"a claim that names leases which are completed meanwhile loses these and renews the others": func(h *harness) {
		const slots = 16
		h.worker("w", slots)
		held := map[string]string{} // lease → task
		for range 40 {
			h.create()
			for range slots {
				h.create()
			}
			for _, l := range h.claim("w", slots, slices.Collect(maps.Keys(held))...).Leases {
				held[l.Lease.ID] = l.Task.ID
			}
			named := slices.Collect(maps.Keys(held))
			var answers [3]bloom.ClaimResult
			ended := named[:len(named)/2]
			together(len(ended)+len(answers), func(i int) {
				var err error
				if i < len(ended) {
					_, err = h.s.Complete(h.ctx, success(held[ended[i]], ended[i], "done"))
				} else {
					answers[i-len(ended)], err = h.s.Claim(h.ctx, contract.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Max: slots, TTLSec: 60, Held: named, Renew: true})
				}
				if err != nil {
					h.Error(err)
				}
			})
			for _, a := range answers {
				for _, id := range named {
					renewed := slices.ContainsFunc(a.Renewed, func(r bloom.Renewal) bool { return r.LeaseID == id })
					if lost := slices.Contains(a.Lost, id); lost && (renewed || !slices.Contains(ended, id)) {
						h.Errorf("a lease is lost %v, renewed %v, completed %v", lost, renewed, slices.Contains(ended, id))
					}
				}
				for _, l := range a.Leases {
					held[l.Lease.ID] = l.Task.ID
				}
			}
			for _, id := range ended {
				delete(held, id)
			}
		}
	},
	"fifty complete one lease, half with another outcome": func(h *harness) {
		h.worker("w", 1)
		task := h.create()
		l := h.lease(task.ID, "w")
		var outcomes sync.Map
		together(racers, func(i int) {
			c, err := h.s.Complete(h.ctx, success(task.ID, l.ID, fmt.Sprint("outcome ", i%2)))
			if err == nil {
				outcomes.Store(deref(c.Result.Output), true)
			} else if !errors.Is(err, bloom.ErrOtherOutcome) {
				h.Error(err)
			}
		})
		same(h, "outcomes", size(&outcomes), 1)
	},
	"callers that stop waiting affect no other caller": func(h *harness) {
		tasks := make([]contract.NewTask, racers)
		for i := range tasks {
			tasks[i] = newTask()
		}
		together(racers, func(i int) {
			ctx := h.ctx
			if i%2 == 0 {
				c, cancel := context.WithCancel(h.ctx)
				go cancel()
				ctx = c
			}
			if _, _, err := h.s.CreateTask(ctx, tasks[i]); err != nil && (i%2 == 1 || !errors.Is(err, context.Canceled)) {
				h.Error(err)
			}
		})
		// An abandoned operation may still be committed at any later time. Creating the same
		// task again settles the outcome: the task exists exactly once.
		for _, n := range tasks {
			task, _, err := h.s.CreateTask(h.ctx, n)
			h.ok(err)
			h.status(task.ID, bloom.TaskQueued)
		}
		stats, err := h.s.Stats(h.ctx)
		h.ok(err)
		same(h, "tasks", stats.Tasks.Total, racers)
	},
	"everything at once": func(h *harness) {
		const workers, each = 8, 20
		for i := range workers {
			h.worker(fmt.Sprint("w", i), 4)
		}
		together(2*workers, func(i int) {
			name := fmt.Sprint("w", i/2)
			for n := range each {
				if i%2 == 0 {
					task, _, err := h.s.CreateTask(h.ctx, newTask(inContext(fmt.Sprint("c", n%5)), func(t *contract.NewTask) { t.Spec.Policy.Ordered = n%3 == 0 }))
					if err != nil {
						h.Error(err)
					}
					if n%7 == 0 {
						_, err = h.s.Cancel(h.ctx, task.ID, "me")
						if e := asError(err); err != nil && (e == nil || e.Kind != bloom.KindConflict) {
							h.Error(err)
						}
					}
					continue
				}
				r, err := h.s.Claim(h.ctx, contract.ClaimRequest{WorkerID: name, InstanceID: name + "-1", Max: 2, TTLSec: 60})
				if err != nil {
					h.Error(err)
				}
				for _, l := range r.Leases {
					if _, err := h.s.Complete(h.ctx, success(l.Task.ID, l.Lease.ID, "x")); err != nil {
						h.Error(err)
					}
				}
			}
		})
		st, err := h.s.Stats(h.ctx)
		h.ok(err)
		sum := SeriesTotal(h, h.s)
		same(h, "created by the series", sum.Created, st.Tasks.Total)
		same(h, "completed by the series", sum.Completed, st.Tasks.ByStatus[bloom.TaskCompleted])
		same(h, "cancelled by the series", sum.Cancelled, st.Tasks.ByStatus[bloom.TaskCancelled])
	},
}

func size(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}
