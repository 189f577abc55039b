package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
)

// searchRows is how many entries are fetched at once.
const searchRows = 500

// search is page with a text to be found in the prompt or the id, in any case of
// any alphabet. Letters are folded here and not by the server, whose idea of case
// depends on the locale it was set up with. It stops after scanRows entries or
// scanBytes of prompts, with a cursor to go on from.
func (l *listing[T]) search(ctx context.Context, c reader, p bloom.Page, text string) (pg page[T], err error) {
	text = strings.ToLower(text)
	limit, before, bytes := p.Size(), place(p.Cursor), 0
	hits := []int64{}
	for rows := 0; ; {
		chunk, err := l.chunk(ctx, c, before)
		if err != nil {
			return pg, err
		}
		for _, e := range chunk {
			if len(hits) == limit || rows == scanRows || bytes > scanBytes {
				pg.next.Before = before
				pg.items, err = l.fetch(ctx, c, hits)
				return pg, err
			}
			before, rows, bytes = e.seq, rows+1, bytes+len(e.prompt)
			if e.fits && (strings.Contains(e.id, text) || strings.Contains(strings.ToLower(e.prompt), text)) {
				hits = append(hits, e.seq)
			}
		}
		if len(chunk) < searchRows {
			pg.items, err = l.fetch(ctx, c, hits)
			return pg, err
		}
	}
}

type searched struct {
	seq        int64
	id, prompt string
	fits       bool
}

func (l *listing[T]) chunk(ctx context.Context, c reader, before int64) ([]searched, error) {
	rows, err := c.Query(ctx, fmt.Sprintf(`SELECT x.seq, x.id::text, x.prompt, (true%s) FROM %s x WHERE %s ORDER BY x.seq DESC LIMIT %d`,
		l.filter, l.table, l.where(), searchRows), append([]any{pgx.QueryExecModeCacheDescribe}, l.place(before, len(l.args))...)...)
	if err != nil {
		return nil, err
	}
	return gather(rows, func(r pgx.Rows) (e searched, err error) {
		err = r.Scan(&e.seq, &e.id, &e.prompt, &e.fits)
		return e, err
	})
}

// fetch reads entries whole, in the list's order.
func (l *listing[T]) fetch(ctx context.Context, c reader, seqs []int64) ([]T, error) {
	if len(seqs) == 0 {
		return []T{}, nil
	}
	rows, err := c.Query(ctx, fmt.Sprintf(`SELECT %s FROM %s x WHERE x.seq = ANY($1::bigint[]) ORDER BY x.seq DESC`, l.columns, l.table), seqs)
	if err != nil {
		return nil, err
	}
	return gather(rows, func(r pgx.Rows) (v T, err error) {
		err = r.Scan(l.fields(&v)...)
		return v, err
	})
}
