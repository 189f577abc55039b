package sqlite

import (
	"cmp"
	"context"
	"slices"

	"github.com/bloom-runtime/bloom"
)

// What is old is looked for on a reading connection and looked at once more by
// the writer, which removes it: nobody who writes waits for a search.

// aged is an entry that may be old enough.
type aged struct {
	seq     int64
	id      string
	context string
	state   bloom.TaskState
	created int64

	first, last int64 // numbers in its stream; 0 when there is none
}

const agedColumns = `t.seq, t.id, t.context_id, t.status, t.updated_at, t.created_at`

func scanAged(r row) aged {
	return aged{
		seq: r.int(0), id: r.str(1), context: r.str(2),
		state: bloom.TaskState{Status: bloom.TaskStatus(r.str(3)), UpdatedAt: r.int(4)}, created: r.int(5),
	}
}

// foundOld are the old ones of what was looked at.
type foundOld struct {
	old  []aged
	next int64
	more bool
}

// pickOld takes from entries, in their order, those that may go. The walk ends
// where everything looked at is younger than what may.
func pickOld(entries []aged, r bloom.RemoveRequest, before int64) (f foundOld) {
	f.next = r.After
	for _, e := range entries {
		if len(f.old) == r.Batch() {
			f.more = true
			return f
		}
		f.next = e.seq
		f.more = f.more || e.created < before
		if bloom.Removable(e.state, before) {
			f.old = append(f.old, e)
		}
	}
	f.more = f.more && len(entries) == bloom.RemoveWindow
	return f
}

// RemoveTasks removes ended tasks with all that belongs to them.
func (s *Store) RemoveTasks(ctx context.Context, r bloom.RemoveRequest) (bloom.Removed, error) {
	before := r.Before(bloom.Millis(s.cfg.Clock.Now()))
	f, err := read(ctx, s, func(c *conn) (foundOld, error) {
		all, err := collect(c, scanAged, `SELECT `+agedColumns+` FROM llm_tasks t WHERE t.seq > ? ORDER BY t.seq LIMIT ?`, r.After, bloom.RemoveWindow)
		return pickOld(all, r, before), err
	})
	return s.removeOld(ctx, f, err, bloom.ActionTasksRemoved, before, (*tx).removeTasks)
}

// RemoveEvents removes the streams of ended tasks. What the walk goes along are
// the streams that are still there.
func (s *Store) RemoveEvents(ctx context.Context, r bloom.RemoveRequest) (bloom.Removed, error) {
	before := r.Before(bloom.Millis(s.cfg.Clock.Now()))
	f, err := read(ctx, s, func(c *conn) (foundOld, error) {
		all, after := make([]aged, 0, bloom.RemoveWindow), r.After
		for len(all) < bloom.RemoveWindow {
			row, ok, err := c.one(`SELECT `+agedColumns+` FROM llm_tasks t WHERE t.seq = (SELECT e.task FROM task_events e WHERE e.task > ? ORDER BY e.task LIMIT 1)`, after)
			if err != nil {
				return foundOld{}, err
			}
			if !ok {
				break
			}
			all = append(all, scanAged(row))
			after = all[len(all)-1].seq
		}
		return pickOld(all, r, before), nil
	})
	return s.removeOld(ctx, f, err, bloom.ActionEventsRemoved, before, (*tx).removeStreams)
}

// removeOld removes what was found, until the batch has no room for more events.
func (s *Store) removeOld(ctx context.Context, f foundOld, err error, action string, before int64, remove func(*tx, []aged) (bloom.Removed, error)) (bloom.Removed, error) {
	if err != nil || len(f.old) == 0 {
		return bloom.Removed{Next: f.next, More: f.more}, err
	}
	return write(ctx, s, func(t *tx) (did bloom.Removed, err error) {
		old, err := t.stillOld(f.old, before)
		if err != nil {
			return did, err
		}
		n, room := 0, int64(bloom.MaxRemoveEvents)
		for n < len(old) && old[n].stream() <= room {
			room -= old[n].stream()
			n++
		}
		switch {
		case n == 0 && len(old) > 0: // one that has more events than go in a batch
			did.Events, err = t.put(`DELETE FROM task_events WHERE task = ? AND seq < ?`, old[0].seq, old[0].first+room)
		case n > 0:
			did, err = remove(t, old[:n])
		}
		if did.Next, did.More = f.next, f.more; n < len(old) {
			did.Next, did.More = old[n].seq-1, true
		}
		t.auditRemoval(action, did, before)
		return did, err
	})
}

// stream is how many events there are, at most.
func (e *aged) stream() int64 {
	if e.last == 0 {
		return 0
	}
	return e.last - e.first + 1
}

// stillOld looks again at what was found: it may have been requeued since, or its
// number may be another one's.
func (t *tx) stillOld(found []aged, before int64) (old []aged, err error) {
	_, ids := keysOf(found)
	err = t.each(`SELECT `+agedColumns+`, (SELECT MIN(e.seq) FROM task_events e WHERE e.task = t.seq), (SELECT MAX(e.seq) FROM task_events e WHERE e.task = t.seq)
		FROM llm_tasks t WHERE t.id IN (SELECT value FROM json_each(?))`, func(r row) error {
		e := scanAged(r)
		e.first, e.last = r.int(6), r.int(7)
		if bloom.Removable(e.state, before) {
			old = append(old, e)
		}
		return nil
	}, ids)
	slices.SortFunc(old, func(a, b aged) int { return cmp.Compare(a.seq, b.seq) })
	return old, err
}

// keysOf are the numbers and the ids of tasks as JSON, for statements that take
// them all: table by table is faster than task by task.
func keysOf(old []aged) (seqs, ids string) {
	s, i := make([]int64, len(old)), make([]string, len(old))
	for n, e := range old {
		s[n], i[n] = e.seq, e.id
	}
	return string(bloom.MustJSON(s)), string(bloom.MustJSON(i))
}

func (t *tx) auditRemoval(action string, r bloom.Removed, before int64) {
	if r.Total() > 0 {
		a := bloom.RemovalAudit(action, r, before)
		t.audit(a.Action, a.EntityType, a.EntityID, a.Actor, a.Detail, a.Data)
	}
}

const deleteStreams = `DELETE FROM task_events WHERE task IN (SELECT value FROM json_each(?))`

// removeStreams removes all events of tasks, and notes with the tasks where the
// numbering was.
func (t *tx) removeStreams(old []aged) (did bloom.Removed, err error) {
	for i := 0; err == nil && i < len(old); i++ {
		err = t.set(`UPDATE llm_tasks SET last_event = ? WHERE seq = ?`, old[i].last, old[i].seq)
	}
	if err != nil {
		return did, err
	}
	seqs, _ := keysOf(old)
	did.Events, err = t.put(deleteStreams, seqs)
	return did, err
}

// removeTasks removes tasks and all that is their own.
func (t *tx) removeTasks(old []aged) (did bloom.Removed, err error) {
	gone := make([]aged, 0, len(old))
	for _, e := range old {
		home, err := t.isHome(e)
		if err != nil {
			return did, err
		}
		if !home {
			gone = append(gone, e)
		}
	}
	if len(gone) == 0 {
		return did, nil
	}
	seqs, ids := keysOf(gone)
	for _, s := range []struct {
		n     *int64
		query string
		args  []any
	}{
		{&did.Events, deleteStreams, []any{seqs}},
		{&did.Leases, `DELETE FROM leases WHERE task_id IN (SELECT value FROM json_each(?)) AND status <> 'active'`, []any{ids}},
		{&did.Results, `DELETE FROM llm_results WHERE task_id IN (SELECT value FROM json_each(?))`, []any{ids}},
		{&did.Contents, `INSERT INTO removed_contents (url, removed_at) SELECT url, ?2 FROM runtime_artifacts
			WHERE task_id IN (SELECT value FROM json_each(?1)) AND url IS NOT NULL`, []any{ids, t.now}},
		{&did.Artifacts, `DELETE FROM runtime_artifacts WHERE task_id IN (SELECT value FROM json_each(?))`, []any{ids}},
		{&did.Tasks, `DELETE FROM llm_tasks WHERE seq IN (SELECT value FROM json_each(?))`, []any{seqs}},
	} {
		if *s.n, err = t.put(s.query, s.args...); err != nil {
			return did, err
		}
	}
	for _, e := range gone {
		t.counts.tasks(e.state.Status, -1)
	}
	t.counts.leases -= did.Leases
	return did, nil
}

// isHome reports that the task's lease is the last one of its context, by which
// the context's next task finds the worker that knows it, and that such a task
// waits or is under way.
func (t *tx) isHome(e aged) (bool, error) {
	r, ok, err := t.one(`SELECT task_id FROM leases INDEXED BY leases_context WHERE context_id = ? ORDER BY seq DESC LIMIT 1`, e.context)
	if err != nil || !ok || r.str(0) != e.id {
		return false, err
	}
	looked, lives := 0, false
	err = t.each(`SELECT status FROM llm_tasks INDEXED BY llm_tasks_context WHERE context_id = ? ORDER BY seq DESC LIMIT ?`, func(r row) error {
		looked++
		if lives = !bloom.TaskStatus(r.str(0)).Terminal(); lives {
			return errStop
		}
		return nil
	}, e.context, bloom.HomeWindow)
	return lives || looked == bloom.HomeWindow, err
}

// RemoveAudit removes audit entries that are older, except those of live tasks.
func (s *Store) RemoveAudit(ctx context.Context, r bloom.RemoveRequest) (bloom.Removed, error) {
	before := r.Before(bloom.Millis(s.cfg.Clock.Now()))
	type entry struct{ seq, at int64 }
	all, err := read(ctx, s, func(c *conn) ([]entry, error) {
		return collect(c, func(r row) entry { return entry{r.int(0), r.int(1)} },
			`SELECT seq, timestamp FROM audit_logs WHERE seq > ? ORDER BY seq LIMIT ?`, r.After, r.Batch())
	})
	did := bloom.Removed{Next: r.After}
	var old []int64
	for _, e := range all {
		did.Next = e.seq
		if e.at < before {
			old = append(old, e.seq)
		}
	}
	did.More = len(all) == r.Batch() && len(old) > 0
	if err != nil || len(old) == 0 {
		return did, err
	}
	return write(ctx, s, func(t *tx) (bloom.Removed, error) {
		did := did
		var err error
		// The newest stays, so that its number is not given again.
		did.Audit, err = t.put(`DELETE FROM audit_logs WHERE seq IN (SELECT value FROM json_each(?1)) AND timestamp < ?2
			AND seq < (SELECT MAX(seq) FROM audit_logs)
			AND NOT EXISTS (SELECT 1 FROM llm_tasks t WHERE t.id = entity_id AND t.status IN ('queued','leased','running'))`,
			string(bloom.MustJSON(old)), before)
		t.auditRemoval(bloom.ActionAuditRemoved, did, before)
		return did, err
	})
}

// RemovedContent lists contents to be deleted from the blob store.
func (s *Store) RemovedContent(ctx context.Context, after int64, limit int) ([]bloom.RemovedContent, error) {
	return read(ctx, s, func(c *conn) ([]bloom.RemovedContent, error) {
		return collect(c, func(r row) bloom.RemovedContent { return bloom.RemovedContent{Seq: r.int(0), URL: r.str(1)} },
			`SELECT seq, url FROM removed_contents WHERE seq > ? ORDER BY seq LIMIT ?`, after, bloom.Page{Limit: limit}.Size())
	})
}

// ForgetContent drops contents that were deleted.
func (s *Store) ForgetContent(ctx context.Context, seqs []int64) error {
	if len(seqs) == 0 {
		return nil
	}
	_, err := write(ctx, s, func(t *tx) (struct{}, error) {
		for _, seq := range seqs {
			if _, err := t.put(`DELETE FROM removed_contents WHERE seq = ?`, seq); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	return err
}
