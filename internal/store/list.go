package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/fulltext"
)

const (
	scanRows  = 20_000 // most index entries that one call reads
	scanFirst = 1_000  // index entries of the first attempt
)

// listing is the query of a list, the newest item first. It walks along an index whose
// first column by restricts, and applies filter to at most scanRows entries.
// Arguments are numbered from $2 on; $1 is the position in the list.
type listing[T any] struct {
	*Dialect
	from, as string // the table and its alias
	columns  string
	fields   func(*T) []any
	by       string // conditions that an index answers, "" for the table itself
	filter   string // " AND …", conditions that no index answers
	args     []any
	byArgs   int // how many of args belong to by
}

// entry is an item and its number.
type listEntry[T any] struct {
	seq  int64
	item T
}

func (l *listing[T]) arg(v any) string {
	l.args = append(l.args, v)
	return fmt.Sprintf("$%d", len(l.args)+1)
}

// first sets the condition that the index answers; %s in it is the value.
func (l *listing[T]) first(condition, value string) {
	l.by = fmt.Sprintf(condition, l.arg(value))
	l.byArgs = 1
}

// also adds a condition, unless the value is empty. The first one uses the index.
func (l *listing[T]) also(column, value string) {
	switch {
	case value == "":
	case l.by == "":
		l.first(column+" = %s", value)
	default:
		l.only(column, value)
	}
}

// only adds a condition to filter. It is written as an expression, so that the
// planner does not use the column's own index, which may have any number of entries.
func (l *listing[T]) only(column, value string) {
	l.filter += " AND " + column + " || '' = " + l.arg(value)
}

// ending adds a condition for the end of an id, unless the value is empty. No index has it: ids
// end at random, and every new row would change a page of its own.
func (l *listing[T]) ending(end, value string) {
	if value != "" {
		l.only(end, value)
	}
}

// where returns the condition by which the list walks along its index.
func (l *listing[T]) where() string {
	if l.by == "" {
		return l.as + ".seq < $1"
	}
	return l.by + " AND " + l.as + ".seq < $1"
}

func (l *listing[T]) query(ctx context.Context, c Conn, conditions string, tail string, args ...any) ([]listEntry[T], error) {
	return Collect(ctx, c, func(e *listEntry[T]) []any { return append([]any{&e.seq}, l.fields(&e.item)...) },
		fmt.Sprintf(`SELECT %s.seq, %s FROM %s %[1]s WHERE %[4]s%s%s%s`, l.as, l.columns, l.from, l.where(), conditions, l.filter, tail),
		slices.Concat(l.Replan, args)...)
}

// page reads one page. With a filter it first tries a few entries, and reads the most
// that one call may only if they do not fill the page.
func (l *listing[T]) page(ctx context.Context, c Conn, p bloom.Page) (items []T, next bloom.Cursor, err error) {
	before := cmp.Or(p.Cursor.Before, math.MaxInt64)
	if l.filter == "" {
		return l.pageFrom(ctx, c, before, p.Size(), 0)
	}
	for _, window := range []int{scanFirst, scanRows} {
		// The lowest entry to read; 0: all.
		floor, err := One(ctx, c, Self[int64], nil, fmt.Sprintf(`SELECT %s.seq FROM %s %[1]s WHERE %[3]s ORDER BY %[1]s.seq DESC LIMIT 1 OFFSET %[4]d`,
			l.as, l.from, l.where(), window-1), l.argsFrom(before, l.byArgs)...)
		if err != nil {
			return nil, next, err
		}
		items, next, err = l.pageFrom(ctx, c, before, p.Size(), floor)
		if err != nil || floor <= 1 || len(items) == p.Size() {
			return items, next, err
		}
	}
	return items, next, nil
}

// pageFrom reads a page of entries that are not below floor.
func (l *listing[T]) pageFrom(ctx context.Context, c Conn, before int64, limit int, floor int64) (items []T, next bloom.Cursor, err error) {
	args := append(l.argsFrom(before, len(l.args)), floor, limit+1)
	found, err := l.query(ctx, c, fmt.Sprintf(` AND %s.seq >= $%d`, l.as, len(args)-1), fmt.Sprintf(` ORDER BY %s.seq DESC LIMIT CAST($%d AS BIGINT)`, l.as, len(args)), args...)
	switch {
	case err != nil:
		return nil, next, err
	case len(found) > limit:
		found = found[:limit]
		next.Before = found[limit-1].seq
	case floor > 1:
		next.Before = floor
	}
	items = make([]T, 0, len(found))
	for i := range found {
		items = append(items, found[i].item)
	}
	return items, next, nil
}

// argsFrom returns the position in the list and the first n arguments.
func (l *listing[T]) argsFrom(before int64, n int) []any {
	return append([]any{before}, l.args[:n]...)
}

// finder returns the queries of a full-text search.
func (l *listing[T]) finder(ctx context.Context, s Source, c Conn) Finder[T] {
	return Finder[T]{
		Words: func(q fulltext.Query, below int64, n int) ([]int64, int64, error) {
			return s.Words(ctx, c, q, below, n)
		},
		IDs: func(part string, below int64, n int) ([]int64, int64, error) {
			return l.idsWith(ctx, c, part, below, n)
		},
		Fetch: func(seqs []int64) ([]Found[T], error) {
			args := append(l.argsFrom(math.MaxInt64, len(l.args)), l.Array(seqs))
			entries, err := l.query(ctx, c, " AND "+l.In(l.as+".seq", len(args), "bigint"), "", args...)
			found := make([]Found[T], 0, len(entries))
			for _, e := range entries {
				found = append(found, Found[T]{Seq: e.seq, Item: e.item})
			}
			return found, err
		},
	}
}

// idsWith lists tasks whose id contains part, among the next scanRows tasks.
func (d *Dialect) idsWith(ctx context.Context, c Conn, part string, below int64, n int) (seqs []int64, low int64, err error) {
	low, err = One(ctx, c, Self[int64], nil, fmt.Sprintf(`SELECT t.seq FROM llm_tasks t WHERE t.seq < $1 ORDER BY t.seq DESC LIMIT 1 OFFSET %d`, scanRows-1), below)
	if err != nil {
		return nil, 0, err
	}
	seqs, err = Collect(ctx, c, Self[int64], `SELECT t.seq FROM llm_tasks t WHERE t.seq < $1 AND t.seq >= $2 AND `+d.Position+`(CAST(t.id AS TEXT), $3) > 0
		ORDER BY t.seq DESC LIMIT CAST($4 AS BIGINT)`, below, low, part, n)
	if len(seqs) == n {
		low = seqs[n-1]
	}
	return seqs, low, err
}

// list reads one page of a listing.
func list[T any](ctx context.Context, s *Store, l *listing[T], p bloom.Page) (items []T, next bloom.Cursor, err error) {
	l.Dialect = s.sql
	err = s.db.Run(ctx, func(c Conn) (err error) {
		items, next, err = l.page(ctx, c, p)
		return err
	})
	return items, next, err
}

// cut returns an expression for the first n characters of a text column.
func cut(column string, n int) string { return fmt.Sprintf("substr(%s, 1, %d)", column, n) }
