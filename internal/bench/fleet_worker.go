package bench

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/bloom-runtime/bloom"
)

// fleetWait is how long one poll of a worker waits, in seconds.
const fleetWait = 20

// fleetWorker is one worker of the fleet. It has one long poll at a time, and one
// connection per slot that completes the claimed tasks. The server answers a waiting
// poll when one of the leases that it names is completed; the next poll then asks for
// the free slot.
type fleetWorker struct {
	*fleetRun
	name  string
	tasks chan claimedTask // for the slots
	ended chan string      // leases
}

// claimedTask is a task in a slot.
type claimedTask struct{ context, task, lease string }

// work runs one worker until ctx ends.
func (r *fleetRun) work(ctx context.Context, name string) error {
	w := &fleetWorker{fleetRun: r, name: name, tasks: make(chan claimedTask, r.Slots), ended: make(chan string, 2*r.Slots)}
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

// slot completes the tasks it receives.
func (w *fleetWorker) slot(ctx context.Context) error {
	wire, err := w.dial(ctx)
	if err != nil {
		return err
	}
	for t := range w.tasks {
		began := time.Now()
		if err := wire.Complete(t.task, t.lease); err != nil {
			return err
		}
		w.steps.since("complete", began)
		w.finished(t)
	}
	return nil
}

// finished frees the task's entry in the backlog and its slot.
func (w *fleetWorker) finished(t claimedTask) {
	w.mu.Lock()
	pending := w.fleetRun.tasks[t.context]
	delete(w.fleetRun.tasks, t.context)
	w.mu.Unlock()
	close(pending.done)
	<-w.backlog
	w.ended <- t.lease
}

// poll repeatedly claims as many tasks as there are free slots.
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
		leases, err := wire.Claim(w.name, w.site.Label, w.Slots-len(holds), fleetWait, holds)
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

// start passes claimed tasks of this run to the slots. It releases all others: the
// benchmark must not complete a task that somebody else created.
func (w *fleetWorker) start(ctx context.Context, leases []bloom.LeasedTask, holds map[string]bool) error {
	now := time.Now()
	var others []bloom.LeasedTask
	for _, l := range leases {
		w.mu.Lock()
		pending, ours := w.fleetRun.tasks[l.Task.ContextID]
		w.mu.Unlock()
		switch {
		case holds[l.Lease.ID]: // its completion is in progress
		case !ours:
			others = append(others, l)
		default:
			w.steps.Add(*w.step.Load(), now.Sub(pending.created))
			holds[l.Lease.ID] = true
			w.tasks <- claimedTask{l.Task.ContextID, l.Task.ID, l.Lease.ID}
		}
	}
	return w.site.ReleaseOthers(ctx, others)
}
