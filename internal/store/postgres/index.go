package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/fulltext"
	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/sqldb"
)

// SearchQueue lists the oldest rows of the queue.
func (d *database) SearchQueue(ctx context.Context, limit int) ([]store.SearchEntry, error) {
	return sqldb.Read(ctx, d, func(c sqldb.Conn) ([]store.SearchEntry, error) {
		return sqldb.Collect(ctx, c, func(e *store.SearchEntry) []any { return []any{&e.ID, &e.Tasks} }, `SELECT id, tasks FROM search_queue ORDER BY id LIMIT $1`, limit)
	})
}

// SearchBelow is the number below which no task was looked at yet.
func (d *database) SearchBelow(ctx context.Context) (int64, error) {
	return d.number(ctx, `SELECT below FROM search_fill`)
}

func (d *database) number(ctx context.Context, query string) (int64, error) {
	return sqldb.Read(ctx, d, func(c sqldb.Conn) (int64, error) { return sqldb.One(ctx, c, sqldb.Self[int64], nil, query) })
}

// indexLock lets one process at a time write the index, so that none adds a task that
// another one has just found to be gone.
const indexLock = 0x626c6f6f6d5f6674 // "bloom_ft"

// PutWords replaces what the index has of tasks that are still there.
func (d *database) PutWords(ctx context.Context, texts []bloom.TaskText, gone []int64, below *int64) error {
	return d.Run(ctx, func(sqldb.Conn) error {
		return pgx.BeginFunc(ctx, d.reads, func(tx pgx.Tx) error {
			b := &pgx.Batch{}
			// The commit that takes the tasks off the queue writes this one to disk, too.
			b.Queue(`SET LOCAL synchronous_commit = off`)
			b.Queue(`SELECT pg_advisory_xact_lock($1)`, int64(indexLock))
			// The condition in brackets is looked up for each task, whatever the statistics say.
			b.Queue(`INSERT INTO task_search (task, words) SELECT k.task, k.words::tsvector FROM unnest($1::bigint[], $2::text[]) k (task, words)
				WHERE (SELECT true FROM llm_tasks t WHERE t.seq = k.task) ON CONFLICT (task) DO UPDATE SET words = excluded.words`,
				sqldb.Column(texts, func(t bloom.TaskText) int64 { return t.Seq }), sqldb.Column(texts, vector))
			b.Queue(`DELETE FROM task_search WHERE task = ANY($1::bigint[])`, gone)
			if below != nil {
				b.Queue(`UPDATE search_fill SET below = $1 WHERE below > $1`, *below)
			}
			return tx.SendBatch(ctx, b).Close()
		})
	})
}

// Bounds of a vector: the server knows no higher place of a word, and no more places of
// one. More words than maxVector bytes of them are left out: a vector has 1 MiB.
const (
	lastPlace = 16_383
	mostPlace = 255
	maxVector = 600_000
)

// vector is what is indexed of a task: its words with their places, and the blocks of
// tasks that it is in. Words are letters, digits and marks, so that none is quoted.
func vector(t bloom.TaskText) string {
	places, size, at := map[string][]int{}, 0, 0
	for _, text := range []string{t.Prompt, t.Output} {
		for w := range fulltext.Words(text) {
			at++
			is, known := places[w.Text]
			if !known {
				size += len(w.Text) + 8
			}
			if size += 2; size > maxVector {
				break
			}
			if len(is) < mostPlace && (at <= lastPlace || !known) {
				places[w.Text] = append(is, min(at, lastPlace))
			}
		}
		at++ // a phrase does not go on from one text to the other
	}
	var b strings.Builder
	for _, shift := range blocks {
		b.WriteString(block(shift, t.Seq>>shift) + " ")
	}
	for _, word := range slices.Sorted(maps.Keys(places)) {
		b.WriteString(word)
		for i, at := range places[word] {
			b.WriteByte(":,"[min(i, 1)])
			b.WriteString(strconv.Itoa(at))
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// blocks are the sizes, as powers of two, of blocks of tasks by number. Each task's
// vector names its blocks, so that what a common word is looked up in can be bounded:
// the server reads all of a word's entries otherwise.
var blocks = []int{12, 16, 20}

// block names a block as no word is named.
func block(shift int, n int64) string { return fmt.Sprintf("#%d-%d", shift, n) }

// matching is a query in the server's language.
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

// Words lists tasks that contain a query's words, looking at the newest blocks first.
func (d *database) Words(ctx context.Context, c sqldb.Conn, q fulltext.Query, below int64, n int) (seqs []int64, low int64, err error) {
	newest, err := sqldb.One(ctx, c, sqldb.Self[int64], nil, `SELECT coalesce((SELECT task FROM task_search WHERE task < $1 ORDER BY task DESC LIMIT 1), -1)`, below)
	if err != nil || newest < 0 {
		return nil, 0, err
	}
	look := func(query string) ([]int64, error) {
		// Simple: the plan fits the query's words, which may be rare or common. The index of
		// words answers, whatever the statistics say: by number every vector would be read.
		return sqldb.Collect(ctx, c, sqldb.Self[int64], `WITH found AS MATERIALIZED (SELECT task FROM task_search WHERE words @@ $1::text::tsquery)
			SELECT task FROM found WHERE task < $2 ORDER BY task DESC LIMIT $3`,
			pgx.QueryExecModeExec, query, below, n)
	}
	for _, shift := range blocks {
		at := newest >> shift
		if seqs, err = look(fmt.Sprintf("%s & ('%s' | '%s')", matching(q), block(shift, at), block(shift, at-1))); err != nil {
			return nil, 0, err
		}
		if len(seqs) == n {
			return seqs, seqs[n-1], nil
		}
		if at <= 1 {
			return seqs, 0, nil
		}
	}
	if seqs, err = look(matching(q)); err != nil || len(seqs) < n {
		return seqs, 0, err
	}
	return seqs, seqs[n-1], nil
}

// Indexed is how many tasks the index has.
func (s *Store) Indexed(ctx context.Context) (int, error) {
	n, err := s.db.number(ctx, `SELECT count(*) FROM task_search`)
	return int(n), err
}
