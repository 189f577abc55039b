package worker

import (
	"time"

	"github.com/bloom-runtime/bloom"
)

// Each time that the credentials are refused, the worker waits longer before it claims again:
// refused tasks fail at once, and a worker would fail the whole queue within minutes.
const (
	firstRefusal = 15 * time.Second
	maxRefusal   = 30 * time.Minute
)

// noteCredentials parks the worker if a run's credentials were refused.
func (w *Worker) noteCredentials(j *job, run bloom.Run) {
	success := !run.Refused && run.Completion.Status == bloom.OutcomeSuccess
	if success {
		w.credentialsAccepted(j)
	}
	now := w.now()
	w.mu.Lock()
	if success && j.since.After(w.refusedAt) {
		w.refusals = 0
	}
	if !run.Refused || now.Before(w.parked) { // parked: by a run beside this one
		w.mu.Unlock()
		return
	}
	wait := min(firstRefusal<<min(w.refusals, 16), maxRefusal)
	w.refusals++
	w.refusedAt, w.limited = now, true
	w.mu.Unlock()
	reason := "the model's provider refused the credentials"
	if said := run.Completion.ErrorMessage; said != nil {
		reason = *said
	}
	w.park(j, now.Add(wait), reason)
}

// credentialsAccepted lifts the limit to one task, because the model has answered a run that
// began after the credentials had been refused. Until a run succeeds, the next refusal still means
// a longer wait.
func (w *Worker) credentialsAccepted(j *job) {
	w.mu.Lock()
	accepted := w.limited && j.since.After(w.refusedAt)
	if accepted {
		w.limited = false
	}
	w.mu.Unlock()
	if accepted {
		w.interrupt() // the poll in flight asks for too few
	}
}

// park stops claiming: the credentials are rate-limited or refused.
func (w *Worker) park(j *job, until time.Time, reason string) {
	j.sender.emit("parked", map[string]any{
		"message": "this worker takes no new tasks until " + until.UTC().Format(time.RFC3339), "until": bloom.Millis(until), "reason": reason,
	})
	w.mu.Lock()
	if until.After(w.parked) {
		w.parked = until
	}
	w.mu.Unlock()
	w.log.Warn("not claiming tasks for a while", "until", until.UTC().Format(time.RFC3339), "reason", reason)
}
