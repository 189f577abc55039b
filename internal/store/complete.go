package store

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
)

// Complete records the outcome of a lease in one transaction.
func (s *Store) Complete(ctx context.Context, r bloom.CompleteRequest) (bloom.Completed, error) {
	if !schema.IsID(r.ArtifactID) || !schema.IsID(r.ResultID) {
		return bloom.Completed{}, bloom.Invalid("The ids of artifact and result must be UUIDs")
	}
	reads := func(w *ReadSet) {
		readNamed(w, r.TaskID, r.Completion.LeaseID)
		w.Texts.Add(r.TaskID)
		if r.Completion.ChangesContext() {
			w.Transcripts.Add(r.ContextID)
		}
	}
	return do(ctx, s, reads, func(u *Unit) (bloom.Completed, error) { return u.complete(r) })
}

func (u *Unit) complete(r bloom.CompleteRequest) (none bloom.Completed, err error) {
	t, l, err := u.named(r.TaskID, r.Completion.LeaseID)
	if t != nil && r.Completion.LeaseID == "" && isNotFound(err) {
		err = bloom.Conflict("Task status is '%s', expected 'leased' or 'running'", t.Status)
	}
	if err != nil {
		return none, err
	}
	key := OutcomeKey{l.TaskID, l.Epoch}
	if l.Status != bloom.LeaseActive {
		if done, found, err := u.completed(t, key, r.BodyHash); err != nil || found {
			return done, err
		}
	}
	tr, err := lifecycle.Finish(t.TaskState, l.Lease, r.Completion, u.Now)
	if err != nil {
		return none, err
	}
	if used := r.Completion.Metrics.Usage(); used != (bloom.Usage{}) {
		tr.Lease.Usage = used
	} else if l.Usage != (bloom.Usage{}) { // such as of a worker that was killed
		r.Completion.Metrics = r.Completion.Metrics.WithUsage(l.Usage)
	}
	if err := u.apply(t, l, tr, r.Actor); err != nil {
		return none, err
	}
	o := &Outcome{BodyHash: r.BodyHash, Displaced: r.Displaced}
	o.Artifact, o.Result = r.Records(l.Lease, u.Now)
	u.c.Outcomes = append(u.c.Outcomes, o)
	u.done[key] = o
	if err := u.saveConversation(t, l.Lease, r); err != nil {
		return none, err
	}
	task, err := u.withText(t)
	if err != nil {
		return none, err
	}
	return bloom.Completed{Task: task, Artifact: o.Artifact, Result: o.Result, HeldMS: u.Now - l.StartedAt}, u.noteContact(l.WorkerID)
}

// completed looks for an earlier outcome of the lease. A repeat of the same completion
// gets the same answer; a different one fails with ErrOtherOutcome.
func (u *Unit) completed(t *Task, key OutcomeKey, bodyHash string) (none bloom.Completed, ok bool, err error) {
	o := u.done[key]
	if o == nil {
		if o, ok = u.rows.Outcomes[key]; !ok {
			u.missing.Outcomes.Add(key)
			return none, false, errMissing
		}
	}
	switch {
	case o == nil:
		return none, false, nil
	case o.BodyHash != bodyHash:
		return none, true, bloom.ErrOtherOutcome
	}
	task, err := u.withText(t)
	return bloom.Completed{Task: task, Result: o.Result, Artifact: o.Artifact, Replayed: true}, true, err
}
