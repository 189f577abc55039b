package sqlite

import (
	"errors"
	"strings"

	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/sqldb"
)

// errMissed is an update that found no row: a defect, never a race.
var errMissed = errors.New("sqlite: a row that was read is gone")

// put writes changes.
func (t *tx) put(c *store.Changes) error {
	ended, kept := c.Streams()
	for _, write := range []func() error{
		func() error { return insertTasks.run(t, c.NewTasks) },
		func() error { return each(c.Tasks, t.putTask) },
		// Those that end first: a task has one active lease.
		func() error { return each(c.Leases, t.putLease) },
		func() error { return insertLeases.run(t, c.NewLeases) },
		func() error { return insertArtifacts.run(t, c.NewArtifacts()) },
		func() error { return insertResults.run(t, c.Outcomes) },
		func() error { return each(c.Moves, t.putMove) },
		func() error { return putEnded.run(t, ended) },
		func() error { return putKept.run(t, kept) },
		func() error { return insertEvents.run(t, c.Events) },
		func() error { return t.putAudits(c) },
		func() error { return insertLinks.run(t, c.Links) },
		func() error { return putWorkers.run(t, c.Workers) },
		func() error { return putKeys.run(t, c.APIKeys) },
		func() error { return putSessions.run(t, c.Sessions) },
		func() error { return each(c.Removal.Streams, t.putLastEvent) },
		func() error { return each(c.Searched, t.countRound) },
		func() error { return each(dialect.Rest(c), t.write) },
		func() error { return t.noteChain(c) },
		func() error { return t.putContexts(c) },
		func() error { return t.count(c) },
		func() error { return t.chart(c) },
	} {
		if err := write(); err != nil {
			return err
		}
	}
	return nil
}

// each writes one after the other.
func each[T any](rows []T, write func(T) error) error {
	for _, row := range rows {
		if err := write(row); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) write(s sqldb.Statement) error {
	_, err := t.exec(s.Query, s.Args...)
	return err
}

// set updates one row.
func (t *tx) set(query string, args ...any) error {
	n, err := t.exec(query, args...)
	if err == nil && n != 1 {
		err = errMissed
	}
	return err
}

func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// putTask updates what has changed. Columns of indexes that stay as they are, are not
// named: SQLite would write their entries again. The last event is read from the stream.
func (t *tx) putTask(k *store.Task) error {
	switch {
	case lifecycle.Same(k.TaskState, k.Was.TaskState) && k.Gate == k.Was.Gate:
		return nil
	case k.Gate == "" && k.Was.Gate == "" && k.Epoch == k.Was.Epoch && same(k.WorkerID, k.Was.WorkerID):
		return t.set(`UPDATE llm_tasks SET status = ?, updated_at = ?, lease_id = ?, attempts = ?, error_class = ?, cancel_requested = ? WHERE seq = ?`,
			k.Status, k.UpdatedAt, k.LeaseID, k.Attempts, k.ErrorClass, k.CancelRequested, k.Seq)
	}
	return t.set(`UPDATE llm_tasks SET status = ?, updated_at = ?, lease_id = ?, worker_id = ?, attempts = ?, run_at = ?, error_class = ?,
		cancel_requested = ?, epoch = ?, gate = ?, preferred_worker = ?, preferred_until = ? WHERE seq = ?`,
		k.Status, k.UpdatedAt, k.LeaseID, k.WorkerID, k.Attempts, k.RunAt, k.ErrorClass, k.CancelRequested, k.Epoch, sqldb.Gate(k.Gate), k.Preferred, k.Until, k.Seq)
}

func (t *tx) putLease(l *store.Lease) error {
	return t.set(`UPDATE leases SET status = ?, expires_at = ?, last_heartbeat = ? WHERE id = ?`, l.Status, l.ExpiresAt, l.LastHeartbeat, l.ID)
}

func (t *tx) putMove(m store.Move) error {
	return t.set(`UPDATE runtime_artifacts SET url = ?, content = NULL, displaced = 0 WHERE id = ?`, m.URL, m.ID)
}

// putLastEvent keeps the number of a stream whose events go.
func (t *tx) putLastEvent(e *store.Aged) error {
	return t.set(`UPDATE llm_tasks SET last_event = ? WHERE seq = ?`, e.Last, e.Seq)
}

// countRound counts what has entered the index, by which its file is known to fit.
func (t *tx) countRound(store.Searched) error {
	return t.set(`UPDATE search_rounds SET rounds = rounds + 1`)
}

// inserts are statements for 8, 4, 2 and 1 rows: one for many costs far less than
// many for one, and few sizes need few prepared statements.
type inserts[T any] struct {
	*sqldb.Table[T]
	texts [4]string
}

func newInserts[T any](table *sqldb.Table[T]) *inserts[T] {
	in := &inserts[T]{Table: table}
	row := "(" + strings.Repeat("?,", len(table.Columns)-1) + "?)"
	for i := range in.texts {
		in.texts[i] = table.Statement("VALUES " + strings.Repeat(row+",", 8>>i-1) + row)
	}
	return in
}

var (
	insertTasks     = newInserts(sqldb.Tasks)
	insertLeases    = newInserts(sqldb.Leases)
	insertArtifacts = newInserts(sqldb.Artifacts)
	insertResults   = newInserts(sqldb.Results)
	insertEvents    = newInserts(sqldb.Events)
	insertLinks     = newInserts(sqldb.Links)
	putEnded        = newInserts(sqldb.EndedStreams)
	putKept         = newInserts(sqldb.KeptStreams)
	putWorkers      = newInserts(sqldb.Workers)
	putKeys         = newInserts(sqldb.Keys)
	putSessions     = newInserts(sqldb.Sessions)
)

// run writes rows.
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

var addCounts = func() string {
	sets := make([]string, len(store.CountColumns))
	for i, c := range store.CountColumns {
		sets[i] = c + " = " + c + " + ?"
	}
	return `UPDATE counters SET ` + strings.Join(sets, ", ")
}()

// count keeps what stats shows by differences, so that nobody ever counts tasks.
func (t *tx) count(c *store.Changes) error {
	if c.Counts == (store.Counts{}) {
		return nil
	}
	args := make([]any, len(c.Counts))
	for i, n := range c.Counts {
		args[i] = n
	}
	_, err := t.exec(addCounts, args...)
	return err
}
