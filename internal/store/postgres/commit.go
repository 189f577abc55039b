package postgres

import (
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom/internal/store"
)

// queue adds the statements that write the changes to a batch: few for each kind of
// change, with many rows each.
func (t *tx) queue(b *pgx.Batch, c *store.Changes) {
	for _, w := range append(c.Writes(), store.AuditWrite(c)) {
		compiled(w.Layout).queue(b, w.Rows)
	}
	for _, s := range dialect.Rest(c) {
		b.Queue(s.Query, s.Args...)
	}
	queueGauge(b, c)
	queueContexts(b, c) // late, because other transactions may wait for these rows
	t.queueCounts(b, c)
}

// bulk is a statement that writes rows: one text for one row, and one for many, with an
// array for each column. A text for each number of rows runs no faster, and each connection
// would have to prepare it.
type bulk struct{ one, many string }

// bulks are the statements by layout.
var bulks sync.Map

func compiled(l *store.Layout) *bulk {
	if b, ok := bulks.Load(l); ok {
		return b.(*bulk) //nolint:forcetypeassert // nothing else is stored
	}
	b, _ := bulks.LoadOrStore(l, newBulk(l.Columns, func(list, rows, count string) string {
		if l.Mode == store.Insert || l.Mode == store.Replace {
			return l.Statement("SELECT * FROM " + rows + " x")
		}
		names := l.Names()
		change := "DELETE FROM " + l.Table + " t USING " + rows + " x (" + list + ")"
		if l.Mode == store.Update {
			sets := make([]string, 0, len(names))
			for _, c := range names[1:] {
				sets = append(sets, c+" = x."+c)
			}
			change = "UPDATE " + l.Table + " t SET " + strings.Join(sets, ", ") + " FROM " + rows + " x (" + list + ")"
		}
		// It was locked, and so it is a bug if one does not exist.
		return "WITH changed AS (" + change + " WHERE t." + names[0] + " = x." + names[0] + " RETURNING 1) SELECT 1 / (count(*) = " + count + ")::int FROM changed"
	}))
	return b.(*bulk) //nolint:forcetypeassert // nothing else is stored
}

// newBulk builds both texts by calling text with the columns' names, the rows, and their
// number.
func newBulk(columns []string, text func(names, rows, count string) string) *bulk {
	names, row, arrays := make([]string, len(columns)), make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		name, kind, _ := strings.Cut(c, " ")
		names[i], row[i] = name, fmt.Sprintf("$%d::%s", i+1, kind)
		switch kind {
		case "uuid", "json", "jsonb": // passed as texts
			arrays[i] = fmt.Sprintf("$%d::text[]::%s[]", i+1, kind)
		default:
			arrays[i] = row[i] + "[]"
		}
	}
	list := strings.Join(names, ", ")
	return &bulk{
		one:  text(list, "(VALUES ("+strings.Join(row, ", ")+"))", "1"),
		many: text(list, "unnest("+strings.Join(arrays, ", ")+")", "cardinality("+arrays[0]+")"),
	}
}

// maxRows bounds the rows of one statement, because the server copies all of them before it writes any.
const maxRows = 128

func (k *bulk) queue(b *pgx.Batch, rows [][]any) {
	for len(rows) > 0 {
		now := rows[:min(len(rows), maxRows)]
		rows = rows[len(now):]
		if len(now) == 1 {
			b.Queue(k.one, now[0]...)
			continue
		}
		width := len(now[0])
		all, arrays := make([]any, len(now)*width), make([]any, width)
		for r, row := range now {
			for c, v := range row {
				all[c*len(now)+r] = v
			}
		}
		for c := range arrays {
			arrays[c] = all[c*len(now) : (c+1)*len(now)]
		}
		b.Queue(k.many, arrays...)
	}
}
