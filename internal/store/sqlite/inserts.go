package sqlite

import (
	"strings"
	"sync"

	"github.com/bloom-runtime/bloom/internal/store"
)

// inserts holds the texts that insert 8, 4, 2 and 1 rows, by layout. Inserting many rows
// with one statement is much cheaper, and few sizes need few prepared statements.
var inserts sync.Map

func insertTexts(l *store.Layout) *[4]string {
	if texts, ok := inserts.Load(l); ok {
		return texts.(*[4]string) //nolint:forcetypeassert // nothing else is stored
	}
	row := "(" + strings.Repeat("?,", len(l.Columns)-1) + "?)"
	var texts [4]string
	for i := range texts {
		texts[i] = l.Statement("VALUES " + strings.Repeat(row+",", 8>>i-1) + row)
	}
	inserts.Store(l, &texts)
	return &texts
}

func (t *tx) insert(w store.Write) error {
	rows := w.Rows
	if len(rows) == 0 {
		return nil
	}
	args := make([]any, 0, min(len(rows), 8)*len(w.Columns))
	for i, text := range insertTexts(w.Layout) {
		for n := 8 >> i; len(rows) >= n; rows = rows[n:] {
			args = args[:0]
			for _, row := range rows[:n] {
				args = append(args, row...)
			}
			if _, err := t.exec(text, args...); err != nil {
				return err
			}
		}
	}
	return nil
}
