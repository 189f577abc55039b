package postgres

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// compare fails a transaction that was decided on remembered rows when one of them
// is no longer so. Those that it writes are compared as they are written; here it
// is what it only relied on, and who was given work.
func (t *tx) compare(b *pgx.Batch) {
	var used []*task
	for _, tk := range t.tasks {
		if !tk.dirty && tk.insert == nil {
			used = append(used, tk)
		}
	}
	compareTasks.queue(b, used)
	compareWorkers.queue(b, t.givers())
	compareHolders.queue(b, t.choices)
}

// giver is a worker as it must be at the end: how many leases it holds.
type giver struct {
	worker *stored
	holds  int
}

// givers are the workers whose slots were given out. Their slots are locked.
func (t *tx) givers() []giver {
	var all []giver
	at := map[string]int{}
	for _, l := range t.newLeases {
		if _, have := at[l.WorkerID]; !have {
			at[l.WorkerID] = len(all)
			w := t.workers[l.WorkerID]
			all = append(all, giver{w, w.ActiveLeases})
		}
	}
	for _, name := range t.freed() {
		if i, ok := at[name]; ok {
			all[i].holds--
		}
	}
	return all
}

// choice is a worker that was chosen for a task because nobody else holds the
// task's context.
type choice struct{ worker, context string }

// comparisons fail when one of the rows of values has nothing that fits it.
func comparisons[T any](from, where, columns string, values func([]any, T) []any) *bulk[T] {
	return &bulk[T]{columns: strings.Split(columns, ", "), values: values, statement: func(names, rows string, n int) string {
		return fmt.Sprintf(`SELECT 1 / (count(*) = %d)::int FROM (VALUES %s) x (%s) %s WHERE %s`, n, rows, names, from, where)
	}}
}

var compareTasks = comparisons("JOIN llm_tasks t ON t.seq = x.seq", "t.xmin = x.version", "seq bigint, version xid",
	func(v []any, k *task) []any { return append(v, k.seq, k.version) })

var compareWorkers = comparisons("JOIN workers w ON w.id = x.id", "w.xmin = x.version AND "+countHeld+" = x.holds", "id text, version xid, holds bigint",
	func(v []any, g giver) []any { return append(v, g.worker.ID, g.worker.version, g.holds) })

var compareHolders = comparisons("", "NOT EXISTS (SELECT FROM leases l WHERE l.status = 'active' AND l.context_id = x.context AND l.worker_id <> x.worker)",
	"worker text, context text", func(v []any, c choice) []any { return append(v, c.worker, c.context) })
