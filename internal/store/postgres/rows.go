package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/store"
)

const taskColumns = `t.seq, t.id, t.status, coalesce(t.gate, ''), t.updated_at, t.lease_id, t.worker_id, t.attempts, t.max_attempts,
	t.run_at, t.error_class, t.cancel_requested, t.epoch, t.ordered, t.context_id, t.preferred_worker,
	t.preferred_until, t.last_event, t.priority, t.agent_slug, t.created_at, t.desired_format, t.timeout_sec, t.budget,
	t.labels, t.idempotency_key, t.workspace, t.artifact_globs, t.request_id`

const wholeColumns = taskColumns + `, t.context_hints, t.prompt`

func taskFields(t *store.Task) []any {
	return []any{
		&t.Seq, &t.ID, &t.Status, &t.Gate, &t.UpdatedAt, &t.LeaseID, &t.WorkerID, &t.Attempts, &t.MaxAttempts,
		&t.RunAt, &t.ErrorClass, &t.CancelRequested, &t.Epoch, &t.Policy.Ordered, &t.ContextID, &t.Preferred,
		&t.Until, &t.LastEvent, &t.Priority, &t.AgentSlug, &t.CreatedAt, &t.DesiredFormat, &t.Policy.TimeoutSec, &t.Policy.Budget,
		(*list)(&t.Labels), &t.IdempotencyKey, &t.Policy.Workspace, (*globs)(&t.Policy.Artifacts), &t.RequestID,
	}
}

func wholeFields(t *store.Task) []any {
	return append(taskFields(t), (*list)(&t.ContextHints), &t.Prompt)
}

func scanTask(r pgx.Rows) (*store.Task, error) {
	t := &store.Task{}
	return t, r.Scan(taskFields(t)...)
}

func scanWhole(r pgx.Rows) (*store.Task, error) {
	t := &store.Task{}
	return t, r.Scan(wholeFields(t)...)
}

func scanHolding(r pgx.Rows) (h store.Holding, err error) {
	h.Task = &store.Task{}
	err = r.Scan(append(leaseFields(&h.Lease), taskFields(h.Task)...)...)
	return h, err
}

// list reads a JSON array of strings, never nil.
type list []string

// Scan takes the column's text, whatever its JSON type.
func (l *list) Scan(src any) error {
	switch v := src.(type) {
	case string:
		*l = schema.ParseList(v)
	case []byte:
		*l = schema.ParseList(string(v))
	default:
		*l = list{}
	}
	return nil
}

// globs reads a JSON array of strings that is nil when it is empty.
type globs []string

// Scan takes the column's text, whatever its JSON type.
func (g *globs) Scan(src any) error {
	switch v := src.(type) {
	case string:
		*g = store.Globs(v)
	case []byte:
		*g = store.Globs(string(v))
	}
	return nil
}

const leaseColumns = `l.id, l.task_id, l.worker_id, l.epoch, l.status, l.started_at, l.expires_at, l.ttl_seconds, l.last_heartbeat, l.context_id`

func leaseFields(l *bloom.Lease) []any {
	return []any{
		&l.ID, &l.TaskID, &l.WorkerID, &l.Epoch, &l.Status, &l.StartedAt, &l.ExpiresAt, &l.TTLSeconds, &l.LastHeartbeat, &l.ContextID,
	}
}

func scanLease(r pgx.Rows) (l bloom.Lease, err error) {
	err = r.Scan(leaseFields(&l)...)
	return l, err
}

const workerColumns = `w.id, w.node_id, w.url, w.status, w.claude_cli, w.max_concurrency, w.labels, w.last_heartbeat, w.ip_addrs,
	w.obs_count, w.db_sha, w.registered_at, w.agent_version, w.os_info, w.install_method, w.draining OR w.control_draining,
	w.instance_id, w.instance_seen, w.removed, w.draining, w.control_draining, w.posted_at, w.agents`

const countHeld = `(SELECT count(*) FROM leases l WHERE l.worker_id = w.id AND l.status = 'active')`

func workerFields(w *lifecycle.KnownWorker) []any {
	return []any{
		&w.ID, &w.NodeID, &w.URL, &w.Status, &w.Capabilities.ClaudeCLI, &w.Capabilities.MaxConcurrency, (*list)(&w.Capabilities.Labels),
		&w.LastHeartbeat, (*list)(&w.IPAddrs), &w.ObsCount, &w.DBSHA, &w.RegisteredAt, &w.AgentVersion, &w.OSInfo, &w.InstallMethod, &w.Draining,
		&w.InstanceID, &w.InstanceSeen, &w.Removed, &w.RuntimeDrain, &w.ControlDrain, &w.PostedAt, (*list)(&w.Agents), &w.ActiveLeases,
	}
}

func scanWorker(r pgx.Rows) (*lifecycle.KnownWorker, error) {
	w := &lifecycle.KnownWorker{}
	return w, r.Scan(workerFields(w)...)
}

const artifactColumns = `a.id, a.task_id, a.job_id, a.type, a.created_at, a.finalized, a.url, a.entity_refs, a.tags, a.size, a.sha256, a.media_type, a.content, coalesce(a.path, ''), coalesce(a.epoch, 0)`

func artifactFields(a *bloom.Artifact) []any {
	return []any{
		&a.ID, &a.TaskID, &a.JobID, &a.Type, &a.CreatedAt, &a.Finalized, &a.URL, (*list)(&a.EntityRefs), (*list)(&a.Tags),
		&a.Size, &a.SHA256, &a.MediaType, &a.Content, &a.Path, &a.Epoch,
	}
}

func scanArtifact(r pgx.Rows) (a bloom.Artifact, err error) {
	err = r.Scan(artifactFields(&a)...)
	return a, err
}

const resultColumns = `r.id, r.task_id, r.worker_id, r.artifact_id, r.status, r.error_message, r.metrics, r.completed_at, r.error_class, r.epoch, a.content`

func resultFields(r *bloom.Result) []any {
	return []any{
		&r.ID, &r.TaskID, &r.WorkerID, &r.ArtifactID, &r.Status, &r.ErrorMessage, &r.Metrics, &r.CompletedAt, &r.ErrorClass, &r.Epoch, &r.Output,
	}
}

func scanResult(rows pgx.Rows) (r bloom.Result, err error) {
	err = rows.Scan(resultFields(&r)...)
	return r, err
}

const agedColumns = `t.seq, t.created_at, t.id, t.context_id, t.status, t.updated_at`

func agedFields(e *store.Aged) []any {
	return []any{&e.Seq, &e.CreatedAt, &e.ID, &e.ContextID, &e.State.Status, &e.State.UpdatedAt}
}

func scanAged(r pgx.Rows) (e store.Aged, err error) {
	err = r.Scan(agedFields(&e)...)
	return e, err
}

// collect reads all rows, never nil.
func collect[T any](ctx context.Context, c reader, scan func(pgx.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := c.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return gather(rows, scan)
}

func gather[T any](rows pgx.Rows, scan func(pgx.Rows) (T, error)) ([]T, error) {
	defer rows.Close()
	all := []T{}
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// found reads one row, or answers with missing.
func found[T any](ctx context.Context, c reader, scan func(pgx.Rows) (T, error), missing error, query string, args ...any) (v T, err error) {
	all, err := collect(ctx, c, scan, query, args...)
	switch {
	case err != nil:
		return v, err
	case len(all) == 0:
		return v, missing
	}
	return all[0], nil
}

func scanInt(r pgx.Rows) (n int64, err error) {
	err = r.Scan(&n)
	return n, err
}

func scanText(r pgx.Rows) (s string, err error) {
	err = r.Scan(&s)
	return s, err
}

func isID(s string) bool { return schema.IsID(s) }

// idsOnly drops what cannot be the id of anything.
func idsOnly(ids []string) []string {
	known := make([]string, 0, len(ids))
	for _, id := range ids {
		if isID(id) {
			known = append(known, id)
		}
	}
	return known
}

// column is one value of every row, as a statement's array.
func column[T, V any](rows []T, value func(T) V) []V {
	c := make([]V, len(rows))
	for i, r := range rows {
		c[i] = value(r)
	}
	return c
}
