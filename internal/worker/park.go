package worker

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Each time that the credentials are refused, the worker waits longer before it claims again:
// refused tasks end at once, and a worker would start the whole queue within minutes.
const (
	firstRefusal = 15 * time.Second
	maxRefusal   = 30 * time.Minute
)

// refusedDelay is how long after the pause a task waits that was refused again. From its third refusal
// on it waits for further pauses, one more each time, so that several such tasks keep no other waiting.
const refusedDelay = 2 * time.Second

// maxPauseReason limits the reason of a pause, in bytes: lists of workers contain it.
const maxPauseReason = 300

// maxSuspects is how many refused tasks a worker remembers, those that were refused last.
const maxSuspects = 1000

// A task that alone is refused, which the success of another one since its last refusal shows,
// would keep the worker from all tasks: it waits by itself, longer each time. Such a refusal costs
// no attempt either, until there were freeRefusals of them: a limit may be of the task's model.
const (
	freeRefusals  = 9
	maxAloneDelay = 5 * time.Minute
)

// suspicion is what a worker remembers of a refused task.
type suspicion struct {
	last     time.Time
	refusals int
	alone    int // how often it alone was refused
}

// noteCredentials parks the worker if a run's credentials were refused, unless only this task is
// refused.
func (w *Worker) noteCredentials(j *job, run *attempt.Run) {
	success := !run.Refused && run.Completion.Status == bloom.OutcomeSuccess
	if success {
		w.credentialsAccepted(j)
	}
	now := w.now()
	w.mu.Lock()
	if success {
		w.acceptedAt = now
	}
	if success && j.since.After(w.refusedAt) {
		w.refusals = 0
	}
	if run.Refused {
		if alone := w.suspect(j, now); alone > 0 {
			run.Refused, run.Completion.Retryable, j.refusedAlone = false, true, true
			if run.Release != nil {
				run.Release.NotBefore = timing.Millis(now.Add(min(firstRefusal<<min(alone-1, 16), maxAloneDelay)))
			}
			if alone > freeRefusals {
				run.Release = nil
			}
		}
	}
	if !run.Refused || now.Before(w.parked()) { // parked: by a run beside this one
		w.mu.Unlock()
		return
	}
	wait := min(firstRefusal<<min(w.refusals, 16), maxRefusal)
	w.refusals++
	w.refusedAt, w.limited = now, true
	w.mu.Unlock()
	w.park(j, now.Add(wait), *run)
}

// suspect notes that a task was refused, and returns how often it alone was: 0 unless another one has
// succeeded since it was last refused. It requires w.mu.
func (w *Worker) suspect(j *job, now time.Time) (alone int) {
	before, again := w.suspects[j.keeper.task.ID]
	if w.suspects == nil {
		w.suspects = map[string]suspicion{}
	}
	if !again && len(w.suspects) >= maxSuspects {
		delete(w.suspects, slices.MinFunc(slices.Collect(maps.Keys(w.suspects)), func(a, b string) int {
			return w.suspects[a].last.Compare(w.suspects[b].last)
		}))
	}
	if again && w.acceptedAt.After(before.last) {
		before.alone++
		alone = before.alone
	}
	before.refusals++
	before.last, j.refusals = now, before.refusals
	w.suspects[j.keeper.task.ID] = before
	return alone
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

// park stops claiming because a run's credentials were rate-limited or refused, and tells the
// server why.
func (w *Worker) park(j *job, until time.Time, run attempt.Run) {
	reason := "the credentials were refused"
	if message := run.Completion.ErrorMessage; message != nil {
		reason = *message
	} else if run.Release != nil {
		reason = run.Release.Reason
	}
	reason = cmp.Or(reason, "its credentials are limited")
	j.sender.emit("parked", map[string]any{
		"message": "this worker takes no new tasks until " + until.UTC().Format(time.RFC3339), "until": timing.Millis(until), "reason": reason,
	})
	class := bloom.ClassRateLimited
	if run.Completion.ErrorClass == bloom.ClassAuth {
		class = bloom.ClassAuth
	}
	w.mu.Lock()
	if until.After(w.parked()) {
		w.pausing = &bloom.Pause{Until: timing.Millis(until), Class: class, Reason: strings.ToValidUTF8(reason[:min(len(reason), maxPauseReason)], "")}
	}
	w.mu.Unlock()
	w.log.Warn("not claiming tasks for a while", "until", until.UTC().Format(time.RFC3339), "reason", reason)
	w.interrupt() // the poll in flight asks for tasks
}

// afterPause returns when a task that was refused again may start, in Unix milliseconds: after the
// pause, so that another task is the first to try. 0 for other tasks.
func (w *Worker) afterPause(j *job) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.refusals < 2 || w.pausing == nil {
		return 0
	}
	next := min(firstRefusal<<min(w.refusals, 16), maxRefusal)
	return w.pausing.Until + (time.Duration(j.refusals-2)*next + refusedDelay).Milliseconds()
}

// parked returns until when the worker claims nothing. It requires w.mu.
func (w *Worker) parked() time.Time {
	if w.pausing == nil {
		return time.Time{}
	}
	return time.UnixMilli(w.pausing.Until)
}

// paused returns why the worker claims nothing now, nil if it does. It requires w.mu.
func (w *Worker) paused() *bloom.Pause {
	if !w.now().Before(w.parked()) {
		return nil
	}
	return w.pausing
}
