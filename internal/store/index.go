package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// The full-text index is updated asynchronously. A transaction that changes texts adds
// a row to search_queue with the numbers of the tasks, and IndexTasks indexes those in
// the order of commits. Indexing a task reads its present rows, so it may be repeated,
// and it also removes a deleted task from the index.

// Searcher is a database's full-text index.
type Searcher interface {
	// SearchQueue lists the oldest rows of the queue.
	SearchQueue(ctx context.Context, limit int) ([]SearchEntry, error)
	// SearchBelow returns the number below which tasks were not indexed yet, because
	// they are older than the index; 0: there are none.
	SearchBelow(ctx context.Context) (int64, error)
	// PutWords replaces the index entries of tasks and removes those of gone. A below
	// that is not nil becomes SearchBelow.
	PutWords(ctx context.Context, texts []contract.TaskText, gone []int64, below *int64) error
}

// SearchEntry is a row of search_queue.
type SearchEntry struct {
	ID    int64
	Tasks []int64
}

// SearchRetry is a task whose output could not be read.
type SearchRetry struct {
	Task  int64
	Tries int64
	Due   int64 // of the next try, Unix milliseconds
}

// Searched is what a transaction records after a batch was indexed.
type Searched struct {
	Done  []int64       // rows of search_queue to delete
	Read  []int64       // tasks that need no retry any more
	Again []SearchRetry // tasks to retry
}

// TextsChanged returns the numbers of the tasks whose texts a transaction changes.
func (c *Changes) TextsChanged() (seqs []int64) {
	for t, was := range tasks.changes(c) {
		if was == nil || slices.ContainsFunc(c.Outcomes, func(o *Outcome) bool { return o.Artifact.TaskID == t.ID }) {
			seqs = append(seqs, t.Seq)
		}
	}
	for _, t := range c.Removal.Tasks {
		seqs = append(seqs, t.Seq)
	}
	return seqs
}

const (
	// indexBatch is how many tasks are indexed at once, with all their texts in memory.
	indexBatch = 64
	// indexRows and indexNamed limit the rows of the queue read at once and the tasks
	// that they name. A task named by several of them is indexed once.
	indexRows, indexNamed = 512, 2048
	retryAfter            = time.Minute // when an output could not be read
	retryMost             = 50
)

// IndexTasks indexes a batch of tasks. n is their number, more reports whether
// further tasks wait.
func (s *Store) IndexTasks(ctx context.Context, read contract.ReadContent) (n int, more bool, err error) {
	b, err := s.nextToIndex(ctx)
	if err != nil {
		return 0, false, s.explain(err)
	}
	if len(b.seqs) == 0 && b.below == nil {
		return 0, false, nil
	}
	done, chunks := Searched{Done: b.entries}, slices.Collect(slices.Chunk(b.seqs, indexBatch))
	if b.below != nil {
		chunks = [][]int64{b.seqs} // one chunk even if it is empty, to store below
	}
	for _, seqs := range chunks {
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

// index indexes tasks and returns those whose output could not be read.
func (s *Store) index(ctx context.Context, seqs []int64, b toIndex, read contract.ReadContent) (again []SearchRetry, err error) {
	texts, err := s.TextsAt(ctx, seqs)
	if err != nil {
		return nil, s.explain(err)
	}
	for i := range texts {
		t := &texts[i]
		if t.URL != "" {
			if t.Output, err = read(ctx, t.URL, contract.MaxSearchText); err != nil && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if tries := b.tries[t.Seq] + 1; err != nil && tries < retryMost {
				again = append(again, SearchRetry{Task: t.Seq, Tries: tries})
			}
		}
		t.Cut()
	}
	gone := slices.DeleteFunc(slices.Clone(seqs), func(seq int64) bool {
		return slices.ContainsFunc(texts, func(t contract.TaskText) bool { return t.Seq == seq })
	})
	return again, s.explain(s.db.PutWords(ctx, texts, gone, b.below))
}

func (s *Store) searched(ctx context.Context, done Searched) error {
	if len(done.Done)+len(done.Read)+len(done.Again) == 0 {
		return nil
	}
	_, err := do(ctx, s, func(*Rows) {}, func(u *Unit) (struct{}, error) {
		u.changed()
		dated := done
		dated.Again = slices.Clone(done.Again)
		for i := range dated.Again {
			dated.Again[i].Due = u.Now + retryAfter.Milliseconds()
		}
		u.c.Searched = append(u.c.Searched, dated)
		return struct{}{}, nil
	})
	return err
}

// toIndex is a batch of tasks to index.
type toIndex struct {
	seqs    []int64
	entries []int64         // rows of search_queue that name them
	tries   map[int64]int64 // of retried tasks
	below   *int64          // the new SearchBelow, nil if unchanged
	more    bool
}

// nextToIndex takes changed tasks first, then retries, then tasks that are older than
// the index.
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
	again, err := s.SearchRetries(ctx, indexBatch)
	if err != nil {
		return b, err
	}
	now := int64(0)
	if len(again) > 0 {
		if now, err = s.Time(ctx); err != nil {
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
	if b.seqs, err = s.TasksBelow(ctx, below, indexBatch); err != nil {
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

// textsOf reads the indexed texts, cut to the limit of the index.
const textsOf = `SELECT t.seq, t.id, substr(t.prompt, 1, %[1]d), coalesce(r.error_message || ' ', '') || coalesce(substr(a.content, 1, %[1]d), ''), coalesce(a.url, '')
		FROM llm_tasks t LEFT JOIN llm_results r ON r.task_id = t.id AND r.epoch = (SELECT max(l.epoch) FROM llm_results l WHERE l.task_id = t.id)
		LEFT JOIN runtime_artifacts a ON a.id = r.artifact_id WHERE %[2]s`

func textFields(t *contract.TaskText) []any {
	return []any{&t.Seq, &t.ID, &t.Prompt, &t.Output, &t.URL}
}

// TextsAt reads the indexed texts of tasks by number.
func (s *Store) TextsAt(ctx context.Context, seqs []int64) ([]contract.TaskText, error) {
	return all(ctx, s, textFields, fmt.Sprintf(textsOf, contract.MaxSearchText, s.sql.In("t.seq", 1, "bigint")), s.sql.Array(seqs))
}

// TaskTexts reads the indexed texts of tasks by id.
func (s *Store) TaskTexts(ctx context.Context, tasks []string) ([]contract.TaskText, error) {
	return all(ctx, s, textFields, fmt.Sprintf(textsOf, contract.MaxSearchText, s.sql.In("t.id", 1, "uuid")), s.sql.Array(IDs(tasks)))
}

// SearchRetries lists tasks whose output could not be read.
func (s *Store) SearchRetries(ctx context.Context, limit int) ([]SearchRetry, error) {
	return all(ctx, s, func(e *SearchRetry) []any { return []any{&e.Task, &e.Tries, &e.Due} },
		`SELECT task, tries, due FROM search_retries ORDER BY due LIMIT CAST($1 AS BIGINT)`, limit)
}

// TasksBelow lists tasks' numbers, the newest first.
func (s *Store) TasksBelow(ctx context.Context, below int64, limit int) ([]int64, error) {
	return all(ctx, s, Self[int64], `SELECT seq FROM llm_tasks WHERE seq < $1 ORDER BY seq DESC LIMIT CAST($2 AS BIGINT)`, below, limit)
}

// search queues changed texts for the index, and records what was indexed.
func (d *Dialect) search(c *Changes, add func(string, ...any)) {
	if seqs := c.TextsChanged(); len(seqs) > 0 {
		add(`INSERT INTO search_queue (tasks) VALUES ($1)`, d.Array(seqs))
	}
	for _, s := range c.Searched {
		add(`DELETE FROM search_queue WHERE `+d.In("id", 1, "bigint"), d.Array(s.Done))
		add(`DELETE FROM search_retries WHERE `+d.In("task", 1, "bigint"), d.Array(s.Read))
		for _, r := range s.Again {
			add(`INSERT INTO search_retries (task, due, tries) VALUES ($1, $2, $3) ON CONFLICT (task) DO UPDATE SET due = excluded.due, tries = excluded.tries`,
				r.Task, r.Due, r.Tries)
		}
	}
}
