package bench

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/bloom-runtime/bloom"
)

// fleetWait is how long one poll of a fleet's worker waits, in seconds.
const fleetWait = 20

// fleetWorker is a worker as the fleet has it: one long poll at a time, and a
// connection for each slot that completes what the poll brings. The server answers
// a waiting poll when a lease that it names is completed, and so the next one asks
// for the slot that has become free.
type fleetWorker struct {
	*fleetRun
	name  string
	tasks chan held // for the slots
	ended chan string
}

// held is a task in a slot.
type held struct{ context, task, lease string }

// work is one worker until ctx ends.
func (r *fleetRun) work(ctx context.Context, name string) error {
	w := &fleetWorker{fleetRun: r, name: name, tasks: make(chan held, r.Slots), ended: make(chan string, 2*r.Slots)}
	errs := make(chan error, r.Slots+1)
	for range r.Slots {
		go func() { errs <- w.slot(ctx) }()
	}
	go func() {
		defer close(w.tasks)
		errs <- w.poll(ctx)
	}()
	var failed error
	for range r.Slots + 1 {
		if err := <-errs; err != nil && failed == nil && ctx.Err() == nil {
			failed = err
			r.close() // ends the others
		}
	}
	return failed
}

// slot completes what it is given.
func (w *fleetWorker) slot(ctx context.Context) error {
	wire, err := w.dial(ctx)
	if err != nil {
		return err
	}
	for t := range w.tasks {
		began := time.Now()
		if err := wire.complete(t.task, t.lease); err != nil {
			return err
		}
		w.steps.since("complete", began)
		w.finished(t)
	}
	return nil
}

// finished frees the task's place in the backlog and its slot.
func (w *fleetWorker) finished(t held) {
	w.mu.Lock()
	b := w.mine[t.context]
	delete(w.mine, t.context)
	w.mu.Unlock()
	close(b.done)
	<-w.backlog
	w.ended <- t.lease
}

// poll claims as many tasks as there are free slots, again and again.
func (w *fleetWorker) poll(ctx context.Context) error {
	wire, err := w.dial(ctx)
	if err != nil {
		return err
	}
	holds := map[string]bool{}
	for ctx.Err() == nil {
		for more := true; more; {
			select {
			case lease := <-w.ended:
				delete(holds, lease)
			default:
				more = false
			}
		}
		leases, err := wire.claim(w.name, w.site.label, w.Slots-len(holds), holds)
		var refused *refusedError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &refused) && refused.status == http.StatusConflict:
			w.failures.Add(1)
			continue
		case err != nil:
			return err
		}
		if err := w.start(ctx, leases, holds); err != nil {
			return err
		}
	}
	return nil
}

// start gives the slots what was claimed and is ours. What is not is released: whoever
// waits for it must not be told that it was done.
func (w *fleetWorker) start(ctx context.Context, leases []bloom.LeasedTask, holds map[string]bool) error {
	now := time.Now()
	var others []bloom.LeasedTask
	for _, l := range leases {
		w.mu.Lock()
		b, ours := w.mine[l.Task.ContextID]
		w.mu.Unlock()
		switch {
		case holds[l.Lease.ID]: // its completion is under way
		case !ours:
			others = append(others, l)
		default:
			w.steps.add(*w.step.Load(), now.Sub(b.at))
			holds[l.Lease.ID] = true
			w.tasks <- held{l.Task.ContextID, l.Task.ID, l.Lease.ID}
		}
	}
	return w.site.returnOthers(ctx, others)
}
