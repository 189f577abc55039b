package sqlite

import (
	"context"

	"github.com/bloom-runtime/bloom/internal/store"
)

// Load reads the read set. It needs no row locks, because this is the only write
// transaction.
func (t *tx) Load(_ context.Context, reads *store.ReadSet, rows *store.Rows) error {
	rows.Now = t.now
	b := &batch{c: t.conn}
	l := &store.Load{Dialect: dialect, Batch: b, ReadSet: reads, Rows: rows, Now: t.now}
	l.Tasks()
	l.Leases()
	l.Workers()
	l.Held()
	open(l)
	l.Queue()
	ordered(l)
	l.Context()
	l.Stored()
	numbers(l)
	l.Contexts()
	l.Places()
	l.Old()
	l.Access()
	l.Settings()
	l.Export()
	t.loadChain(l)
	l.Missing()
	return b.err
}

// selectOpen reads the first open tasks of a label key.
var selectOpen = `SELECT t.label_key, ` + dialect.OpenColumns("octet_length(t.context_hints)") + `
	FROM llm_tasks t INDEXED BY llm_tasks_queue WHERE t.gate = 'open' AND t.label_key = ?1
	  AND (t.preferred_worker IS NULL OR t.preferred_until <= ?2 OR t.preferred_worker IN (SELECT value FROM json_each(?3)))
	ORDER BY t.priority DESC, t.seq LIMIT +?4`

func open(l *store.Load) {
	for key, most := range l.ReadSet.Queue {
		l.Rows.Queue[key] = store.Line{}
		l.Each(l.TakeOpen, selectOpen, key, l.Rows.Now, dialect.Array(l.ReadSet.Claimers.List()), most)
	}
}

func ordered(l *store.Load) {
	for context, most := range l.ReadSet.Ordered {
		line := store.Line{}
		l.Each(func(r store.Row) error {
			var p store.Place
			err := r.Scan(&p.ID, &p.Seq, &p.Open)
			line.Tasks = append(line.Tasks, p)
			return err
		}, `SELECT id, seq, status = 'queued' AND gate <> 'ordered' FROM llm_tasks
			WHERE context_id = ? AND ordered = 1 AND status IN ('queued','leased','running') ORDER BY seq LIMIT +?`, context, most)
		line.Cut = len(line.Tasks) == most
		l.Rows.Ordered[context] = line
	}
}

// numbers assigns numbers to new tasks. The number of a removed task is not reused
// while its context still has it.
func numbers(l *store.Load) {
	if l.ReadSet.Numbers == 0 {
		return
	}
	var last int64
	l.Each(func(r store.Row) error { return r.Scan(&last) },
		`SELECT MAX(COALESCE((SELECT MAX(seq) FROM llm_tasks), 0), COALESCE((SELECT MAX(seq) FROM contexts), 0))`)
	for range l.ReadSet.Numbers {
		l.Rows.Numbers = append(l.Rows.Numbers, last+int64(len(l.Rows.Numbers))+1)
	}
}
