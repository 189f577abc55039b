package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bloom-runtime/bloom"
)

// What is old is looked for by the readers, then locked, looked at once more and
// removed in a transaction of its own. Rows that somebody else has locked are
// passed over until the next time.

// aged is a task that may be old enough.
type aged struct {
	seq, created int64
	id, context  string
	state        bloom.TaskState
	first, last  int64 // numbers in its stream; 0 when there is none
}

const agedColumns = `t.seq, t.created_at, t.id, t.context_id, t.status, t.updated_at`

func (e *aged) fields() []any {
	return []any{&e.seq, &e.created, &e.id, &e.context, &e.state.Status, &e.state.UpdatedAt}
}

func scanAged(r pgx.Rows) (e aged, err error) {
	err = r.Scan(e.fields()...)
	return e, err
}

// foundOld are the old ones of what was looked at.
type foundOld struct {
	before int64
	old    []int64 // seqs
	next   int64
	more   bool
}

// findOld takes from the tasks that query lists, in their order, those that may
// go. The walk ends where everything looked at is younger than what may.
func (s *Store) findOld(ctx context.Context, r bloom.RemoveRequest, query string) (foundOld, error) {
	return read(ctx, s, func(c reader) (f foundOld, err error) {
		var now int64
		if err := c.QueryRow(ctx, `SELECT `+nowSQL, s.testNow()).Scan(&now); err != nil {
			return f, err
		}
		entries, err := collect(ctx, c, scanAged, query, r.After, bloom.RemoveWindow)
		f.before, f.next = r.Before(now), r.After
		for _, e := range entries {
			if len(f.old) == r.Batch() {
				f.more = true
				return f, err
			}
			f.next = e.seq
			f.more = f.more || e.created < f.before
			if bloom.Removable(e.state, f.before) {
				f.old = append(f.old, e.seq)
			}
		}
		f.more = f.more && len(entries) == bloom.RemoveWindow
		return f, err
	})
}

// RemoveTasks removes ended tasks with all that belongs to them.
func (s *Store) RemoveTasks(ctx context.Context, r bloom.RemoveRequest) (bloom.Removed, error) {
	f, err := s.findOld(ctx, r, `SELECT `+agedColumns+` FROM llm_tasks t WHERE t.seq > $1 ORDER BY t.seq LIMIT $2`)
	return s.removeOld(ctx, f, err, bloom.ActionTasksRemoved, (*tx).removeTasks)
}

// streams walks along the tasks whose events are still there: one step of the
// index for each, however many events it has.
const streams = `WITH RECURSIVE w (task, n) AS (
		(SELECT e.task, 1 FROM task_events e WHERE e.task > $1 ORDER BY e.task LIMIT 1)
		UNION ALL
		SELECT (SELECT e.task FROM task_events e WHERE e.task > w.task ORDER BY e.task LIMIT 1), w.n + 1 FROM w WHERE w.task IS NOT NULL AND w.n < $2)
	SELECT ` + agedColumns + ` FROM w JOIN llm_tasks t ON t.seq = w.task ORDER BY w.n`

// RemoveEvents removes the streams of ended tasks.
func (s *Store) RemoveEvents(ctx context.Context, r bloom.RemoveRequest) (bloom.Removed, error) {
	f, err := s.findOld(ctx, r, streams)
	return s.removeOld(ctx, f, err, bloom.ActionEventsRemoved, (*tx).removeStreams)
}

// removeOld removes what was found, until the batch has no room for more events.
func (s *Store) removeOld(ctx context.Context, f foundOld, err error, action string, remove func(*tx, []aged) (bloom.Removed, error)) (bloom.Removed, error) {
	if err != nil || len(f.old) == 0 {
		return bloom.Removed{Next: f.next, More: f.more}, err
	}
	return separately(ctx, s, func(*want) {}, func(t *tx) (did bloom.Removed, err error) {
		locked, err := t.lockOld(f)
		if err != nil {
			return did, err
		}
		next, more, room, n := f.next, f.more, int64(bloom.MaxRemoveEvents), 0
		for n < len(locked) && locked[n].stream() <= room {
			room -= locked[n].stream()
			n++
		}
		switch {
		case n == 0 && len(locked) > 0:
			did, err = t.shorten(locked[0], room)
		case n > 0:
			did, err = remove(t, locked[:n])
		}
		if err != nil {
			return did, err
		}
		if n < len(locked) {
			next, more = locked[n].seq-1, true
		}
		did.Next, did.More = next, more
		t.auditRemoval(action, did, f.before)
		return did, nil
	})
}

// stream is how many events there are, at most.
func (e *aged) stream() int64 {
	if e.last == 0 {
		return 0
	}
	return e.last - e.first + 1
}

// lockOld locks what was found, in the order of seq like everybody, as far as it
// is still old.
func (t *tx) lockOld(f foundOld) ([]aged, error) {
	all, err := collect(t.ctx, t.c, func(r pgx.Rows) (e aged, err error) {
		err = r.Scan(append(e.fields(), &e.first, &e.last)...)
		return e, err
	}, `SELECT `+agedColumns+`, coalesce((SELECT e.seq FROM task_events e WHERE e.task = t.seq ORDER BY e.seq LIMIT 1), 0),
			coalesce((SELECT e.seq FROM task_events e WHERE e.task = t.seq ORDER BY e.seq DESC LIMIT 1), 0)
		FROM llm_tasks t WHERE t.seq = ANY($1::bigint[]) ORDER BY t.seq FOR UPDATE SKIP LOCKED`, f.old)
	old := all[:0]
	for _, e := range all {
		if bloom.Removable(e.state, f.before) {
			old = append(old, e)
		}
	}
	return old, err
}

// shorten removes the oldest events of one task that has more than go in a batch.
func (t *tx) shorten(e aged, room int64) (did bloom.Removed, err error) {
	t.wrote = true
	tag, err := t.c.Exec(t.ctx, `DELETE FROM task_events WHERE task = $1 AND seq < $2`, e.seq, e.first+room)
	did.Events = tag.RowsAffected()
	return did, err
}

const deleteStreams = `DELETE FROM task_events WHERE task = ANY($1::bigint[])`

// removeStreams removes all events of tasks; the tasks themselves know where the
// numbering was.
func (t *tx) removeStreams(old []aged) (did bloom.Removed, err error) {
	t.wrote = true
	tag, err := t.c.Exec(t.ctx, deleteStreams, column(old, func(e aged) int64 { return e.seq }))
	did.Events = tag.RowsAffected()
	return did, err
}

// removeTasks removes tasks and all that is their own, in one round trip.
func (t *tx) removeTasks(old []aged) (did bloom.Removed, err error) {
	if old, err = t.withoutHomes(old); err != nil || len(old) == 0 {
		return did, err
	}
	t.wrote = true
	seqs, ids := column(old, func(e aged) int64 { return e.seq }), column(old, func(e aged) string { return e.id })
	b := &pgx.Batch{}
	rows := func(n *int64, statement string, args ...any) {
		b.Queue(statement, args...).Exec(func(tag pgconn.CommandTag) error {
			*n = tag.RowsAffected()
			return nil
		})
	}
	rows(&did.Events, deleteStreams, seqs)
	rows(&did.Leases, `DELETE FROM leases WHERE task_id = ANY($1::text[]::uuid[]) AND status <> 'active'`, ids)
	rows(&did.Results, `DELETE FROM llm_results WHERE task_id = ANY($1::text[]::uuid[])`, ids)
	rows(&did.Contents, `INSERT INTO removed_contents (url, removed_at)
		SELECT url, $2 FROM runtime_artifacts WHERE task_id = ANY($1::text[]::uuid[]) AND url IS NOT NULL ORDER BY seq`, ids, t.now)
	rows(&did.Artifacts, `DELETE FROM runtime_artifacts WHERE task_id = ANY($1::text[]::uuid[])`, ids)
	rows(&did.Tasks, `DELETE FROM llm_tasks WHERE seq = ANY($1::bigint[])`, seqs)
	if err := t.c.SendBatch(t.ctx, b).Close(); err != nil {
		return did, err
	}
	for _, e := range old {
		t.counts[slices.Index(bloom.TaskStatuses, e.state.Status)]--
	}
	t.counts[countLeases] -= did.Leases
	return did, nil
}

// withoutHomes leaves out tasks whose lease is the last one of its context, by
// which the context's next task finds the worker that knows it, where such a task
// waits or is under way.
func (t *tx) withoutHomes(old []aged) ([]aged, error) {
	homes, err := collect(t.ctx, t.c, scanID, `SELECT c.id FROM unnest($1::text[], $2::text[]) c (id, context_id)
		CROSS JOIN LATERAL (SELECT l.task_id FROM leases l WHERE l.context_id = c.context_id ORDER BY l.seq DESC LIMIT 1) h
		WHERE h.task_id = c.id::uuid AND (
			SELECT count(*) = $3 OR bool_or(x.status IN ('queued','leased','running'))
			FROM (SELECT t.status FROM llm_tasks t WHERE t.context_id = c.context_id ORDER BY t.seq DESC LIMIT $3) x)`,
		column(old, func(e aged) string { return e.id }), column(old, func(e aged) string { return e.context }), bloom.HomeWindow)
	if err != nil || len(homes) == 0 {
		return old, err
	}
	return slices.DeleteFunc(old, func(e aged) bool { return slices.Contains(homes, e.id) }), nil
}

func (t *tx) auditRemoval(action string, r bloom.Removed, before int64) {
	if r.Total() > 0 {
		a := bloom.RemovalAudit(action, r, before)
		t.audit(a.Action, a.EntityType, a.EntityID, a.Actor, a.Detail, a.Data)
	}
}

// RemoveAudit removes audit entries that are older, except those of live tasks.
func (s *Store) RemoveAudit(ctx context.Context, r bloom.RemoveRequest) (bloom.Removed, error) {
	type found struct {
		bloom.Removed
		before int64
		old    []int64
	}
	f, err := read(ctx, s, func(c reader) (f found, err error) {
		var now int64
		if err := c.QueryRow(ctx, `SELECT `+nowSQL, s.testNow()).Scan(&now); err != nil {
			return f, err
		}
		f.before, f.Next = r.Before(now), r.After
		type entry struct{ seq, at int64 }
		all, err := collect(ctx, c, func(r pgx.Rows) (e entry, err error) {
			err = r.Scan(&e.seq, &e.at)
			return e, err
		}, `SELECT seq, timestamp FROM audit_logs WHERE seq > $1 ORDER BY seq LIMIT $2`, r.After, r.Batch())
		for _, e := range all {
			f.Next = e.seq
			if e.at < f.before {
				f.old = append(f.old, e.seq)
			}
		}
		f.More = len(all) == r.Batch() && len(f.old) > 0
		return f, err
	})
	if err != nil || len(f.old) == 0 {
		return f.Removed, err
	}
	return separately(ctx, s, func(*want) {}, func(t *tx) (bloom.Removed, error) {
		did := f.Removed
		t.wrote = true
		tag, err := t.c.Exec(t.ctx, deleteAudit, f.old, f.before)
		did.Audit = tag.RowsAffected()
		t.auditRemoval(bloom.ActionAuditRemoved, did, f.before)
		return did, err
	})
}

// deleteAudit spares the entries of tasks that live. The name of another entity
// need not be a UUID.
const deleteAudit = `DELETE FROM audit_logs a WHERE a.seq = ANY($1::bigint[]) AND a.timestamp < $2
	AND a.seq < (SELECT max(seq) FROM audit_logs)
	AND NOT EXISTS (SELECT FROM llm_tasks t
		WHERE t.id = CASE WHEN a.entity_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN a.entity_id::uuid END
		AND t.status IN ('queued','leased','running'))`

// RemovedContent lists contents to be deleted from the blob store.
func (s *Store) RemovedContent(ctx context.Context, after int64, limit int) ([]bloom.RemovedContent, error) {
	return read(ctx, s, func(c reader) ([]bloom.RemovedContent, error) {
		return collect(ctx, c, func(r pgx.Rows) (k bloom.RemovedContent, err error) {
			err = r.Scan(&k.Seq, &k.URL)
			return k, err
		}, `SELECT seq, url FROM removed_contents WHERE seq > $1 ORDER BY seq LIMIT $2`, after, bloom.Page{Limit: limit}.Size())
	})
}

// ForgetContent drops contents that were deleted.
func (s *Store) ForgetContent(ctx context.Context, seqs []int64) error {
	if len(seqs) == 0 {
		return nil
	}
	_, err := separately(ctx, s, func(*want) {}, func(t *tx) (struct{}, error) {
		t.wrote = true
		_, err := t.c.Exec(t.ctx, `DELETE FROM removed_contents WHERE seq = ANY($1::bigint[])`, seqs)
		return struct{}{}, err
	})
	return err
}
