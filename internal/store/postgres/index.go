package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom/internal/fulltext"
	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// SearchQueue lists the oldest rows of the queue.
func (d *database) SearchQueue(ctx context.Context, limit int) ([]store.SearchEntry, error) {
	return store.Read(ctx, d, func(c store.Conn) ([]store.SearchEntry, error) {
		return store.Collect(ctx, c, func(e *store.SearchEntry) []any { return []any{&e.ID, &e.Tasks} }, `SELECT id, tasks FROM search_queue ORDER BY id LIMIT $1`, limit)
	})
}

// SearchBelow returns the number below which no task was indexed yet.
func (d *database) SearchBelow(ctx context.Context) (int64, error) {
	return d.number(ctx, `SELECT below FROM search_fill`)
}

func (d *database) number(ctx context.Context, query string) (int64, error) {
	return store.Read(ctx, d, func(c store.Conn) (int64, error) { return store.One(ctx, c, store.Self[int64], nil, query) })
}

// indexLock is an advisory lock: only one process at a time writes the index, so that
// none adds a task that another one has just found to be removed.
const indexLock = 0x626c6f6f6d5f6674 // "bloom_ft"

// PutWords replaces the index entries of tasks that still exist.
func (d *database) PutWords(ctx context.Context, texts []contract.TaskText, gone []int64, below *int64) error {
	return d.Run(ctx, func(store.Conn) error {
		return pgx.BeginFunc(ctx, d.reads, func(tx pgx.Tx) error {
			b := &pgx.Batch{}
			// The commit that removes the tasks from the queue flushes this one, too.
			b.Queue(`SET LOCAL synchronous_commit = off`)
			b.Queue(`SELECT pg_advisory_xact_lock($1)`, int64(indexLock))
			// The condition in brackets is looked up for each task, whatever the statistics say.
			b.Queue(`INSERT INTO task_search (task, words) SELECT k.task, k.words::tsvector FROM unnest($1::bigint[], $2::text[]) k (task, words)
				WHERE (SELECT true FROM llm_tasks t WHERE t.seq = k.task) ON CONFLICT (task) DO UPDATE SET words = excluded.words`,
				store.Column(texts, func(t contract.TaskText) int64 { return t.Seq }), store.Column(texts, vector))
			b.Queue(`DELETE FROM task_search WHERE task = ANY($1::bigint[])`, gone)
			if below != nil {
				b.Queue(`UPDATE search_fill SET below = $1 WHERE below > $1`, *below)
			}
			return tx.SendBatch(ctx, b).Close()
		})
	})
}

// Limits of a tsvector: PostgreSQL stores no higher position and no more positions of a
// word. Words beyond maxVector bytes are not indexed: a tsvector holds 1 MiB.
const (
	maxPosition  = 16_383
	maxPositions = 255
	maxVector    = 600_000
)

// vector returns a task's tsvector: its words with their positions, and the names of
// its blocks. Words contain only letters, digits and marks, so they need no quotes.
func vector(t contract.TaskText) string {
	positions, size, at := map[string][]int{}, 0, 0
	for _, text := range []string{t.Prompt, t.Output} {
		for w := range fulltext.Words(text) {
			at++
			found, known := positions[w.Text]
			if !known {
				size += len(w.Text) + 8
			}
			if size += 2; size > maxVector {
				break
			}
			if len(found) < maxPositions && (at <= maxPosition || !known) {
				positions[w.Text] = append(found, min(at, maxPosition))
			}
		}
		at++ // a phrase does not continue from one text to the other
	}
	var b strings.Builder
	for _, shift := range blocks {
		b.WriteString(block(shift, t.Seq>>shift) + " ")
	}
	for _, word := range slices.Sorted(maps.Keys(positions)) {
		b.WriteString(word)
		for i, at := range positions[word] {
			b.WriteByte(":,"[min(i, 1)])
			b.WriteString(strconv.Itoa(at))
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// blocks are the sizes, as powers of two, of blocks of tasks by number. A search adds
// a block to its query so that the server does not read all entries of a common word.
var blocks = []int{12, 16, 20}

// block returns the name of a block, which no word can equal.
func block(shift int, n int64) string { return fmt.Sprintf("#%d-%d", shift, n) }

// matching translates a query for tsquery.
func matching(q fulltext.Query) string {
	var terms []string
	for _, t := range q.Terms {
		term := "'" + strings.Join(t.Words, "' <-> '") + "'"
		if t.Prefix {
			term += ":*"
		}
		terms = append(terms, "("+term+")")
	}
	return strings.Join(terms, " & ")
}

// Words lists the newest tasks that contain a query's words. It searches the newest
// blocks first.
func (d *database) Words(ctx context.Context, c store.Conn, q fulltext.Query, below int64, n int) (seqs []int64, low int64, err error) {
	newest, err := store.One(ctx, c, store.Self[int64], nil, `SELECT coalesce((SELECT task FROM task_search WHERE task < $1 ORDER BY task DESC LIMIT 1), -1)`, below)
	if err != nil || newest < 0 {
		return nil, 0, err
	}
	find := func(query string) ([]int64, error) {
		// QueryExecModeExec, so that the plan fits the query's words, rare or common.
		// MATERIALIZED, so that the index of words is used: by number, every vector would be
		// read.
		return store.Collect(ctx, c, store.Self[int64], `WITH found AS MATERIALIZED (SELECT task FROM task_search WHERE words @@ $1::text::tsquery)
			SELECT task FROM found WHERE task < $2 ORDER BY task DESC LIMIT $3`,
			pgx.QueryExecModeExec, query, below, n)
	}
	for _, shift := range blocks {
		at := newest >> shift
		if seqs, err = find(fmt.Sprintf("%s & ('%s' | '%s')", matching(q), block(shift, at), block(shift, at-1))); err != nil {
			return nil, 0, err
		}
		if len(seqs) == n {
			return seqs, seqs[n-1], nil
		}
		if at <= 1 {
			return seqs, 0, nil
		}
	}
	if seqs, err = find(matching(q)); err != nil || len(seqs) < n {
		return seqs, 0, err
	}
	return seqs, seqs[n-1], nil
}

// Indexed returns the number of tasks in the index.
func (s *Store) Indexed(ctx context.Context) (int, error) {
	n, err := s.db.number(ctx, `SELECT count(*) FROM task_search`)
	return int(n), err
}
