package worker

import (
	"context"

	"github.com/bloom-runtime/bloom"
)

// settled is called by the outbox when a lease's outcome was delivered or refused.
func (w *Worker) settled(d delivery, delivered bool) {
	defer w.outcomeEnded()
	w.state.removeEntry(d.LeaseID)
	log := d.logger(w.log)
	switch {
	case !delivered:
		w.count(func(s *Status) { s.Refused++ })
		if d.Kind == deliveryCompletion && !d.Substitute && d.malformed {
			sub := completion(bloom.Lease{ID: d.LeaseID, TaskID: d.TaskID, TTLSeconds: d.TTL},
				failure(bloom.ClassInternal, "The server refused this attempt's completion; the worker keeps it in its state folder", false), w.now())
			sub.Substitute, sub.Request, sub.memoryOnly = true, d.Request, d.notMoved
			w.send(sub)
		}
	case d.Kind == deliveryRelease:
		w.count(func(s *Status) { s.Released++ })
		log.Info("task released")
	case d.Kind == deliverySuspension:
		log.Info("task suspended: it waits for a person")
	default:
		w.count(func(s *Status) { s.Completed++ })
		if d.Class != "" {
			log = log.With("error_class", d.Class)
		}
		log.Info("task finished and reported", "status", d.Status)
	}
}

// AwaitOutcome waits until the outcome of a lease's run was accepted or refused, or it is
// certain that it will not be delivered.
func (w *Worker) AwaitOutcome(ctx context.Context, leaseID string) error {
	for {
		w.mu.Lock()
		ended, running := w.ended, w.jobs[leaseID] != nil
		w.mu.Unlock()
		if !running && !w.outbox.has(leaseID) {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// outcomeEnded wakes AwaitOutcome.
func (w *Worker) outcomeEnded() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.ended)
	w.ended = make(chan struct{})
}
