package store

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// OutcomeKey identifies an outcome.
type OutcomeKey struct {
	TaskID string
	Epoch  int64
}

// Outcome is a result and the rows written with it.
type Outcome struct {
	Result        bloom.Result
	Artifact      bloom.Artifact
	PendingUpload bool // of a new one: the artifact's content is not where it belongs and is moved later
	BodyHash      string
}

var outcomes = derived[OutcomeKey, *Outcome]() // stored outcomes

const resultColumns = `r.id, r.task_id, r.worker_id, r.artifact_id, r.status, r.error_message, r.metrics, r.completed_at, r.error_class, r.epoch, a.content`

func resultFields(r *bloom.Result) []any {
	return []any{
		&r.ID, &r.TaskID, &r.WorkerID, &r.ArtifactID, &r.Status, &r.ErrorMessage, &object{&r.Metrics}, &r.CompletedAt, &r.ErrorClass, &r.Epoch, &r.Output,
	}
}

var resultLayout = layout("llm_results", "id uuid, task_id uuid, epoch bigint, worker_id text, artifact_id uuid, status text, error_class text, metrics jsonb, "+
	"completed_at bigint, body_hash text, error_message text", Insert)

func resultValues(v []any, o *Outcome) []any {
	r := o.Result
	return append(v, r.ID, r.TaskID, r.Epoch, r.WorkerID, r.ArtifactID, string(r.Status), r.ErrorClass, string(storable.MustJSON(r.Metrics)),
		r.CompletedAt, o.BodyHash, r.ErrorMessage)
}

func loadOutcomes(l *Load, v *Values[OutcomeKey, *Outcome]) {
	attempts, args := l.attempts(v.Keys())
	l.Each(scan(func(o *Outcome) []any {
		return append(append([]any{&o.BodyHash}, resultFields(&o.Result)...), artifactFields(&o.Artifact)...)
	}, func(o *Outcome) { v.Set(OutcomeKey{o.Result.TaskID, o.Result.Epoch}, o) }),
		`SELECT r.body_hash, `+resultColumns+`, `+artifactColumns+` FROM `+attempts+`
			JOIN llm_results r ON r.task_id = k.task AND r.epoch = k.epoch JOIN runtime_artifacts a ON a.id = r.artifact_id`, args...)
}

// attempts returns a table of attempts and its arguments.
func (l *Load) attempts(keys []OutcomeKey) (table string, args []any) {
	return l.Table("task uuid", "epoch bigint"), l.Columns(Column(keys, func(k OutcomeKey) string { return k.TaskID }),
		Column(keys, func(k OutcomeKey) int64 { return k.Epoch }))
}

// Complete records the outcome of a lease in one transaction.
func (s *Store) Complete(ctx context.Context, r contract.CompleteRequest) (bloom.Completed, error) {
	if !storable.IsID(r.ArtifactID) || !storable.IsID(r.ResultID) {
		return bloom.Completed{}, bloom.Invalid("The ids of artifact and result must be UUIDs")
	}
	reads := func(rows *Rows) {
		wantNamed(rows, r.TaskID, r.Completion.LeaseID)
		texts.want(rows, r.TaskID)
		if r.Completion.ChangesContext() {
			transcripts.want(rows, r.ContextID)
		}
	}
	return do(ctx, s, reads, func(u *Unit) (bloom.Completed, error) { return u.complete(r) })
}

func (u *Unit) complete(r contract.CompleteRequest) (none bloom.Completed, err error) {
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
	earlier := t.Approval
	tr, err := lifecycle.Finish(t.TaskState, *l, r.Completion, u.Now)
	if err != nil {
		return none, err
	}
	if used := r.Completion.Metrics.Usage(); used != (bloom.Usage{}) {
		tr.Lease.Usage = used
	} else if l.Usage != (bloom.Usage{}) { // such as of a worker that was killed
		r.Completion.Metrics = r.Completion.Metrics.WithUsage(l.Usage)
	}
	u.completing = t.ID
	err = u.apply(t, l, tr, r.Actor)
	if u.completing = ""; err != nil {
		return none, err
	}
	if earlier != nil && earlier.Suspended != nil { // the lease's usage is its own; the result's is the whole run's
		r.Completion.Metrics = lifecycle.Together(earlier.Suspended.Metrics, r.Completion.Metrics)
	}
	o := &Outcome{BodyHash: r.BodyHash, PendingUpload: r.PendingUpload}
	o.Artifact, o.Result = r.Records(*l, u.Now)
	u.c.Outcomes = append(u.c.Outcomes, o)
	outcomes.set(u, key, o)
	if err := u.saveConversation(t, *l, r); err != nil {
		return none, err
	}
	if earlier != nil && earlier.Suspended != nil && t.Approval == nil {
		if err := u.dropSuspended(t); err != nil {
			return none, err
		}
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
	o, err := outcomes.get(u, key)
	switch {
	case err != nil:
		return none, false, err
	case o == nil:
		return none, false, nil
	case o.BodyHash != bodyHash:
		return none, true, bloom.ErrOtherOutcome
	}
	task, err := u.withText(t)
	return bloom.Completed{Task: task, Result: o.Result, Artifact: o.Artifact, Replayed: true}, true, err
}
