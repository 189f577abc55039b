package store

import (
	"cmp"
	"math"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/fulltext"
)

const (
	searchChunk = 256    // index entries read at once
	searchRows  = 20_000 // most index entries read for one page
)

// Found is an item that matches a search.
type Found[T any] struct {
	Seq  int64
	Item T
}

// Finder is the queries of a search. Words and IDs list numbers below a number, the
// newest first. They have searched all numbers from low on; low 0 means that there are
// no more.
type Finder[T any] struct {
	Words func(q fulltext.Query, below int64, n int) (seqs []int64, low int64, err error)
	IDs   func(part string, below int64, n int) (seqs []int64, low int64, err error)
	// Fetch reads the items that meet the other conditions, in any order.
	Fetch func(seqs []int64) ([]Found[T], error)
}

// Search reads one page of items that contain the text's words or have the text in
// their id, the newest first.
func (f Finder[T]) Search(text string, p bloom.Page) (items []T, next bloom.Cursor, err error) {
	q, part := fulltext.Parse(text), idPart(text)
	below := cmp.Or(p.Cursor.Before, int64(math.MaxInt64))
	items = []T{}
	if q.Empty() {
		return items, next, nil
	}
	last := below
	for read := 0; read < searchRows; read += searchChunk {
		seqs, low, err := f.Words(q, below, searchChunk)
		if err != nil {
			return nil, next, err
		}
		if part != "" {
			more, lowest, err := f.IDs(part, below, searchChunk)
			if err != nil {
				return nil, next, err
			}
			seqs, low, read = append(seqs, more...), max(low, lowest), searchRows
		}
		found, err := f.Fetch(slices.DeleteFunc(seqs, func(seq int64) bool { return seq < low }))
		if err != nil {
			return nil, next, err
		}
		slices.SortFunc(found, func(a, b Found[T]) int { return cmp.Compare(b.Seq, a.Seq) })
		for _, e := range found {
			if len(items) == p.Size() {
				return items, bloom.Cursor{Before: last}, nil
			}
			items, last = append(items, e.Item), e.Seq
		}
		if low == 0 {
			return items, next, nil
		}
		below, last = low, low
	}
	return items, bloom.Cursor{Before: below}, nil
}

// idPart returns the text in lower case if it may be part of an id, else "".
func idPart(text string) string {
	if len(text) < 4 || len(text) > 36 {
		return ""
	}
	part := []byte(text)
	for i, c := range part {
		switch {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', c == '-':
		case 'A' <= c && c <= 'F':
			part[i] = c + 'a' - 'A'
		default:
			return ""
		}
	}
	return string(part)
}
