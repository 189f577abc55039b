package sqlite

import (
	"context"

	"github.com/bloom-runtime/bloom/internal/store"
)

// Load reads what rows wants. It needs no row locks, because this is the only write
// transaction.
func (t *tx) Load(_ context.Context, rows *store.Rows) error {
	rows.Now = t.now
	b := &batch{c: t.conn}
	l := &store.Load{Dialect: dialect, Batch: b, Rows: rows, Now: t.now}
	l.Run(t)
	l.Settle()
	return b.err
}

// selectOpen reads the first open tasks of a label key.
var selectOpen = `SELECT t.label_key, ` + dialect.OpenColumns("octet_length(t.context_hints)") + `
	FROM llm_tasks t INDEXED BY llm_tasks_queue WHERE t.gate = 'open' AND t.label_key = ?1
	  AND (t.preferred_worker IS NULL OR t.preferred_until <= ?2 OR t.preferred_worker IN (SELECT value FROM json_each(?3)))
	ORDER BY t.priority DESC, t.seq LIMIT +?4`

// Open reads open tasks.
func (t *tx) Open(l *store.Load, v *store.Values[string, store.Line], claimers []string) {
	for key, most := range v.Want {
		v.Set(key, store.Line{})
		l.Each(l.TakeOpen, selectOpen, key, t.now, dialect.Array(claimers), most)
	}
}

// Ordered reads the first ordered tasks of contexts.
func (t *tx) Ordered(l *store.Load, v *store.Values[string, store.Line]) {
	for context, most := range v.Want {
		line := store.Line{}
		l.Each(func(r store.Row) error {
			var p store.Place
			err := r.Scan(&p.ID, &p.Seq, &p.Open)
			line.Tasks = append(line.Tasks, p)
			return err
		}, `SELECT id, seq, status = 'queued' AND gate <> 'ordered' FROM llm_tasks
			WHERE context_id = ? AND ordered = 1 AND status IN ('queued','leased','running') ORDER BY seq LIMIT +?`, context, most)
		line.Cut = len(line.Tasks) == most
		v.Set(context, line)
	}
}

// Numbers assigns numbers to new tasks. The number of a removed task is not reused
// while its context still has it.
func (t *tx) Numbers(l *store.Load, v *store.Values[struct{}, []int64]) {
	var last int64
	l.Each(func(r store.Row) error { return r.Scan(&last) },
		`SELECT MAX(COALESCE((SELECT MAX(seq) FROM llm_tasks), 0), COALESCE((SELECT MAX(seq) FROM contexts), 0))`)
	numbers, _ := v.Get(struct{}{})
	for range v.Want[struct{}{}] {
		numbers = append(numbers, last+int64(len(numbers))+1)
	}
	v.Set(struct{}{}, numbers)
}
