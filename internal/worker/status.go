package worker

import (
	"cmp"
	"slices"
	"time"
)

// Status is a snapshot of a worker.
type Status struct {
	Name        string
	InstanceID  string
	Connected   bool   // the last request to the server succeeded
	LastError   string // why it failed otherwise
	Polling     bool   // it has sent at least one claim
	Draining    bool   // it claims no work: it is drained, or stopping
	StateError  string // why the state folder cannot be written; "" when it can
	ParkedUntil time.Time
	Capacity    int
	Running     int
	Runs        []RunStatus // the oldest first
	Undelivered int         // outcomes in the outbox

	// Counts since the start.
	Completed, Released, Lost, Refused int
}

// RunStatus is one task at work.
type RunStatus struct {
	TaskID    string
	LeaseID   string
	ContextID string
	Since     time.Time
}

// Status returns a snapshot of the worker.
func (w *Worker) Status() Status {
	s := w.count(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != nil {
		s.InstanceID = w.state.instance
	}
	if w.outbox != nil {
		s.Undelivered = w.outbox.size()
	}
	return s
}

// count applies change to the counts, unless it is nil, and returns a snapshot.
func (w *Worker) count(change func(*Status)) Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	if change != nil {
		change(&w.status)
	}
	s := w.status
	s.Name, s.Capacity, s.Running = w.cfg.Name, w.cfg.Capabilities.MaxConcurrency, len(w.jobs)
	s.Draining, s.ParkedUntil = w.stop || w.serverDrain || w.controlDrain != nil && *w.controlDrain, w.parked()
	if w.stateErr != nil {
		s.StateError = w.stateErr.Error()
	}
	for _, j := range w.jobs {
		s.Runs = append(s.Runs, RunStatus{
			TaskID: j.keeper.task.ID, LeaseID: j.keeper.lease.ID, ContextID: j.keeper.task.ContextID, Since: j.since,
		})
	}
	slices.SortFunc(s.Runs, func(a, b RunStatus) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.LeaseID, b.LeaseID))
	})
	return s
}
