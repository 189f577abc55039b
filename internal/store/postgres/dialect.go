package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom/internal/store"
)

// lockForgotten is the class of the advisory lock under which forgotten contexts get their
// numbers: a worker that has seen a number never asks for lower ones.
const lockForgotten = 0x626c6d06

var dialect = &store.Dialect{
	IsTrue:     "%s",
	Pending:    "%s.pending",
	Phase:      "t.phase = %s",
	LastEvent:  "t.last_event",
	Greatest:   "greatest",
	Position:   "strpos",
	Has:        "jsonb_exists(%s, %s)",
	Among:      "%s = ANY(ARRAY(%s))",
	ShortID:    "right(%s::text, 8)",
	ListText:   "%s::text",
	LocalParts: `position('"file:' in x.parts) + position('"file:' in x.workspace) + position('"database:' in x.parts) + position('"database:' in x.workspace) > 0`,
	Now:        nowSQL,
	Lock:       " FOR UPDATE OF %s SKIP LOCKED",
	InOrder:    fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d, 0)`, lockForgotten),
	TaskOf:     "CASE WHEN a.entity_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN a.entity_id::uuid END",
	In: func(column string, parameter int, kind string) string {
		return fmt.Sprintf("%s = ANY(%s)", column, array(parameter, kind))
	},
	Array: func(keys any) any { return keys },
	Table: func(columns ...string) string {
		names, arrays := make([]string, len(columns)), make([]string, len(columns))
		for i, c := range columns {
			name, kind, _ := strings.Cut(c, " ")
			names[i], arrays[i] = name, array(i+1, kind)
		}
		return "unnest(" + strings.Join(arrays, ", ") + ") k (" + strings.Join(names, ", ") + ")"
	},
	Columns: func(columns ...any) []any { return columns },
	Replan:  []any{pgx.QueryExecModeCacheDescribe},
}

// nowSQL is the store's time in a statement: the test clock's, or the server's.
const nowSQL = `(SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))`

// array is an array parameter of a type. UUIDs are passed as texts.
func array(parameter int, kind string) string {
	if kind == "uuid" {
		return fmt.Sprintf("$%d::text[]::uuid[]", parameter)
	}
	return fmt.Sprintf("$%d::%s[]", parameter, kind)
}

// queryer is a pool or a connection.
type queryer interface {
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
}

// reader adapts a queryer to store.Conn.
type reader struct{ queryer }

// Query calls take with every row.
func (r reader) Query(ctx context.Context, take func(store.Row) error, query string, args ...any) error {
	rows, err := r.queryer.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	return each(rows, take)
}

func each(rows pgx.Rows, take func(store.Row) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := take(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// batch collects the statements of a Load.
type batch struct{ pgx.Batch }

// Each calls take with every row.
func (b *batch) Each(take func(store.Row) error, query string, args ...any) {
	b.Queue(query, args...).Query(func(rows pgx.Rows) error { return each(rows, take) })
}

// Pick queries all keys at once.
func (b *batch) Pick(take func(store.Row) error, query, column, kind string, keys []string, more string) {
	if len(keys) > 0 {
		b.Each(take, query+" WHERE "+dialect.In(column, 1, kind)+more, keys)
	}
}
