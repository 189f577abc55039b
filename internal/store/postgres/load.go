package postgres

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

const lockContext = 0x626c6d01 // class of the advisory locks of contexts with ordered tasks, by hash of the id

// Load locks and reads the read set in one round trip. It never waits for a lock.
// Rows that depend on a lock are read by a later statement, which sees what was
// committed before the lock was free. Rows that were not found are looked up again
// without a lock: those that exist are locked by others.
func (t *tx) Load(ctx context.Context, reads *store.ReadSet, rows *store.Rows) error {
	b := &batch{}
	now := t.d.testNow()
	l := &store.Load{Dialect: dialect, Batch: b, ReadSet: reads, Rows: rows, Now: now}
	ordered(l)
	l.Workers()
	l.Tasks()
	l.Held()
	l.Leases()
	open(l)
	l.Queue()
	l.Context()
	l.Stored()
	l.Contexts()
	l.Places()
	l.Old()
	l.Access()
	l.Settings()
	l.Export()
	l.Each(func(r store.Row) error {
		var numbers []int64
		err := r.Scan(&rows.Now, &numbers)
		rows.Numbers = append(rows.Numbers, numbers...)
		return err
	}, `SELECT `+nowSQL+`, ARRAY(SELECT nextval('llm_tasks_seq') FROM generate_series(1, $2))`, now, reads.Numbers)
	if err := t.send(ctx, &b.Batch); err != nil {
		return t.d.failed(err)
	}
	if reads.Unsealed > 0 {
		if err := t.chain(ctx, reads.Unsealed, rows); err != nil {
			return t.d.failed(err)
		}
	}
	b = &batch{}
	if findBusy(b, l); b.Len() == 0 {
		return nil
	}
	return t.d.failed(t.send(ctx, &b.Batch))
}

// limits returns a map's keys and values.
func limits(counts map[string]int) (keys []string, most []int32) {
	for key, n := range counts {
		keys, most = append(keys, key), append(most, int32(n))
	}
	return keys, most
}

// ordered locks contexts and reads their first ordered tasks.
func ordered(l *store.Load) {
	if len(l.ReadSet.Ordered) == 0 {
		return
	}
	names, most := limits(l.ReadSet.Ordered)
	l.Each(func(r store.Row) error {
		var context string
		err := r.Scan(&context)
		l.Rows.Ordered[context] = store.Line{}
		return err
	}, `SELECT c FROM unnest($2::text[]) c WHERE pg_try_advisory_xact_lock($1, hashtext(c))`, lockContext, names)
	l.Each(func(r store.Row) error {
		var context string
		var p store.Place
		if err := r.Scan(&context, &p.ID, &p.Seq, &p.Open); err != nil {
			return err
		}
		if line, locked := l.Rows.Ordered[context]; locked {
			line.Tasks = append(line.Tasks, p)
			line.Cut = len(line.Tasks) == l.ReadSet.Ordered[context]
			l.Rows.Ordered[context] = line
		}
		return nil
	}, `SELECT k.c, t.* FROM unnest($1::text[], $2::int[]) k (c, most) CROSS JOIN LATERAL (
			SELECT t.id, t.seq, t.status = 'queued' AND t.gate <> 'ordered' FROM llm_tasks t WHERE t.context_id = k.c AND t.pending ORDER BY t.seq LIMIT k.most) t
		ORDER BY t.seq`, names, most)
}

// selectOpen locks the first open tasks of each label key, skipping rows that others
// have locked.
var selectOpen = `SELECT k.key, ` + dialect.OpenColumns("pg_column_size(t.context_hints)") + `
	FROM unnest($2::text[], $3::int[]) k (key, most) CROSS JOIN LATERAL (
		SELECT * FROM llm_tasks t WHERE t.gate = 'open' AND t.label_key = k.key
		  AND (t.preferred_worker IS NULL OR t.preferred_worker = ANY($4::text[]) OR t.preferred_until <= ` + nowSQL + `)
		ORDER BY t.priority DESC, t.seq LIMIT k.most FOR UPDATE SKIP LOCKED) t`

func open(l *store.Load) {
	if len(l.ReadSet.Queue) == 0 {
		return
	}
	for key := range l.ReadSet.Queue {
		l.Rows.Queue[key] = store.Line{}
	}
	keys, most := limits(l.ReadSet.Queue)
	l.Each(l.TakeOpen, selectOpen, l.Now, keys, most, l.ReadSet.Claimers.List())
}

// findBusy looks up rows that were not found, to distinguish those that others have locked
// from those that do not exist.
func findBusy(b *batch, l *store.Load) {
	r, m := l.Rows, l.Missing()
	for context := range l.ReadSet.Ordered {
		if _, locked := r.Ordered[context]; !locked {
			r.Busy.Add(context)
		}
	}
	// Forget everything that was read of a locked row.
	busy := func(row store.Row) error {
		var id string
		err := row.Scan(&id)
		delete(r.Tasks, id)
		delete(r.Leases, id)
		delete(r.Active, id)
		delete(r.Workers, id)
		delete(r.APIKeys, id)
		delete(r.Sessions, id)
		delete(r.Places, id)
		r.Busy.Add(id)
		return err
	}
	b.Pick(busy, `SELECT id FROM llm_tasks`, "id", "uuid", store.IDs(m.Tasks), "")
	b.Pick(busy, `SELECT id FROM runtime_artifacts`, "id", "uuid", store.IDs(m.Places), "")
	b.Pick(busy, `SELECT id FROM leases`, "id", "uuid", store.IDs(m.Leases), "")
	b.Pick(busy, `SELECT task_id FROM leases`, "task_id", "uuid", store.IDs(m.Active), " AND status = 'active'")
	b.Pick(busy, `SELECT id FROM workers`, "id", "text", m.Workers, "")
	b.Pick(busy, `SELECT id FROM api_keys`, "id", "text", m.Keys, "")
	b.Pick(busy, `SELECT id FROM sessions`, "id", "text", m.Sessions, "")
	named := func(forget func(id string), name func(id string) string) func(store.Row) error {
		return func(row store.Row) error {
			var id string
			err := row.Scan(&id)
			forget(id)
			r.Busy.Add(name(id))
			return err
		}
	}
	b.Pick(named(func(id string) { delete(r.Contexts, id) }, store.ContextKey), `SELECT id FROM contexts`, "id", "text", m.Contexts, "")
	b.Pick(named(func(id string) { delete(r.Transcripts, id) }, store.TranscriptKey), `SELECT context_id FROM transcripts`, "context_id", "text", m.Transcripts, "")
	b.Pick(named(func(id string) { delete(r.Settings, id) }, store.SettingKey), `SELECT key FROM runtime_settings`, "key", "text", m.Settings, "")
}

// testNow is the injected clock's time, nil for the server's.
func (d *database) testNow() *int64 {
	if d.cfg.Clock == nil {
		return nil
	}
	now := bloom.Millis(d.cfg.Clock.Now())
	return &now
}
