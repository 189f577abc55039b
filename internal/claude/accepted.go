package claude

import (
	"context"
	"errors"
)

// Accepted records that the server has accepted the outcome of a run, given by its lease.
// What could not be uploaded of its turn and of its folder counts from then on. Before, and
// when the outcome is refused or lost, it does not. Calling Accepted again does no harm.
func (r *Runner) Accepted(contextID, leaseID string) error {
	r.sessions.mu.Lock() // so that no record of a forgotten context is written again
	defer r.sessions.mu.Unlock()
	if r.sessions.busy[contextID] == forgetting {
		return nil
	}
	var errs []error
	// A record that cannot be read is replaced by the context's next task.
	if saved, err := r.sessions.load(contextID); err == nil && saved.LeaseID == leaseID && !saved.Pushed {
		saved.LeaseID = ""
		errs = append(errs, r.sessions.save(saved))
	}
	if note, err := r.config.workspaceRecord(contextID); err == nil && note != nil && note.LeaseID == leaseID && note.Ahead {
		note.LeaseID = ""
		errs = append(errs, r.config.saveWorkspaceRecord(*note))
	}
	return errors.Join(errs...)
}

// awaitOutcome waits until it is known whether the outcome of the context's last run here
// was accepted: the task continues that run's turn and folder only then.
func (t *taskRun) awaitOutcome(ctx context.Context) error {
	if t.config.AwaitOutcome == nil || !t.exclusive {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	saved, _ := t.runner.sessions.load(t.task.ContextID) // open reports the error
	note, _ := t.config.workspaceRecord(t.task.ContextID)
	leases := []string{saved.LeaseID}
	if note != nil && note.LeaseID != saved.LeaseID {
		leases = append(leases, note.LeaseID)
	}
	for _, lease := range leases {
		if lease == "" {
			continue
		}
		if err := t.config.AwaitOutcome(ctx, lease); err != nil {
			return err
		}
	}
	return nil
}

// lease returns the run's lease, "" if it has none.
func (t *taskRun) lease() string {
	if t.task.LeaseID == nil {
		return ""
	}
	return *t.task.LeaseID
}
