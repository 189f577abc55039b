package store

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/fulltext"
)

// The index of words is kept beside the transactions that change tasks: each leaves one
// row in search_queue with the numbers of the tasks whose texts it changed, and
// IndexTasks brings those up to date in the index, in the order of commits. What the
// index has of a task only depends on what the tables have, so that work may be done
// twice, and a removed task leaves the index as a new one enters it.

// Searcher is what a database answers of its index.
type Searcher interface {
	// SearchQueue lists the oldest rows of the queue.
	SearchQueue(ctx context.Context, limit int) ([]SearchEntry, error)
	// SearchRetries lists tasks whose output could not be read, those first that may be
	// tried again first.
	SearchRetries(ctx context.Context, limit int) ([]SearchRetry, error)
	// SearchBelow is the number below which tasks are older than the index and were
	// not looked at yet; 0: there are none. TasksBelow lists their numbers, the newest
	// first.
	SearchBelow(ctx context.Context) (int64, error)
	TasksBelow(ctx context.Context, below int64, limit int) ([]int64, error)
	// TextsAt reads what is to be indexed of tasks by their numbers.
	TextsAt(ctx context.Context, seqs []int64) ([]bloom.TaskText, error)
	// PutWords replaces what the index has of tasks, and forgets those that are gone.
	// below, when not nil, is new of SearchBelow.
	PutWords(ctx context.Context, texts []bloom.TaskText, gone []int64, below *int64) error
}

// SearchEntry is a row of the queue.
type SearchEntry struct {
	ID    int64
	Tasks []int64
}

// SearchRetry is a task whose output could not be read.
type SearchRetry struct {
	Task  int64
	Tries int64 // how often it was tried
	Due   int64 // when it may be tried again, Unix milliseconds
}

// Searched is what a transaction changes after a batch has entered the index.
type Searched struct {
	Done  []int64       // rows of the queue
	Read  []int64       // tasks that need not be tried again
	Again []SearchRetry // tasks that are tried again
}

// TextsChanged are the tasks whose texts a transaction changes.
func (c *Changes) TextsChanged() (seqs []int64) {
	for _, t := range c.NewTasks {
		seqs = append(seqs, t.Seq)
	}
	for _, o := range c.Outcomes {
		i := slices.IndexFunc(c.Tasks, func(t *Task) bool { return t.ID == o.Artifact.TaskID })
		if i >= 0 {
			seqs = append(seqs, c.Tasks[i].Seq)
		}
	}
	for _, t := range c.Removal.Tasks {
		seqs = append(seqs, t.Seq)
	}
	return seqs
}

const (
	// indexBatch is how many tasks enter the index at once: their texts are in memory
	// together.
	indexBatch = 64
	// indexRows and indexNamed bound what of the queue is taken at once, its rows and the
	// tasks that they name. A task that was created and has ended in between enters the
	// index once.
	indexRows, indexNamed = 512, 2048
	// retryAfter is when an output that could not be read is tried again, and retryMost
	// how often.
	retryAfter = time.Minute
	retryMost  = 50
)

// IndexTasks brings a batch of tasks up to date in the index.
func (s *Store) IndexTasks(ctx context.Context, read bloom.ReadContent) (n int, more bool, err error) {
	b, err := s.nextToIndex(ctx)
	if err != nil {
		return 0, false, s.fail(err)
	}
	if len(b.seqs) == 0 && b.below == nil {
		return 0, false, nil
	}
	done, parts := Searched{Done: b.entries}, slices.Collect(slices.Chunk(b.seqs, indexBatch))
	if b.below != nil {
		parts = [][]int64{b.seqs} // also when there are none
	}
	for _, seqs := range parts {
		again, err := s.index(ctx, seqs, b, read)
		if err != nil {
			return 0, false, err
		}
		done.Again = append(done.Again, again...)
	}
	for seq := range b.tries {
		if !slices.ContainsFunc(done.Again, func(r SearchRetry) bool { return r.Task == seq }) {
			done.Read = append(done.Read, seq)
		}
	}
	return len(b.seqs), b.more, s.searched(ctx, done)
}

// index puts tasks of a batch into the index; again are those whose output could not be
// read.
func (s *Store) index(ctx context.Context, seqs []int64, b toIndex, read bloom.ReadContent) (again []SearchRetry, err error) {
	texts, err := s.db.TextsAt(ctx, seqs)
	if err != nil {
		return nil, s.fail(err)
	}
	for i := range texts {
		t := &texts[i]
		if t.URL != "" {
			if t.Output, err = read(ctx, t.URL, bloom.MaxSearchText); err != nil && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if tries := b.tries[t.Seq] + 1; err != nil && tries < retryMost {
				again = append(again, SearchRetry{Task: t.Seq, Tries: tries})
			}
		}
		t.Cut()
	}
	gone := slices.DeleteFunc(slices.Clone(seqs), func(seq int64) bool {
		return slices.ContainsFunc(texts, func(t bloom.TaskText) bool { return t.Seq == seq })
	})
	return again, s.fail(s.db.PutWords(ctx, texts, gone, b.below))
}

func (s *Store) searched(ctx context.Context, done Searched) error {
	if len(done.Done)+len(done.Read)+len(done.Again) == 0 {
		return nil
	}
	_, err := do(ctx, s, func(*ReadSet) {}, func(u *Unit) (struct{}, error) {
		u.dirt = true
		is := done
		is.Again = slices.Clone(done.Again)
		for i := range is.Again {
			is.Again[i].Due = u.Now + retryAfter.Milliseconds()
		}
		u.c.Searched = append(u.c.Searched, is)
		return struct{}{}, nil
	})
	return err
}

// toIndex is a batch of tasks for the index.
type toIndex struct {
	seqs    []int64
	entries []int64         // rows of the queue that name them
	tries   map[int64]int64 // of those that are tried again
	below   *int64
	more    bool
}

// nextToIndex takes what changed last before what is tried again, and that before what
// is older than the index.
func (s *Store) nextToIndex(ctx context.Context) (b toIndex, err error) {
	entries, err := s.db.SearchQueue(ctx, indexRows)
	if err != nil {
		return b, err
	}
	for _, e := range entries {
		if len(b.seqs) >= indexNamed {
			break
		}
		b.seqs = append(b.seqs, e.Tasks...)
		b.entries = append(b.entries, e.ID)
	}
	slices.Sort(b.seqs)
	b.seqs = slices.Compact(b.seqs)
	if b.more = len(b.entries) < len(entries) || len(entries) == indexRows; len(b.entries) > 0 {
		return b, nil
	}
	again, err := s.db.SearchRetries(ctx, indexBatch)
	if err != nil {
		return b, err
	}
	now := int64(0)
	if len(again) > 0 {
		if now, err = s.now(ctx); err != nil {
			return b, err
		}
		again = slices.DeleteFunc(again, func(r SearchRetry) bool { return r.Due > now })
	}
	for _, r := range again {
		if b.tries == nil {
			b.tries = map[int64]int64{}
		}
		b.seqs, b.tries[r.Task] = append(b.seqs, r.Task), r.Tries
	}
	if b.more = len(again) == indexBatch; len(again) > 0 || s.indexed.Load() {
		return b, nil
	}
	below, err := s.db.SearchBelow(ctx)
	if err != nil {
		return b, err
	}
	if below == 0 {
		s.indexed.Store(true)
		return b, nil
	}
	if b.seqs, err = s.db.TasksBelow(ctx, below, indexBatch); err != nil {
		return b, err
	}
	if b.more = len(b.seqs) == indexBatch; b.more {
		below = b.seqs[len(b.seqs)-1]
	} else {
		below = 0
	}
	b.below = &below
	return b, nil
}

// Bounds of the work of one search.
const (
	searchChunk = 256    // entries of the index looked up at once
	searchRows  = 20_000 // entries looked at
)

// Found is an entry that a search has found and that fits its other conditions.
type Found[T any] struct {
	Seq  int64
	Item T
}

// Finder is what a search asks of a database. Each lists numbers below a number, the
// newest first; all from low on were looked at, 0: there are no more.
type Finder[T any] struct {
	Words func(q fulltext.Query, below int64, n int) (seqs []int64, low int64, err error)
	IDs   func(part string, below int64, n int) (seqs []int64, low int64, err error)
	// Fetch reads those that fit the other conditions, in any order.
	Fetch func(seqs []int64) ([]Found[T], error)
}

// Search reads one page of what contains a text's words, or has it in its id, the
// newest first.
func (f Finder[T]) Search(text string, p bloom.Page) (items []T, next bloom.Cursor, err error) {
	q, part := fulltext.Parse(text), idPart(text)
	below := cmp.Or(p.Cursor.Before, int64(math.MaxInt64))
	items = []T{}
	if q.Empty() {
		return items, next, nil
	}
	last := below
	for looked := 0; looked < searchRows; looked += searchChunk {
		seqs, low, err := f.Words(q, below, searchChunk)
		if err != nil {
			return nil, next, err
		}
		if part != "" {
			more, lowest, err := f.IDs(part, below, searchChunk)
			if err != nil {
				return nil, next, err
			}
			seqs, low, looked = append(seqs, more...), max(low, lowest), searchRows
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

// idPart is a text that may be part of an id, else empty.
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
