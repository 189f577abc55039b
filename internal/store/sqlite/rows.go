package sqlite

import (
	"encoding/json"

	"github.com/bloom-runtime/bloom"
)

// task is a task as it is read for a write: what the rules look at, and what
// the queue needs to know. full is nil unless the caller asked for it.
type task struct {
	seq       int64
	id        string
	contextID string
	ordered   bool
	labels    []string
	state     bloom.TaskState
	full      *bloom.Task
}

// stateColumns stay clear of the prompt and of everything else that may be long.
const stateColumns = `t.seq, t.id, t.status, t.updated_at, t.lease_id, t.worker_id, t.attempts, t.max_attempts,
	t.run_at, t.error_class, t.cancel_requested, t.epoch, t.ordered, t.context_id, t.labels`

const stateWidth = 15

const taskColumns = stateColumns + `, t.priority, t.agent_slug, t.created_at, t.desired_format, t.timeout_sec,
	t.budget, t.idempotency_key, t.context_hints, t.prompt`

func scanState(r row) task {
	return task{
		seq: r.int(0), id: r.str(1), ordered: r.bool(12), contextID: r.str(13), labels: r.list(14),
		state: bloom.TaskState{
			Status: bloom.TaskStatus(r.str(2)), UpdatedAt: r.int(3), LeaseID: r.strp(4), WorkerID: r.strp(5),
			Attempts: int(r.int(6)), MaxAttempts: int(r.int(7)), RunAt: r.int(8), ErrorClass: r.strp(9),
			CancelRequested: r.bool(10), Epoch: r.int(11),
		},
	}
}

func scanTask(r row) task {
	t := scanState(r)
	f := r[stateWidth:]
	t.full = &bloom.Task{
		ID: t.id, ContextID: t.contextID, AgentSlug: f.str(1), Prompt: f.str(8), ContextHints: f.list(7),
		Policy:        bloom.Policy{TimeoutSec: int(f.int(4)), Budget: f.int(5), Ordered: t.ordered},
		DesiredFormat: bloom.Format(f.str(3)), CreatedAt: f.int(2), Priority: int(f.int(0)),
		Labels: t.labels, IdempotencyKey: f.strp(6), TaskState: t.state,
	}
	return t
}

// whole is the full task in its present state.
func (t *task) whole() bloom.Task {
	w := *t.full
	w.TaskState = t.state
	return w
}

func (c *conn) taskState(id string) (task, error) {
	return found(c, scanState, bloom.ErrTaskNotFound, `SELECT `+stateColumns+` FROM llm_tasks t WHERE t.id = ?`, id)
}

func (c *conn) task(id string) (task, error) {
	return found(c, scanTask, bloom.ErrTaskNotFound, `SELECT `+taskColumns+` FROM llm_tasks t WHERE t.id = ?`, id)
}

// found reads one row, or answers with missing.
func found[T any](c *conn, scan func(row) T, missing error, query string, args ...any) (v T, err error) {
	r, ok, err := c.one(query, args...)
	switch {
	case err != nil:
		return v, err
	case !ok:
		return v, missing
	}
	return scan(r), nil
}

func collect[T any](c *conn, scan func(row) T, query string, args ...any) ([]T, error) {
	all := []T{}
	err := c.each(query, func(r row) error {
		all = append(all, scan(r))
		return nil
	}, args...)
	return all, err
}

const leaseColumns = `l.id, l.task_id, l.worker_id, l.epoch, l.status, l.started_at, l.expires_at, l.ttl_seconds, l.last_heartbeat, l.context_id`

func scanLease(r row) bloom.Lease {
	return bloom.Lease{
		ID: r.str(0), TaskID: r.str(1), WorkerID: r.str(2), Epoch: r.int(3), Status: bloom.LeaseStatus(r.str(4)),
		StartedAt: r.int(5), ExpiresAt: r.int(6), TTLSeconds: int(r.int(7)), LastHeartbeat: r.int(8), ContextID: r.strp(9),
	}
}

// lease reads one lease of a task; one of another task is as good as lost.
func (c *conn) lease(id, taskID string) (bloom.Lease, error) {
	return found(c, scanLease, bloom.ErrLeaseLost, `SELECT `+leaseColumns+` FROM leases l WHERE l.id = ? AND l.task_id = ?`, id, taskID)
}

// activeLease is the lease under which a task is held.
func (c *conn) activeLease(taskID string) (bloom.Lease, error) {
	return found(c, scanLease, bloom.ErrLeaseNotFound, `SELECT `+leaseColumns+` FROM leases l WHERE l.task_id = ? AND l.status = 'active'`, taskID)
}

const artifactColumns = `a.id, a.task_id, a.job_id, a.type, a.created_at, a.finalized, a.url, a.entity_refs, a.tags, a.size, a.sha256, a.media_type, a.content`

func scanArtifact(r row) bloom.Artifact {
	return bloom.Artifact{
		ID: r.str(0), TaskID: r.str(1), JobID: r.strp(2), Type: r.str(3), CreatedAt: r.int(4), Finalized: r.bool(5), URL: r.strp(6),
		EntityRefs: r.list(7), Tags: r.list(8), Size: r.int(9), SHA256: r.str(10), MediaType: r.str(11), Content: r.strp(12),
	}
}

const resultColumns = `r.id, r.task_id, r.worker_id, r.artifact_id, r.status, r.error_message, r.metrics, r.completed_at, r.error_class, r.epoch, a.content`

func scanResult(r row) bloom.Result {
	res := bloom.Result{
		ID: r.str(0), TaskID: r.str(1), WorkerID: r.str(2), ArtifactID: r.str(3), Status: bloom.Outcome(r.str(4)),
		ErrorMessage: r.strp(5), CompletedAt: r.int(7), ErrorClass: r.strp(8), Epoch: r.int(9), Output: r.strp(10),
	}
	_ = json.Unmarshal([]byte(r.str(6)), &res.Metrics)
	return res
}
