package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
)

// Complete records the outcome of a lease in one transaction.
func (s *Store) Complete(ctx context.Context, r bloom.CompleteRequest) (bloom.Completed, error) {
	if !isID(r.ArtifactID) || !isID(r.ResultID) {
		return bloom.Completed{}, bloom.Invalid("The ids of artifact and result must be UUIDs")
	}
	r.BodyHash = bloom.CleanText(r.BodyHash)
	need := func(w *want) {
		w.whole = append(w.whole, r.TaskID)
		w.wantLease(r.TaskID, r.Completion.LeaseID)
	}
	return together(ctx, s.lane, need, func(t *tx) (bloom.Completed, error) { return t.complete(r) })
}

func (t *tx) complete(r bloom.CompleteRequest) (none bloom.Completed, err error) {
	tk, l, err := t.named(r.TaskID, r.Completion.LeaseID)
	if tk != nil && r.Completion.LeaseID == "" && isNotFound(err) {
		err = bloom.Conflict("Task status is '%s', expected 'leased' or 'running'", tk.Status)
	}
	if err != nil {
		return none, err
	}
	if l.Status != bloom.LeaseActive {
		if done, found, err := t.completed(tk, l, r.BodyHash); err != nil || found {
			return done, err
		}
	}
	tr, err := bloom.Finish(tk.TaskState, l.Lease, r.Completion, t.now)
	if err != nil {
		return none, err
	}
	if err := t.apply(tk, l, tr, r.Actor); err != nil {
		return none, err
	}
	a, res := r.Records(l.Lease, t.now)
	o := outcome{result: &res, artifact: &a, bodyHash: r.BodyHash}
	t.artifacts = append(t.artifacts, o.artifact)
	t.outcomes = append(t.outcomes, o)
	t.results[l.ID] = o
	return bloom.Completed{Task: tk.Task, Artifact: *o.artifact, Result: *o.result}, t.touch(l.WorkerID)
}

// completed looks for the outcome that a lease already has: the same body gets
// the same answer, another one is refused.
func (t *tx) completed(tk *task, l *lease, bodyHash string) (done bloom.Completed, ok bool, err error) {
	o, ok := t.results[l.ID]
	if !ok && t.recalled {
		return done, false, errAlone
	}
	if !ok {
		stored, err := collect(t.ctx, t.c, scanOutcome, `SELECT r.body_hash, `+resultColumns+`, `+artifactColumns+`
			FROM llm_results r JOIN runtime_artifacts a ON a.id = r.artifact_id WHERE r.task_id = $1 AND r.epoch = $2`, l.TaskID, l.Epoch)
		if err != nil || len(stored) == 0 {
			return done, false, err
		}
		o = stored[0]
	}
	if o.bodyHash != bodyHash {
		return done, true, bloom.ErrOtherOutcome
	}
	return bloom.Completed{Task: tk.Task, Result: *o.result, Artifact: *o.artifact, Replayed: true}, true, nil
}

func scanOutcome(r pgx.Rows) (outcome, error) {
	o := outcome{result: &bloom.Result{}, artifact: &bloom.Artifact{}}
	a := o.artifact
	fields := append([]any{&o.bodyHash}, resultFields(o.result)...)
	err := r.Scan(append(fields, artifactFields(a)...)...)
	return o, err
}
