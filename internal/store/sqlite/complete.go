package sqlite

import (
	"cmp"
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
	a, err := t.putArtifact(r)
	if err != nil {
		return none, err
	}
	res, err := t.putResult(r, l, a)
	if err != nil {
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

func (t *tx) putArtifact(r bloom.CompleteRequest) (bloom.Artifact, error) {
	a := bloom.Artifact{
		ID: r.ArtifactID, TaskID: r.TaskID, Type: cmp.Or(bloom.CleanText(r.Completion.ArtifactType), bloom.DefaultArtifactType),
		CreatedAt: t.now, Finalized: true, URL: r.URL, EntityRefs: []string{}, Tags: schema.ParseList(schema.ListJSON(r.Completion.ArtifactTags)),
		Content: cleanp(r.Content), Size: r.Size, SHA256: r.SHA256, MediaType: r.MediaType,
	}
	_, err := t.put(`INSERT INTO runtime_artifacts (id, task_id, type, created_at, finalized, url, tags, size, sha256, media_type, content)
		VALUES (?,?,?,?,1,?,?,?,?,?,?)`,
		a.ID, a.TaskID, a.Type, a.CreatedAt, a.URL, schema.ListJSON(a.Tags), a.Size, a.SHA256, a.MediaType, a.Content)
	return a, err
}

func (t *tx) putResult(r bloom.CompleteRequest, l bloom.Lease, a bloom.Artifact) (bloom.Result, error) {
	c := r.Completion
	res := bloom.Result{
		ID: r.ResultID, TaskID: r.TaskID, WorkerID: l.WorkerID, ArtifactID: a.ID, Status: c.Status, Output: a.Content,
		ErrorMessage: cleanp(c.ErrorMessage), Metrics: c.Metrics, CompletedAt: t.now, Epoch: l.Epoch,
	}
	res.Metrics.Model = bloom.CleanText(res.Metrics.Model)
	if c.Status == bloom.OutcomeError {
		class := cmp.Or(bloom.CleanText(c.ErrorClass), bloom.ClassInternal)
		res.ErrorClass = &class
	}
	_, err := t.put(`INSERT INTO llm_results (id, task_id, epoch, worker_id, artifact_id, status, error_class, metrics, completed_at, body_hash, error_message)
		VALUES (?,?,?,?,?,?,?,?,?,?,?)`,
		res.ID, res.TaskID, res.Epoch, res.WorkerID, res.ArtifactID, res.Status, res.ErrorClass, bloom.MustJSON(res.Metrics), res.CompletedAt, r.BodyHash, res.ErrorMessage)
	return res, err
}

func cleanp(s *string) *string {
	if s == nil {
		return nil
	}
	clean := bloom.CleanText(*s)
	return &clean
}
