package sqlite

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/schema"
)

// Complete records the outcome of a lease in one transaction.
func (s *Store) Complete(ctx context.Context, r bloom.CompleteRequest) (bloom.Completed, error) {
	return write(ctx, s, func(t *tx) (bloom.Completed, error) { return t.complete(r) })
}

func (t *tx) complete(r bloom.CompleteRequest) (none bloom.Completed, err error) {
	tk, l, err := t.named(r.TaskID, r.Completion.LeaseID, (*tx).task)
	if tk.id != "" && r.Completion.LeaseID == "" && isNotFound(err) {
		err = bloom.Conflict("Task status is '%s', expected 'leased' or 'running'", tk.state.Status)
	}
	if err != nil {
		return none, err
	}
	if l.Status != bloom.LeaseActive {
		if done, found, err := t.completed(&tk, l, r.BodyHash); err != nil || found {
			return done, err
		}
	}
	tr, err := bloom.Finish(tk.state, l, r.Completion, t.now)
	if err != nil {
		return none, err
	}
	if err := t.apply(&tk, l, tr, r.Actor); err != nil {
		return none, err
	}
	a, res := r.Records(l, t.now)
	if err := t.putOutcome(a, res, r.BodyHash); err != nil {
		return none, err
	}
	return bloom.Completed{Task: tk.whole(), Artifact: a, Result: res}, t.touch(l.WorkerID)
}

// completed looks for the outcome that a lease already has: the same body gets
// the same answer, another one is refused.
func (t *tx) completed(tk *task, l bloom.Lease, bodyHash string) (done bloom.Completed, ok bool, err error) {
	r, ok, err := t.one(`SELECT r.body_hash, `+resultColumns+` FROM llm_results r JOIN runtime_artifacts a ON a.id = r.artifact_id
		WHERE r.task_id = ? AND r.epoch = ?`, l.TaskID, l.Epoch)
	if err != nil || !ok {
		return done, false, err
	}
	if r.str(0) != bodyHash {
		return done, true, bloom.ErrOtherOutcome
	}
	done = bloom.Completed{Task: tk.whole(), Result: scanResult(r[1:]), Replayed: true}
	done.Artifact, err = t.artifact(done.Result.ArtifactID)
	return done, true, err
}

func (c *conn) artifact(id string) (bloom.Artifact, error) {
	return found(c, scanArtifact, bloom.NotFound("Artifact"), `SELECT `+artifactColumns+` FROM runtime_artifacts a WHERE a.id = ?`, id)
}

// putOutcome writes what a completion leaves beside the task's new state.
func (t *tx) putOutcome(a bloom.Artifact, res bloom.Result, bodyHash string) error {
	if _, err := t.put(`INSERT INTO runtime_artifacts (id, task_id, type, created_at, finalized, url, tags, size, sha256, media_type, content)
		VALUES (?,?,?,?,1,?,?,?,?,?,?)`,
		a.ID, a.TaskID, a.Type, a.CreatedAt, a.URL, schema.ListJSON(a.Tags), a.Size, a.SHA256, a.MediaType, a.Content); err != nil {
		return err
	}
	_, err := t.put(`INSERT INTO llm_results (id, task_id, epoch, worker_id, artifact_id, status, error_class, metrics, completed_at, body_hash, error_message)
		VALUES (?,?,?,?,?,?,?,?,?,?,?)`,
		res.ID, res.TaskID, res.Epoch, res.WorkerID, res.ArtifactID, res.Status, res.ErrorClass, bloom.MustJSON(res.Metrics), res.CompletedAt, bodyHash, res.ErrorMessage)
	return err
}
