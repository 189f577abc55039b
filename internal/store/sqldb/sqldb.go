// Package sqldb holds the SQL that both databases share: the shapes of rows, single
// reads, lists and what a transaction loads. A database adds its dialect, its
// connections and what it does in a way of its own. There is no rule in this package.
package sqldb

import (
	"context"
	"fmt"

	"github.com/bloom-runtime/bloom/internal/fulltext"
)

// Conn runs queries. Parameters are written $1, $2, …; a limit is cast to BIGINT, which
// PostgreSQL ignores, and for which SQLite does not compile the statement anew for every
// value.
type Conn interface {
	// Query calls take with every row, which is only valid during the call. take may
	// not use the connection.
	Query(ctx context.Context, take func(Row) error, query string, args ...any) error
}

// Row is one row of an answer.
type Row interface {
	Scan(dest ...any) error
}

// Runner lends connections.
type Runner interface {
	// Run calls fn with a connection, and again with another one when the first is
	// found to be dead.
	Run(ctx context.Context, fn func(Conn) error) error
}

// Source is what reads need of a database.
type Source interface {
	Runner
	// Snapshot is like Run, and all that fn reads is of one moment.
	Snapshot(ctx context.Context, fn func(Conn) error) error
	// Time is the store's, in Unix milliseconds.
	Time(ctx context.Context, c Conn) (int64, error)
	// Words lists the newest n of the tasks numbered below that contain a query's
	// words, and down to which number it has looked; 0: all.
	Words(ctx context.Context, c Conn, q fulltext.Query, below int64, n int) (seqs []int64, low int64, err error)
}

// Dialect is in what the SQL of the databases differs.
type Dialect struct {
	IsTrue    string // condition that the column %s is true, as indexes have it
	Pending   string // condition that the task %[1]s is ordered and has not ended
	Phase     string // condition that the status of the task t, none of a held or completed one, is %s
	LastEvent string // the last number in the stream of the task t
	Greatest  string // the function that picks the greatest argument
	Position  string // the function that finds a text in another one, from 1 on
	Among     string // condition that %s is one of what the query %s finds
	ListText  string // a list of texts, %s, as text
	// LocalParts is the condition that a part of the transcript x lies in a folder or in
	// the database, in the words of the index transcripts_local.
	LocalParts string
	Index      string // after a table: it is walked along the index %s
	Now        string // the store's time, of which parameter 1 is Load.Now
	Lock       string // at the end of a query: the rows of %s are locked, those that others hold are skipped
	TaskOf     string // the id of the task that the entry a of the audit is about
	Tokens     string // how many tokens the result r says
	Cost       string // how many billionths of a dollar the result r says
	// In is the condition that a column is in the array of a parameter, whose elements
	// have a type.
	In func(column string, parameter int, kind string) string
	// Array is what is passed for an array.
	Array func(keys any) any
	// Table is the columns of the arrays in the parameters from 1 on, each with its name
	// and type, and Columns is what is passed for them.
	Table   func(columns ...string) string
	Columns func(columns ...any) []any
	// Replan comes before the arguments of a query whose best plan depends on them.
	Replan []any
}

// True is the condition that a column is true.
func (d *Dialect) True(column string) string { return fmt.Sprintf(d.IsTrue, column) }

// Via names the index that a table is to be walked along.
func (d *Dialect) Via(index string) string {
	if d.Index == "" {
		return ""
	}
	return fmt.Sprintf(d.Index, index)
}

func (d *Dialect) lock(table string) string {
	if d.Lock == "" {
		return ""
	}
	return fmt.Sprintf(d.Lock, table)
}

func (d *Dialect) pending(task string) string { return fmt.Sprintf(d.Pending, task) }

// Reads answers what both databases answer in the same way.
type Reads struct {
	*Dialect
	Source Source
}

// Read runs fn on a connection.
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

// Collect reads all rows, never nil. fields are where a row's columns go.
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

// One reads the first row, or answers with missing.
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

// Self is a row of one column.
func Self[T any](v *T) []any { return []any{v} }

// all and one are Collect and One on a connection of the reads.
func all[T any](ctx context.Context, r *Reads, fields func(*T) []any, query string, args ...any) ([]T, error) {
	return Read(ctx, r.Source, func(c Conn) ([]T, error) { return Collect(ctx, c, fields, query, args...) })
}

func one[T any](ctx context.Context, r *Reads, fields func(*T) []any, missing error, query string, args ...any) (T, error) {
	return Read(ctx, r.Source, func(c Conn) (T, error) { return One(ctx, c, fields, missing, query, args...) })
}
