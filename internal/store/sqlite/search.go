package sqlite

import (
	"math"
	"strings"

	"github.com/bloom-runtime/bloom"
)

// search is page with a text to be found in the prompt or the id, in any case
// of any alphabet: SQLite itself folds only ASCII. It stops after scanRows
// entries or scanBytes of prompts, with a cursor to go on from.
func (l listing[T]) search(c *conn, p bloom.Page, text string) (pg page[T], err error) {
	text = strings.ToLower(text)
	before := p.Cursor.Before
	if before == 0 {
		before = math.MaxInt64
	}
	where, args := "x.seq < ?", []any{before}
	if l.by != "" {
		where, args = l.by+" AND "+where, []any{l.byArg, before}
	}
	limit, bytes, rows, stopped := p.Size(), 0, 0, false
	var hits []int64
	last := int64(0)
	err = c.each(`SELECT x.seq, x.id, x.prompt, (1`+l.filter+`) FROM `+l.table+` x WHERE `+where+` ORDER BY x.seq DESC`,
		func(r row) error {
			if stopped = len(hits) == limit || rows == scanRows || bytes > scanBytes; stopped {
				return errStop
			}
			last, rows, bytes = r.int(0), rows+1, bytes+len(r.str(2))
			if r.bool(3) && (strings.Contains(r.str(1), text) || strings.Contains(strings.ToLower(r.str(2)), text)) {
				hits = append(hits, last)
			}
			return nil
		}, append(append([]any{}, l.filterArgs...), args...)...)
	if err != nil {
		return pg, err
	}
	if stopped {
		pg.next.Before = last
	}
	pg.items = make([]T, 0, len(hits))
	for _, seq := range hits {
		v, err := found(c, l.scan, errMissed, `SELECT `+l.columns+` FROM `+l.table+` x WHERE x.seq = ?`, seq)
		if err != nil {
			return pg, err
		}
		pg.items = append(pg.items, v)
	}
	return pg, nil
}
