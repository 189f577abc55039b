package postgres

import (
	"context"

	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/timing"
)

const lockContext = 0x626c6d01 // class of the advisory locks of contexts with ordered tasks, by hash of the id

// Load locks and reads what rows wants in one round trip. It never waits for a lock.
// Rows that depend on a lock are read by a later statement, which sees what was
// committed before the lock was free. Rows that were not found are looked up again
// without a lock: those that exist are locked by others.
func (t *tx) Load(ctx context.Context, rows *store.Rows) error {
	b := &batch{}
	n := &native{tx: t, now: t.d.testNow()}
	l := &store.Load{Dialect: dialect, Batch: b, Rows: rows, Now: n.now}
	l.Run(n)
	l.Each(func(r store.Row) error {
		var numbers []int64
		err := r.Scan(&rows.Now, &numbers)
		if n.add != nil {
			n.add(numbers)
		}
		return err
	}, `SELECT `+nowSQL+`, ARRAY(SELECT nextval('llm_tasks_seq') FROM generate_series(1, $2))`, n.now, n.numbers)
	if err := t.send(ctx, &b.Batch); err != nil {
		return t.d.failed(err)
	}
	if n.chain != nil {
		if err := t.chain(ctx, n.chain); err != nil {
			return t.d.failed(err)
		}
	}
	b = &batch{}
	l.Recheck(b)
	if b.Len() > 0 {
		if err := t.send(ctx, &b.Batch); err != nil {
			return t.d.failed(err)
		}
	}
	l.Settle()
	return nil
}

// native reads what only this database reads so.
type native struct {
	tx      *tx
	now     *int64                                // of the injected clock, nil for the server's
	numbers int                                   // how many are wanted
	add     func(numbers []int64)                 // nil: none are wanted
	chain   *store.Values[struct{}, *store.Chain] // to read after the batch; nil: not wanted
}

// Numbers takes part in the query of the time.
func (n *native) Numbers(_ *store.Load, v *store.Values[struct{}, []int64]) {
	n.numbers = v.Want[struct{}{}]
	n.add = func(numbers []int64) {
		have, _ := v.Get(struct{}{})
		v.Set(struct{}{}, append(have, numbers...))
	}
}

// Chain is read after everything else, because it may take several queries.
func (n *native) Chain(_ *store.Load, v *store.Values[struct{}, *store.Chain]) { n.chain = v }

// limits returns a map's keys and values.
func limits(counts map[string]int) (keys []string, most []int32) {
	for key, n := range counts {
		keys, most = append(keys, key), append(most, int32(n))
	}
	return keys, most
}

// Ordered locks contexts and reads their first ordered tasks.
func (n *native) Ordered(l *store.Load, v *store.Values[string, store.Line]) {
	names, most := limits(v.Want)
	for _, context := range names {
		v.Lock(context)
	}
	l.Each(func(r store.Row) error {
		var context string
		err := r.Scan(&context)
		v.Set(context, store.Line{})
		return err
	}, `SELECT c FROM unnest($2::text[]) c WHERE pg_try_advisory_xact_lock($1, hashtext(c))`, lockContext, names)
	l.Each(func(r store.Row) error {
		var context string
		var p store.Place
		if err := r.Scan(&context, &p.ID, &p.Seq, &p.Open); err != nil {
			return err
		}
		if line, locked := v.Get(context); locked {
			line.Tasks = append(line.Tasks, p)
			line.Cut = len(line.Tasks) == v.Want[context]
			v.Set(context, line)
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

// Open reads and locks open tasks.
func (n *native) Open(l *store.Load, v *store.Values[string, store.Line], claimers []string) {
	for key := range v.Want {
		v.Set(key, store.Line{})
	}
	keys, most := limits(v.Want)
	l.Each(l.TakeOpen, selectOpen, l.Now, keys, most, claimers)
}

// testNow is the injected clock's time, nil for the server's.
func (d *database) testNow() *int64 {
	if d.cfg.Clock == nil {
		return nil
	}
	now := timing.Millis(d.cfg.Clock.Now())
	return &now
}
