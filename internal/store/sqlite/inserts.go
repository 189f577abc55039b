package sqlite

import (
	"strings"

	"github.com/bloom-runtime/bloom/internal/store"
)

// inserts holds the statements that insert 8, 4, 2 and 1 rows. Inserting many rows
// with one statement is much cheaper, and few sizes need few prepared statements.
type inserts[T any] struct {
	*store.Table[T]
	texts [4]string
}

func newInserts[T any](table *store.Table[T]) *inserts[T] {
	in := &inserts[T]{Table: table}
	row := "(" + strings.Repeat("?,", len(table.Columns)-1) + "?)"
	for i := range in.texts {
		in.texts[i] = table.Statement("VALUES " + strings.Repeat(row+",", 8>>i-1) + row)
	}
	return in
}

var (
	insertTasks     = newInserts(store.Tasks)
	insertLeases    = newInserts(store.Leases)
	insertArtifacts = newInserts(store.Artifacts)
	insertResults   = newInserts(store.Results)
	insertEvents    = newInserts(store.Events)
	insertLinks     = newInserts(store.ChainLinks)
	putEnded        = newInserts(store.EndedStreams)
	putKept         = newInserts(store.KeptStreams)
	putWorkers      = newInserts(store.Workers)
	putKeys         = newInserts(store.Keys)
	putSessions     = newInserts(store.Sessions)
)

// run inserts rows.
func (in *inserts[T]) run(t *tx, rows []T) error {
	args := make([]any, 0, min(len(rows), 8)*len(in.Columns))
	for i, text := range in.texts {
		for n := 8 >> i; len(rows) >= n; rows = rows[n:] {
			args = args[:0]
			for _, row := range rows[:n] {
				args = in.Values(args, row)
			}
			if _, err := t.exec(text, args...); err != nil {
				return err
			}
		}
	}
	return nil
}
