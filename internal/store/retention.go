package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Retention reads candidates on a read connection. The operation that removes them
// locks and checks them again, and skips rows that are locked by others.

var (
	aged      = derived[string, *Aged]()     // tasks that may be removed; locked, skipping those that others have locked
	agedAudit = derived[int64, *AgedAudit]() // audit entries that may be removed; locked likewise
)

// Aged is a task that may be old enough to remove.
type Aged struct {
	Seq, CreatedAt int64
	ID, ContextID  string
	State          bloom.TaskState // Status and UpdatedAt

	// Only of locked tasks.
	First, Last                         int64 // numbers of its first and last event; 0: it has none
	Leases, Results, Artifacts, Content int64 // how many it has
	Archived                            int64 // the last event that is in a run log
}

// AgedAudit is an audit entry that may be old enough to remove.
type AgedAudit struct {
	Seq, At int64
	Keep    bool // its task has not ended, it is the last of all, or it is not chained
	Only    bool // it was not exported
}

const agedColumns = `t.seq, t.created_at, t.id, t.context_id, t.status, t.updated_at`

func agedFields(e *Aged) []any {
	return []any{&e.Seq, &e.CreatedAt, &e.ID, &e.ContextID, &e.State.Status, &e.State.UpdatedAt}
}

func loadAged(l *Load, v *Values[string, *Aged]) {
	l.Pick(scan(func(e *Aged) []any {
		return append(agedFields(e), &e.First, &e.Last, &e.Leases, &e.Results, &e.Artifacts, &e.Content, &e.Archived)
	}, func(e *Aged) { v.Set(e.ID, e) }), `SELECT `+agedColumns+`,
			coalesce((SELECT e.seq FROM task_events e WHERE e.task = t.seq ORDER BY e.seq LIMIT 1), 0),
			coalesce((SELECT e.seq FROM task_events e WHERE e.task = t.seq ORDER BY e.seq DESC LIMIT 1), 0),
			(SELECT count(*) FROM leases x WHERE x.task_id = t.id AND x.status <> 'active'),
			(SELECT count(*) FROM llm_results x WHERE x.task_id = t.id),
			(SELECT count(*) FROM runtime_artifacts x WHERE x.task_id = t.id),
			(SELECT count(x.url) FROM runtime_artifacts x WHERE x.task_id = t.id),
			coalesce((SELECT r.upto FROM run_transcripts r WHERE r.task = t.seq), 0) FROM llm_tasks t`,
		"t.id", "uuid", IDs(v.Keys()), l.lock("t"))
}

func loadAgedAudit(l *Load, v *Values[int64, *AgedAudit]) {
	l.Each(scan(func(e *AgedAudit) []any { return []any{&e.Seq, &e.At, &e.Keep, &e.Only} }, func(e *AgedAudit) { v.Set(e.Seq, e) }),
		`SELECT a.seq, a.timestamp, a.seq = (SELECT max(seq) FROM audit_logs) OR a.seq > (SELECT seq FROM audit_head)
			OR EXISTS (SELECT 1 FROM llm_tasks t WHERE t.id = `+l.TaskOf+` AND t.status IN ('queued','leased','running')),
			a.seq > (SELECT exported FROM audit_export)
		FROM audit_logs a WHERE `+l.In("a.seq", 1, "bigint")+l.lock("a"), l.Array(v.Keys()))
}

type oldBatch struct {
	before int64 // Unix milliseconds
	kept   bool  // only streams that are wholly in transcripts
	old    []Aged
	next   int64
	more   bool
}

// findOld returns those of the listed tasks that may be removed. More is false once
// all listed tasks are too young.
func (s *Store) findOld(ctx context.Context, r contract.RemoveRequest, list func(context.Context, int64, int) ([]Aged, error)) (f oldBatch, err error) {
	now, err := s.Time(ctx)
	if err != nil {
		return f, err
	}
	entries, err := list(ctx, r.After, contract.RemoveWindow)
	f.before, f.next = r.Before(now), r.After
	for _, e := range entries {
		if len(f.old) == r.Batch() {
			f.more = true
			return f, nil
		}
		f.next = e.Seq
		f.more = f.more || e.CreatedAt < f.before
		if lifecycle.Removable(e.State, f.before) {
			f.old = append(f.old, e)
		}
	}
	f.more = f.more && len(entries) == contract.RemoveWindow
	return f, s.explain(err)
}

// RemoveTasks removes ended tasks with all their rows.
func (s *Store) RemoveTasks(ctx context.Context, r contract.RemoveRequest) (contract.Removed, error) {
	f, err := s.findOld(ctx, r, s.OldTasks)
	return s.removeOld(ctx, f, err, audit.ActionTasksRemoved, (*Unit).removeTasks)
}

// RemoveEvents removes the event streams of ended tasks.
func (s *Store) RemoveEvents(ctx context.Context, r contract.RemoveRequest) (contract.Removed, error) {
	f, err := s.findOld(ctx, r, s.OldStreams)
	f.kept = r.Archived
	return s.removeOld(ctx, f, err, audit.ActionEventsRemoved, (*Unit).removeStreams)
}

// removeOld removes a batch. If that fails because of a bad row, each task is removed
// separately and the bad one is skipped.
func (s *Store) removeOld(ctx context.Context, f oldBatch, err error, action string, remove func(*Unit, []*Aged) contract.Removed) (contract.Removed, error) {
	if err != nil || len(f.old) == 0 {
		return contract.Removed{Next: f.next, More: f.more}, err
	}
	did, err := s.removeBatch(ctx, f, action, remove)
	if err == nil || len(f.old) == 1 || bloom.KindOf(err) != bloom.KindInternal || transient(err) {
		return did, err
	}
	did = contract.Removed{}
	for i, e := range f.old {
		one := oldBatch{before: f.before, kept: f.kept, old: []Aged{e}, next: e.Seq, more: true}
		if i == len(f.old)-1 {
			one.next, one.more = f.next, f.more
		}
		removed, err := s.removeBatch(ctx, one, action, remove)
		if transient(err) {
			return did, err
		}
		if err != nil {
			s.log.Error("skipping a task that cannot be removed", "task_id", e.ID, "error", err)
			removed.Next, removed.More = one.next, one.more
		}
		did.Add(removed)
		if removed.Next < one.next {
			break // it has more events than fit in a batch
		}
	}
	return did, nil
}

func (s *Store) removeBatch(ctx context.Context, f oldBatch, action string, remove func(*Unit, []*Aged) contract.Removed) (contract.Removed, error) {
	reads := func(r *Rows) {
		for _, e := range f.old {
			aged.want(r, e.ID)
		}
	}
	return doUnbatched(ctx, s, reads, func(u *Unit) (did contract.Removed, err error) {
		old := u.stillOld(f)
		n, room := 0, int64(contract.MaxRemoveEvents)
		for n < len(old) && old[n].stream() <= room {
			room -= old[n].stream()
			n++
		}
		switch {
		case n == 0 && len(old) > 0: // the first has more events than fit in a batch
			u.changed()
			u.c.Removal.Events = map[int64]int64{old[0].Seq: old[0].First + room}
			did.Events = room
		case n > 0:
			did = remove(u, old[:n])
		}
		if did.Next, did.More = f.next, f.more; n < len(old) {
			did.Next, did.More = old[n].Seq-1, true
		}
		u.auditRemoval(action, did, f.before)
		return did, nil
	})
}

// stream is the number of events.
func (e *Aged) stream() int64 {
	if e.Last == 0 {
		return 0
	}
	return e.Last - e.First + 1
}

// stillOld returns those that could be locked and may still be removed: one may have
// been requeued meanwhile.
func (u *Unit) stillOld(f oldBatch) (old []*Aged) {
	for _, e := range f.old {
		if is, _ := aged.of(u.rows).Get(e.ID); is != nil && lifecycle.Removable(is.State, f.before) && (!f.kept || is.Archived >= is.Last) {
			old = append(old, is)
		}
	}
	slices.SortFunc(old, func(a, b *Aged) int { return cmp.Compare(a.Seq, b.Seq) })
	return old
}

func (u *Unit) auditRemoval(action string, r contract.Removed, before int64) {
	if r.Total() > 0 {
		a := lifecycle.RemovalAudit(action, r, before)
		u.audit(a.Action, a.EntityType, a.EntityID, a.Actor, a.Detail, a.Data)
	}
}

func (u *Unit) removeStreams(old []*Aged) (did contract.Removed) {
	u.c.Removal.Streams = append(u.c.Removal.Streams, old...)
	for _, e := range old {
		did.Events += e.stream()
	}
	return did
}

func (u *Unit) removeTasks(old []*Aged) (did contract.Removed) {
	for _, e := range old {
		u.c.Removal.Tasks = append(u.c.Removal.Tasks, e)
		did.Tasks++
		did.Events += e.stream()
		did.Leases += e.Leases
		did.Results += e.Results
		did.Artifacts += e.Artifacts
		did.Contents += e.Content
		u.count(e.State.Status, "")
	}
	u.c.Counts[CountLeases] -= did.Leases
	return did
}

// RemoveAudit removes old audit entries, except those of tasks that have not ended.
func (s *Store) RemoveAudit(ctx context.Context, r contract.RemoveRequest) (contract.Removed, error) {
	now, err := s.Time(ctx)
	if err != nil {
		return contract.Removed{}, err
	}
	entries, err := s.OldAudit(ctx, r.After, r.Batch())
	if err != nil {
		return contract.Removed{}, s.explain(err)
	}
	before, did := r.Before(now), contract.Removed{Next: r.After}
	var old []int64
	for _, e := range entries {
		did.Next = e.Seq
		if e.At < before {
			old = append(old, e.Seq)
		}
	}
	did.More = len(entries) == r.Batch() && len(old) > 0
	if len(old) == 0 {
		return did, nil
	}
	if err := s.sealTo(ctx, old[len(old)-1]); err != nil {
		return did, err
	}
	return doUnbatched(ctx, s, func(rows *Rows) { agedAudit.want(rows, old...) }, func(u *Unit) (contract.Removed, error) {
		did := did
		for _, seq := range old {
			if e, _ := agedAudit.of(u.rows).Get(seq); e != nil && e.At < before && !e.Keep && !(r.Exported && e.Only) {
				u.c.Removal.Audit = append(u.c.Removal.Audit, seq)
				did.Audit, did.UpTo = did.Audit+1, max(did.UpTo, seq)
			}
		}
		u.auditRemoval(audit.ActionAuditRemoved, did, before)
		return did, nil
	})
}

// ConfirmDeleted removes the notes of deleted objects.
func (s *Store) ConfirmDeleted(ctx context.Context, seqs []int64) error {
	if len(seqs) == 0 {
		return nil
	}
	_, err := do(ctx, s, func(*Rows) {}, func(u *Unit) (struct{}, error) {
		u.changed()
		u.c.Removal.Contents = append(u.c.Removal.Contents, seqs...)
		return struct{}{}, nil
	})
	return err
}

// OldTasks lists tasks by number.
func (s *Store) OldTasks(ctx context.Context, after int64, limit int) ([]Aged, error) {
	return all(ctx, s, agedFields, `SELECT `+agedColumns+` FROM llm_tasks t WHERE t.seq > $1 ORDER BY t.seq LIMIT CAST($2 AS BIGINT)`, after, limit)
}

// OldStreams lists tasks that have events, with one step along the index for each
// task.
func (s *Store) OldStreams(ctx context.Context, after int64, limit int) ([]Aged, error) {
	return all(ctx, s, agedFields, `WITH RECURSIVE w (task, n) AS (
			SELECT (SELECT e.task FROM task_events e WHERE e.task > $1 ORDER BY e.task LIMIT 1), 1
			UNION ALL
			SELECT (SELECT e.task FROM task_events e WHERE e.task > w.task ORDER BY e.task LIMIT 1), w.n + 1 FROM w WHERE w.task IS NOT NULL AND w.n < $2)
		SELECT `+agedColumns+` FROM w JOIN llm_tasks t ON t.seq = w.task ORDER BY w.n`, after, limit)
}

// OldAudit lists audit entries by number.
func (s *Store) OldAudit(ctx context.Context, after int64, limit int) ([]AgedAudit, error) {
	return all(ctx, s, func(e *AgedAudit) []any { return []any{&e.Seq, &e.At} },
		`SELECT seq, timestamp FROM audit_logs WHERE seq > $1 ORDER BY seq LIMIT CAST($2 AS BIGINT)`, after, limit)
}

// RemovedContent lists objects to be deleted from the blob
func (s *Store) RemovedContent(ctx context.Context, after int64, limit int) ([]contract.RemovedContent, error) {
	return all(ctx, s, func(k *contract.RemovedContent) []any { return []any{&k.Seq, &k.URL} },
		`SELECT seq, url FROM removed_contents WHERE seq > $1 ORDER BY seq LIMIT CAST($2 AS BIGINT)`, after, bloom.Page{Limit: limit}.Size())
}

// remove deletes old rows, table by table, which is faster than task by task.
func (d *Dialect) remove(c *Changes, add func(string, ...any)) {
	r := &c.Removal
	seq := func(e *Aged) int64 { return e.Seq }
	numbers := func(query, column string, keys []int64, args ...any) {
		if len(keys) > 0 {
			add(query+` WHERE `+d.In(column, 1, "bigint"), append([]any{d.Array(keys)}, args...)...)
		}
	}
	for task, below := range r.Events {
		add(`DELETE FROM task_events WHERE task = $1 AND seq < $2`, task, below)
	}
	numbers(`DELETE FROM task_events`, "task", Column(r.Streams, seq))
	if len(r.Tasks) > 0 {
		seqs, ids := Column(r.Tasks, seq), d.Array(Column(r.Tasks, func(e *Aged) string { return e.ID }))
		of := ` WHERE ` + d.In("task_id", 1, "uuid")
		numbers(`DELETE FROM task_events`, "task", seqs)
		add(`DELETE FROM leases`+of+` AND status <> 'active'`, ids)
		add(`DELETE FROM llm_results`+of, ids)
		add(`DELETE FROM approvals`+of, ids)
		add(`INSERT INTO removed_contents (url, removed_at) SELECT url, CAST($2 AS BIGINT) FROM runtime_artifacts`+of+` AND url IS NOT NULL`, ids, c.Now)
		add(`DELETE FROM runtime_artifacts`+of, ids)
		numbers(`DELETE FROM run_transcripts`, "task", seqs)
		numbers(`DELETE FROM llm_tasks`, "seq", seqs)
	}
	if removed := r.Audit; len(removed) > 0 {
		numbers(`DELETE FROM audit_logs`, "seq", removed)
		numbers(`UPDATE audit_chain SET removed_at = $2`, "seq", removed, c.Now)
		// Keep the hash before an entry that is kept: that entry's hash covers it.
		add(`DELETE FROM audit_chain WHERE seq IN (SELECT c.seq FROM audit_chain c WHERE c.seq <= $2
				AND c.seq >= coalesce((SELECT max(b.seq) FROM audit_chain b WHERE b.seq < $1), 0) AND c.removed_at IS NOT NULL
				AND (SELECT n.removed_at FROM audit_chain n WHERE n.seq > c.seq ORDER BY n.seq LIMIT 1) IS NOT NULL)`, slices.Min(removed), slices.Max(removed))
	}
	numbers(`DELETE FROM removed_contents`, "seq", r.Contents)
	numbers(`DELETE FROM forgotten_contexts`, "seq", r.Forgotten)
	if len(r.SessionsOf) > 0 {
		add(`DELETE FROM sessions WHERE `+d.In("key_id", 1, "text"), d.Array(r.SessionsOf))
	}
	if r.SessionsBefore > 0 {
		add(`DELETE FROM sessions WHERE expires_at <= $1`, r.SessionsBefore)
	}
}

// Removal is what a transaction removes.
type Removal struct {
	Tasks    []*Aged         // with all their rows; the URLs of their content are added to the removed content
	Streams  []*Aged         // tasks whose events are removed
	Events   map[int64]int64 // by task's Seq: events with lower numbers are removed
	Audit    []int64
	Contents []int64 // rows of removed content, by number
	// Forgotten are rows of forgotten contexts, by number.
	Forgotten []int64
	URLs      []string // content to add to the removed content
	// SessionsOf are keys whose sessions are removed. Sessions that expire at
	// SessionsBefore, in Unix milliseconds, or earlier are removed too.
	SessionsOf     []string
	SessionsBefore int64
}
