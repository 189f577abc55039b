package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/bloom-runtime/bloom/internal/fulltext"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// Conn runs queries. Parameters are written $1, $2, … Limits are cast to BIGINT, so
// that SQLite does not recompile the statement for every value.
type Conn interface {
	// Query calls take with every row, which is only valid during the call. take must
	// not use the connection.
	Query(ctx context.Context, take func(Row) error, query string, args ...any) error
}

// Row is one row of a result.
type Row interface {
	Scan(dest ...any) error
}

// Runner provides connections.
type Runner interface {
	// Run calls fn with a connection, and again with another one if the first one turns
	// out to be broken.
	Run(ctx context.Context, fn func(Conn) error) error
}

// Source is the database that Reads reads from.
type Source interface {
	Runner
	// Snapshot is like Run, with all queries of fn in one snapshot.
	Snapshot(ctx context.Context, fn func(Conn) error) error
	// Time returns the database's time in Unix milliseconds.
	Time(ctx context.Context, c Conn) (int64, error)
	// Words lists the newest n tasks numbered under below that contain the query's
	// words. It has searched all numbers from low on; 0: all.
	Words(ctx context.Context, c Conn, q fulltext.Query, below int64, n int) (seqs []int64, low int64, err error)
}

// Dialect is the expressions that differ between the databases.
type Dialect struct {
	IsTrue    string // condition: the column %s is true, as the indexes express it
	Pending   string // condition: the task %[1]s is ordered and has not ended
	Phase     string // condition: the status of the task t is %s, neither held nor completed
	LastEvent string // the number of the last event of the task t
	Greatest  string // function: the greatest argument
	Position  string // function: the position of a text in another one, from 1 on
	Has       string // condition: the list of texts %s has the text %s
	Among     string // condition: %s is in the result of the query %s
	ShortID   string // the last characters of the id %s
	ListText  string // the list of texts %s as text
	// LocalParts is the condition that a part of the transcript x is in a folder or in
	// the database, as the index transcripts_local expresses it.
	LocalParts string
	Index      string // after a table: use the index %s
	Now        string // the database's time, where parameter 1 is Load.Now
	Lock       string // at the end of a query: lock the rows of %s, skipping those locked by others
	// InOrder is a statement that makes the transactions which run it commit one after
	// another; "" if all do. Numbers assigned after it become visible in their order.
	InOrder string
	TaskOf  string // the id of the task of the audit entry a
	// In is the condition that a column is in the array parameter, whose elements have
	// the type kind.
	In func(column string, parameter int, kind string) string
	// Array returns the argument for an array.
	Array func(keys any) any
	// Table returns a table k of the array parameters from 1 on, one for each column,
	// given with its name and type. Columns returns their arguments.
	Table   func(columns ...string) string
	Columns func(columns ...any) []any
	// Replan precedes the arguments of a query whose best plan depends on them.
	Replan []any
}

// True returns the condition that a column is true.
func (d *Dialect) True(column string) string { return fmt.Sprintf(d.IsTrue, column) }

// Via names the index to use for a table.
func (d *Dialect) Via(index string) string {
	if d.Index == "" {
		return ""
	}
	return fmt.Sprintf(d.Index, index)
}

// present returns the table and the condition of the workers w that were not removed.
func (d *Dialect) present() string {
	return "workers w" + d.Via("workers_present") + " WHERE NOT w.removed"
}

func (d *Dialect) lock(table string) string {
	if d.Lock == "" {
		return ""
	}
	return fmt.Sprintf(d.Lock, table)
}

func (d *Dialect) pending(task string) string { return fmt.Sprintf(d.Pending, task) }

// Read runs fn on a connection and returns its result.
func Read[T any](ctx context.Context, from Runner, fn func(c Conn) (T, error)) (v T, err error) {
	err = from.Run(ctx, func(c Conn) (err error) {
		v, err = fn(c)
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return v, nil
}

// Collect reads all rows, never nil. fields returns a row's scan destinations.
func Collect[T any](ctx context.Context, c Conn, fields func(*T) []any, query string, args ...any) ([]T, error) {
	all := []T{}
	err := c.Query(ctx, func(r Row) error {
		var v T
		if err := r.Scan(fields(&v)...); err != nil {
			return err
		}
		all = append(all, v)
		return nil
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// One reads the first row, or returns the error missing.
func One[T any](ctx context.Context, c Conn, fields func(*T) []any, missing error, query string, args ...any) (v T, err error) {
	all, err := Collect(ctx, c, fields, query, args...)
	switch {
	case err != nil:
		return v, err
	case len(all) == 0:
		return v, missing
	}
	return all[0], nil
}

// Self returns the scan destination of a row of one column.
func Self[T any](v *T) []any { return []any{v} }

// all is Collect on a connection of s.
func all[T any](ctx context.Context, s *Store, fields func(*T) []any, query string, args ...any) ([]T, error) {
	return Read(ctx, s.db, func(c Conn) ([]T, error) { return Collect(ctx, c, fields, query, args...) })
}

// single is One on a connection of s.
func single[T any](ctx context.Context, s *Store, fields func(*T) []any, missing error, query string, args ...any) (T, error) {
	return Read(ctx, s.db, func(c Conn) (T, error) { return One(ctx, c, fields, missing, query, args...) })
}

// each formats every column and joins the results with commas.
func each(columns []string, format string) string {
	entries := make([]string, len(columns))
	for i, c := range columns {
		entries[i] = fmt.Sprintf(format, c)
	}
	return strings.Join(entries, ", ")
}

// IDs returns the texts that may be ids.
func IDs(all []string) []string {
	known := make([]string, 0, len(all))
	for _, id := range all {
		if storable.IsID(id) {
			known = append(known, id)
		}
	}
	return known
}
