package sqlite

import (
	"errors"
	"strings"

	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/store"
)

// errMissed means that an update found no row: a bug, never a race.
var errMissed = errors.New("sqlite: a row that was read is gone")

// put writes the changes.
func (t *tx) put(c *store.Changes) error {
	ended, kept := c.Streams()
	for _, write := range []func() error{
		func() error { return insertTasks.run(t, c.NewTasks) },
		func() error { return each(c.Tasks, t.putTask) },
		// Before new leases: a task may have only one active lease.
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

// each writes rows one by one.
func each[T any](rows []T, write func(T) error) error {
	for _, row := range rows {
		if err := write(row); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) write(s store.Statement) error {
	_, err := t.exec(s.Query, s.Args...)
	return err
}

// set updates exactly one row.
func (t *tx) set(query string, args ...any) error {
	n, err := t.exec(query, args...)
	if err == nil && n != 1 {
		err = errMissed
	}
	return err
}

func equal(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// putTask updates a changed task. It does not set indexed columns that are unchanged,
// because SQLite would rewrite their index entries. last_event is derived from the
// events.
func (t *tx) putTask(k *store.Task) error {
	switch {
	case lifecycle.Same(k.TaskState, k.Was.TaskState) && k.Gate == k.Was.Gate:
		return nil
	case k.Gate == "" && k.Was.Gate == "" && k.Epoch == k.Was.Epoch && equal(k.WorkerID, k.Was.WorkerID):
		return t.set(`UPDATE llm_tasks SET status = ?, updated_at = ?, lease_id = ?, attempts = ?, error_class = ?, cancel_requested = ? WHERE seq = ?`,
			k.Status, k.UpdatedAt, k.LeaseID, k.Attempts, k.ErrorClass, k.CancelRequested, k.Seq)
	}
	return t.set(`UPDATE llm_tasks SET status = ?, updated_at = ?, lease_id = ?, worker_id = ?, attempts = ?, run_at = ?, error_class = ?,
		cancel_requested = ?, epoch = ?, gate = ?, preferred_worker = ?, preferred_until = ? WHERE seq = ?`,
		k.Status, k.UpdatedAt, k.LeaseID, k.WorkerID, k.Attempts, k.RunAt, k.ErrorClass, k.CancelRequested, k.Epoch, store.Gate(k.Gate), k.Preferred, k.Until, k.Seq)
}

func (t *tx) putLease(l *store.Lease) error {
	return t.set(`UPDATE leases SET status = ?, expires_at = ?, last_heartbeat = ?, tokens = ?, tokens_in = ?, tokens_out = ?, cost = ? WHERE id = ?`,
		l.Status, l.ExpiresAt, l.LastHeartbeat, l.Usage.TokensUsed, l.Usage.InputTokens, l.Usage.OutputTokens, l.Usage.CostNano(), l.ID)
}

func (t *tx) putMove(m store.Move) error {
	return t.set(`UPDATE runtime_artifacts SET url = ?, content = NULL, displaced = 0 WHERE id = ?`, m.URL, m.ID)
}

// putLastEvent stores the number of the last event of a stream that is removed.
func (t *tx) putLastEvent(e *store.Aged) error {
	return t.set(`UPDATE llm_tasks SET last_event = ? WHERE seq = ?`, e.Last, e.Seq)
}

// countRound counts indexing rounds, so that the index file can be checked against
// the database.
func (t *tx) countRound(store.Searched) error {
	return t.set(`UPDATE search_rounds SET rounds = rounds + 1`)
}

var addCounts = func() string {
	sets := make([]string, len(store.CountColumns))
	for i, c := range store.CountColumns {
		sets[i] = c + " = " + c + " + ?"
	}
	return `UPDATE counters SET ` + strings.Join(sets, ", ")
}()

// count adds to the counters of stats.
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
