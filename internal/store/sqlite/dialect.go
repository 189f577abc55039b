package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"strings"

	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store"
)

var dialect = &store.Dialect{
	IsTrue:     "%s = 1",
	Pending:    "%[1]s.ordered = 1 AND %[1]s.status IN ('queued','leased','running')",
	Phase:      "t.status IN ('queued','failed','dead','cancelled') AND t.status = %s",
	LastEvent:  "coalesce((SELECT max(e.seq) FROM task_events e WHERE e.task = t.seq), t.last_event)",
	Greatest:   "max",
	Position:   "instr",
	Has:        "%[2]s IN (SELECT value FROM json_each(%[1]s))",
	Among:      "%s IN (%s)",
	ShortID:    "substr(%s, -8)",
	ListText:   "%s",
	LocalParts: `instr(x.parts, '"file:') + instr(x.workspace, '"file:') > 0`,
	Index:      " INDEXED BY %s",
	Now:        "$1",
	TaskOf:     "a.entity_id",
	In: func(column string, parameter int, _ string) string {
		return fmt.Sprintf("%s IN (SELECT value FROM json_each($%d))", column, parameter)
	},
	Array: func(keys any) any { return string(storable.MustJSON(keys)) },
	Table: func(columns ...string) string {
		fields := make([]string, len(columns))
		for i, c := range columns {
			name, _, _ := strings.Cut(c, " ")
			fields[i] = fmt.Sprintf("value ->> %d AS %s", i, name)
		}
		return "(SELECT " + strings.Join(fields, ", ") + " FROM json_each($1)) k"
	},
	Columns: func(columns ...any) []any {
		var rows [][]any
		for _, c := range columns {
			values := reflect.ValueOf(c)
			if rows == nil {
				rows = make([][]any, values.Len())
			}
			for i := range rows {
				rows[i] = append(rows[i], values.Index(i).Interface())
			}
		}
		return []any{string(storable.MustJSON(rows))}
	},
}

// Query runs a query. Calls read a bounded number of rows, so ctx is not passed to
// SQLite.
func (c *conn) Query(_ context.Context, take func(store.Row) error, query string, args ...any) error {
	return c.each(query, func(r row) error { return take(r) }, args...)
}

// batch runs the statements of a Load at once, until one fails.
type batch struct {
	c   *conn
	err error
}

// Each calls take with every row.
func (b *batch) Each(take func(store.Row) error, query string, args ...any) {
	if b.err == nil {
		b.err = b.c.Query(background, take, query, args...)
	}
}

// mostKeys limits the keys of one query.
const mostKeys = 32

// Pick queries all keys at once, because the driver reads the names and types of a query's
// columns on every run. It repeats the last key up to the next power of two: few sizes need
// few prepared statements.
func (b *batch) Pick(take func(store.Row) error, query, column, _ string, keys []string, more string) {
	args := make([]any, 0, mostKeys)
	for len(keys) > 0 {
		now := keys[:min(len(keys), mostKeys)]
		keys = keys[len(now):]
		args = args[:0]
		for _, k := range now {
			args = append(args, k)
		}
		for len(args)&(len(args)-1) != 0 {
			args = append(args, now[len(now)-1])
		}
		b.Each(take, query+" WHERE "+column+" IN ("+strings.Repeat("?,", len(args)-1)+"?)"+more, args...)
	}
}

// Scan stores the row's values in dest. NULL and values of another type become the
// zero value.
func (r row) Scan(dest ...any) error {
	if len(dest) != len(r) {
		return fmt.Errorf("sqlite: %d columns for %d values", len(r), len(dest))
	}
	for i, d := range dest {
		if err := r.put(i, d); err != nil {
			return err
		}
	}
	return nil
}

func (r row) put(i int, dest any) error {
	switch d := dest.(type) {
	case *string:
		*d = r.str(i)
	case **string:
		*d = r.strp(i)
	case *int64:
		*d = r.int(i)
	case **int64:
		*d = r.intp(i)
	case *int:
		*d = int(r.int(i))
	case *bool:
		*d = r.bool(i)
	case sql.Scanner:
		return d.Scan(r[i])
	default:
		switch v := reflect.ValueOf(dest).Elem(); v.Kind() {
		case reflect.String:
			v.SetString(r.str(i))
		case reflect.Int64:
			v.SetInt(r.int(i))
		default:
			return fmt.Errorf("sqlite: cannot read into a %T", dest)
		}
	}
	return nil
}
