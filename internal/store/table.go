package store

import (
	"iter"
	"slices"
	"strings"
)

// A Query is a kind of value that operations read by key: the rows of a table, or what
// the database derives from them. Load.Run reads them.
type Query[K comparable, V any] struct {
	number int
	// from says in which table rows are locked, by a column of a type; "" if none are. A key
	// that is there, under the conditions more, and was not found is locked by another
	// transaction.
	from, column, kind, more string
}

// queries is the number of queries.
var queries int

func numbered() int {
	queries++
	return queries - 1
}

// derived returns a query of values that are not locked.
func derived[K comparable, V any]() *Query[K, V] { return &Query[K, V]{number: numbered()} }

// locked returns a query of rows that are locked when they are read.
func locked[V any](from, column, kind, more string) *Query[string, V] {
	return &Query[string, V]{numbered(), from, column, kind, more}
}

// Values are the values of a query that a transaction has read or is to read.
type Values[K comparable, V any] struct {
	// Want are the keys to read next, with how many values of each, where there may be
	// many. A Load may remove those that another query reads.
	Want map[K]int
	read map[K]V
	busy map[K]struct{} // rows that another transaction has locked
	q    *Query[K, V]
}

// Set sets what was read; what was wanted and is not set is V's zero value.
func (v *Values[K, V]) Set(k K, is V) { v.read[k] = is }

// Get returns what was read.
func (v *Values[K, V]) Get(k K) (is V, ok bool) {
	is, ok = v.read[k]
	return is, ok
}

// Lock records that another transaction has locked a row.
func (v *Values[K, V]) Lock(k K) { v.busy[k] = struct{}{} }

// Keys returns the keys to read next, in any order.
func (v *Values[K, V]) Keys() []K {
	keys := make([]K, 0, len(v.Want))
	for k := range v.Want {
		keys = append(keys, k)
	}
	return keys
}

// values are Values of any types.
type values interface {
	wanting() bool
	recheck(b Batch)
	settle()
}

func (v *Values[K, V]) wanting() bool { return len(v.Want) > 0 }

// recheck looks up rows that were not found, to distinguish those that others have locked
// from those that do not exist.
func (v *Values[K, V]) recheck(b Batch) {
	if v.q.from == "" {
		return
	}
	var absent []string
	for k := range v.Want {
		if _, ok := v.read[k]; !ok {
			absent = append(absent, any(k).(string)) //nolint:forcetypeassert // rows are locked by names
		}
	}
	if v.q.kind == "uuid" {
		absent = IDs(absent)
	}
	if len(absent) == 0 {
		return
	}
	b.Pick(func(r Row) error {
		var k K
		err := r.Scan(&k)
		v.Lock(k)
		return err
	}, `SELECT `+v.q.column+` FROM `+v.q.from, v.q.column, v.q.kind, absent, v.q.more)
}

// settle ends a read.
func (v *Values[K, V]) settle() {
	for k := range v.Want {
		_, read := v.read[k]
		if _, busy := v.busy[k]; !read && !busy {
			var zero V
			v.read[k] = zero
		}
	}
	clear(v.Want)
}

// Rows is what a transaction has read and is to read next.
type Rows struct {
	Now  int64    // the database's time after locking, Unix milliseconds
	read []values // by the query's number; nil: never wanted
}

// of returns a transaction's values of a query.
func (q *Query[K, V]) of(r *Rows) *Values[K, V] {
	if is := r.read[q.number]; is != nil {
		return is.(*Values[K, V]) //nolint:forcetypeassert // of the same query
	}
	v := &Values[K, V]{Want: map[K]int{}, read: map[K]V{}, busy: map[K]struct{}{}, q: q}
	r.read[q.number] = v
	return v
}

// want has values read.
func (q *Query[K, V]) want(r *Rows, keys ...K) {
	v := q.of(r)
	for _, k := range keys {
		v.Want[k] = max(v.Want[k], 1)
	}
}

// wantUpTo has the first n values of a key read.
func (q *Query[K, V]) wantUpTo(r *Rows, k K, n int) {
	v := q.of(r)
	v.Want[k] = max(v.Want[k], n)
}

// wantMore has n more values of a key read.
func (q *Query[K, V]) wantMore(r *Rows, k K, n int) { q.of(r).Want[k] += n }

// get returns a value; if it must be read first, that is the outcome of this run.
func (q *Query[K, V]) get(u *Unit, k K) (V, error) { return q.getUpTo(u, k, 1) }

func (q *Query[K, V]) getUpTo(u *Unit, k K, n int) (V, error) {
	if now, _ := u.known[q.number].(map[K]V); now != nil {
		if is, ok := now[k]; ok {
			return is, nil
		}
	}
	v := q.of(u.rows)
	is, ok := v.read[k]
	if ok {
		return is, nil
	}
	if _, busy := v.busy[k]; busy {
		return is, u.stop(findsLocked)
	}
	v.Want[k] = max(v.Want[k], n)
	return is, u.stop(lacksRows)
}

// set has later operations of the unit get a value as it is after the commit.
func (q *Query[K, V]) set(u *Unit, k K, is V) {
	now, _ := u.known[q.number].(map[K]V)
	if now == nil {
		now = map[K]V{}
		u.known[q.number] = now
	}
	now[k] = is
}

// wanting reports whether there is something to read.
func (r *Rows) wanting() bool {
	return slices.ContainsFunc(r.read, func(v values) bool { return v != nil && v.wanting() })
}

// Table is a table whose rows operations read, lock and change by key.
type Table[K comparable, R any] struct {
	Query[K, *R]
	insert, update, remove *Layout
	changing, fixed        func(args []any, k K, row *R) []any
}

// table describes a table: its key, the columns that change, and those that do not (""
// if all do), each with name and type. changing appends the values of the key and the
// columns that change, fixed those of the others.
func table[K comparable, R any](name, columns, others string, changing, fixed func(args []any, k K, row *R) []any) *Table[K, R] {
	all := columns
	if others != "" {
		all += ", " + others
	}
	first, _, _ := strings.Cut(columns, ", ")
	key, kind, _ := strings.Cut(first, " ")
	return &Table[K, R]{
		Query:  Query[K, *R]{numbered(), name, key, kind, ""},
		insert: layout(name, all, Insert), update: layout(name, columns, Update), remove: layout(name, first, Delete),
		changing: changing, fixed: fixed,
	}
}

// lockedBy sets the column that operations name rows by, if it is not the first.
func (t *Table[K, R]) lockedBy(column, kind string) *Table[K, R] {
	t.column, t.kind = column, kind
	return t
}

// one is the key of what there is only one of.
var one struct{}

// entry is a row as a unit sees it.
type entry[K comparable, R any] struct {
	key     K
	is, was *R // was: as loaded; nil: there is none
	changed bool
}

// changes are the rows of a table that a unit has seen.
type changes[K comparable, R any] struct {
	t       *Table[K, R]
	seen    map[K]*entry[K, R]
	changed []*entry[K, R] // in the order of their first change
}

func (t *Table[K, R]) in(all *Changes) *changes[K, R] {
	if is := all.tables[t.number]; is != nil {
		return is.(*changes[K, R]) //nolint:forcetypeassert // of the same table
	}
	c := &changes[K, R]{t: t, seen: map[K]*entry[K, R]{}}
	all.tables[t.number] = c
	return c
}

// get returns a locked row, nil if there is none. The caller may change it and then
// calls put.
func (t *Table[K, R]) get(u *Unit, k K) (*R, error) {
	c := t.in(&u.c)
	if e := c.seen[k]; e != nil {
		return e.is, nil
	}
	was, err := t.Query.get(u, k)
	if err != nil {
		return nil, err
	}
	e := &entry[K, R]{key: k, was: was}
	if was != nil {
		e.is = new(R)
		*e.is = *was
	}
	c.seen[k] = e
	return e.is, nil
}

// seen returns a row that the unit has read or added.
func (t *Table[K, R]) seen(u *Unit, k K) (*R, bool) {
	if e := t.in(&u.c).seen[k]; e != nil {
		return e.is, true
	}
	return nil, false
}

// put writes a row, which may be new; nil deletes it.
func (t *Table[K, R]) put(u *Unit, k K, row *R) {
	u.changed()
	t.in(&u.c).put(k, row)
}

func (c *changes[K, R]) put(k K, row *R) {
	e := c.seen[k]
	if e == nil {
		e = &entry[K, R]{key: k}
		c.seen[k] = e
	}
	e.is = row
	if !e.changed {
		e.changed = true
		c.changed = append(c.changed, e)
	}
}

// changes returns the rows that the unit writes, with their former state, nil for new
// ones.
func (t *Table[K, R]) changes(c *Changes) iter.Seq2[*R, *R] {
	return func(yield func(is, was *R) bool) {
		if s, _ := c.tables[t.number].(*changes[K, R]); s != nil {
			for _, e := range s.changed {
				if e.is != nil && !yield(e.is, e.was) {
					return
				}
			}
		}
	}
}

// added returns the new rows.
func (t *Table[K, R]) added(c *Changes) iter.Seq[*R] {
	return func(yield func(*R) bool) {
		for is, was := range t.changes(c) {
			if was == nil && !yield(is) {
				return
			}
		}
	}
}

// Modes of writing.
const (
	Insert  = iota
	Replace // a row with the same first column
	Update  // the row with the same first column, which must exist
	Delete  // the row with the same first column
)

// Layout describes a statement that writes rows of a table.
type Layout struct {
	Table   string
	Columns []string // each with its name and type; only PostgreSQL uses the type
	Mode    int
}

// Layouts are all layouts.
var Layouts []*Layout

func layout(table, columns string, mode int) *Layout {
	l := &Layout{table, strings.Split(columns, ", "), mode}
	Layouts = append(Layouts, l)
	return l
}

// Names returns the columns' names.
func (l *Layout) Names() []string {
	names := make([]string, len(l.Columns))
	for i, c := range l.Columns {
		names[i], _, _ = strings.Cut(c, " ")
	}
	return names
}

// Statement returns the insert of rows, given as lists of values or as a query.
func (l *Layout) Statement(rows string) string {
	names := l.Names()
	statement := `INSERT INTO ` + l.Table + ` (` + strings.Join(names, ", ") + `) ` + rows
	if l.Mode == Replace {
		statement += ` ON CONFLICT (` + names[0] + `) DO UPDATE SET ` + each(names[1:], "%[1]s = excluded.%[1]s")
	}
	return statement
}

// Write is rows to write with one layout.
type Write struct {
	*Layout
	Rows [][]any // the values of each, in the order of the columns
	Was  [][]any // of updates: the values before
}

type tableChanges interface {
	writes() []Write
}

// writes returns what has changed: updates first, because a new row may take a unique
// value that an updated one has given up.
func (c *changes[K, R]) writes() []Write {
	t := c.t
	update, insert, remove := Write{Layout: t.update}, Write{Layout: t.insert}, Write{Layout: t.remove}
	n := len(t.insert.Columns)
	for _, e := range c.changed {
		switch {
		case e.is == nil && e.was != nil:
			remove.Rows = append(remove.Rows, []any{e.key})
		case e.is == nil:
		case e.was == nil:
			row := t.changing(make([]any, 0, n), e.key, e.is)
			if t.fixed != nil {
				row = t.fixed(row, e.key, e.is)
			}
			insert.Rows = append(insert.Rows, row)
		default:
			update.Rows = append(update.Rows, t.changing(make([]any, 0, n), e.key, e.is))
			update.Was = append(update.Was, t.changing(make([]any, 0, n), e.key, e.was))
		}
	}
	return []Write{remove, update, insert}
}

// written returns the write of rows that are only added.
func written[R any](l *Layout, rows []R, values func(args []any, row R) []any) Write {
	w := Write{Layout: l, Rows: make([][]any, len(rows))}
	for i, r := range rows {
		w.Rows[i] = values(make([]any, 0, len(l.Columns)), r)
	}
	return w
}
