package sqlite

import (
	"errors"
	"strings"

	"github.com/bloom-runtime/bloom/internal/store"
)

// errMissed means that an update found no row: a bug, never a race.
var errMissed = errors.New("sqlite: a row that was read is gone")

// put writes the changes.
func (t *tx) put(c *store.Changes) error {
	for _, write := range []func() error{
		func() error { return t.putAudits(c) },
		func() error { return each(c.Writes(), t.writeRows) },
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

// set changes exactly one row.
func (t *tx) set(query string, args ...any) error {
	n, err := t.exec(query, args...)
	if err == nil && n != 1 {
		err = errMissed
	}
	return err
}

func (t *tx) writeRows(w store.Write) error {
	switch w.Mode {
	case store.Update:
		return t.update(w)
	case store.Delete:
		name := w.Names()[0]
		return each(w.Rows, func(row []any) error { return t.set(`DELETE FROM `+w.Table+` WHERE `+name+` = ?`, row...) })
	}
	return t.insert(w)
}

// update sets the columns that have changed, because SQLite would rewrite the index
// entries of the others. A task's last event is derived from its events.
func (t *tx) update(w store.Write) error {
	names := w.Names()
	for i, row := range w.Rows {
		var sets []string
		var args []any
		for c, v := range row[1:] {
			if name := names[c+1]; name != "last_event" && !equal(v, w.Was[i][c+1]) {
				sets, args = append(sets, name+" = ?"), append(args, v)
			}
		}
		if len(sets) == 0 {
			continue
		}
		if err := t.set(`UPDATE `+w.Table+` SET `+strings.Join(sets, ", ")+` WHERE `+names[0]+` = ?`, append(args, row[0])...); err != nil {
			return err
		}
	}
	return nil
}

// equal compares two values of a column.
func equal(a, b any) bool {
	if a, ok := a.(*string); ok {
		b, _ := b.(*string)
		return a == b || a != nil && b != nil && *a == *b
	}
	if a, ok := a.(*int64); ok {
		b, _ := b.(*int64)
		return a == b || a != nil && b != nil && *a == *b
	}
	return a == b
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
