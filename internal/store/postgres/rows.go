package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/schema"
)

// task is a task as it was read under its lock, or as it is about to be
// inserted, with what the operations of the transaction make of it.
type task struct {
	bloom.Task
	seq       int64
	gate      bloom.Gate // "" unless queued
	labelKey  string
	preferred *string
	until     int64 // of preferred, Unix milliseconds
	lastEvent int64

	whole   bool       // prompt and hints were read, too
	version uint32     // of the row as it was read: its xmin; 0 when that is not known
	insert  *insertion // not nil: the task is new
	dirty   bool       // to be written
}

// insertion is what of a new task is never read again.
type insertion struct {
	scope    *string
	bodyHash string
	told     string // the data of its first event
}

// lease is a lease in the same sense.
type lease struct {
	bloom.Lease
	was     bloom.LeaseStatus
	version uint32 // as a task's
	insert  bool
	dirty   bool
}

const smallColumns = `t.seq, t.id, t.status, coalesce(t.gate, ''), t.updated_at, t.lease_id, t.worker_id, t.attempts, t.max_attempts,
	t.run_at, t.error_class, t.cancel_requested, t.epoch, t.ordered, t.context_id, t.label_key, t.preferred_worker,
	t.preferred_until, t.last_event, t.priority, t.agent_slug, t.created_at, t.desired_format, t.timeout_sec, t.budget,
	t.labels, t.idempotency_key`

const taskColumns = smallColumns + `, t.context_hints, t.prompt`

func (t *task) fields() []any {
	return []any{
		&t.seq, &t.ID, &t.Status, &t.gate, &t.UpdatedAt, &t.LeaseID, &t.WorkerID, &t.Attempts, &t.MaxAttempts,
		&t.RunAt, &t.ErrorClass, &t.CancelRequested, &t.Epoch, &t.Policy.Ordered, &t.ContextID, &t.labelKey, &t.preferred,
		&t.until, &t.lastEvent, &t.Priority, &t.AgentSlug, &t.CreatedAt, &t.DesiredFormat, &t.Policy.TimeoutSec, &t.Policy.Budget,
		(*list)(&t.Labels), &t.IdempotencyKey, (*list)(&t.ContextHints), (*text)(&t.Prompt),
	}
}

func scanTask(r pgx.Rows) (*task, error) {
	t := &task{whole: true}
	return t, r.Scan(t.fields()...)
}

// scanLocked reads a task with its row's version before the columns.
func scanLocked(r pgx.Rows) (*task, error) {
	t := &task{whole: true}
	return t, r.Scan(append([]any{&t.version}, t.fields()...)...)
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

// text reads NULL as "".
type text string

// ScanText takes a nullable text.
func (t *text) ScanText(v pgtype.Text) error {
	*t = text(v.String)
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

const artifactColumns = `a.id, a.task_id, a.job_id, a.type, a.created_at, a.finalized, a.url, a.entity_refs, a.tags, a.size, a.sha256, a.media_type, a.content`

func artifactFields(a *bloom.Artifact) []any {
	return []any{
		&a.ID, &a.TaskID, &a.JobID, &a.Type, &a.CreatedAt, &a.Finalized, &a.URL, (*list)(&a.EntityRefs), (*list)(&a.Tags),
		&a.Size, &a.SHA256, &a.MediaType, &a.Content,
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

// isID reports whether s is a UUID as this system writes them. Any other name
// belongs to nothing.
func isID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}

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
