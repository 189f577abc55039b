package postgres

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/fulltext"
	"github.com/bloom-runtime/bloom/internal/store"
)

// SearchQueue lists the oldest rows of the queue.
func (d *database) SearchQueue(ctx context.Context, limit int) ([]store.SearchEntry, error) {
	return read(ctx, d, func(c reader) ([]store.SearchEntry, error) {
		return collect(ctx, c, func(r pgx.Rows) (e store.SearchEntry, err error) {
			err = r.Scan(&e.ID, &e.Tasks)
			return e, err
		}, `SELECT id, tasks FROM search_queue ORDER BY id LIMIT $1`, limit)
	})
}

// SearchRetries lists tasks whose output could not be read.
func (d *database) SearchRetries(ctx context.Context, limit int) ([]store.SearchRetry, error) {
	return read(ctx, d, func(c reader) ([]store.SearchRetry, error) {
		return collect(ctx, c, func(r pgx.Rows) (e store.SearchRetry, err error) {
			err = r.Scan(&e.Task, &e.Tries, &e.Due)
			return e, err
		}, `SELECT task, tries, due FROM search_retries ORDER BY due LIMIT $1`, limit)
	})
}

// SearchBelow is the number below which no task was looked at yet.
func (d *database) SearchBelow(ctx context.Context) (int64, error) {
	return read(ctx, d, func(c reader) (int64, error) { return found(ctx, c, scanInt, nil, `SELECT below FROM search_fill`) })
}

// TasksBelow lists tasks by number, the newest first.
func (d *database) TasksBelow(ctx context.Context, below int64, limit int) ([]int64, error) {
	return read(ctx, d, func(c reader) ([]int64, error) {
		return collect(ctx, c, scanInt, `SELECT seq FROM llm_tasks WHERE seq < $1 ORDER BY seq DESC LIMIT $2`, below, limit)
	})
}

// textsOf reads texts up to as many characters as may count.
const textsOf = `SELECT t.seq, t.id::text, substr(t.prompt, 1, $2), coalesce(o.error_message || ' ', '') || coalesce(substr(o.content, 1, $2), ''), coalesce(o.url, '')
	FROM llm_tasks t LEFT JOIN LATERAL (SELECT a.content, a.url, r.error_message FROM llm_results r LEFT JOIN runtime_artifacts a ON a.id = r.artifact_id
		WHERE r.task_id = t.id ORDER BY r.epoch DESC LIMIT 1) o ON true WHERE `

func scanTexts(r pgx.Rows) (t bloom.TaskText, err error) {
	err = r.Scan(&t.Seq, &t.ID, &t.Prompt, &t.Output, &t.URL)
	return t, err
}

// TextsAt reads what is searched of tasks by number.
func (d *database) TextsAt(ctx context.Context, seqs []int64) ([]bloom.TaskText, error) {
	return read(ctx, d, func(c reader) ([]bloom.TaskText, error) {
		return collect(ctx, c, scanTexts, textsOf+`t.seq = ANY($1::bigint[])`, seqs, bloom.MaxSearchText)
	})
}

// TaskTexts reads what is searched of tasks by id.
func (d *database) TaskTexts(ctx context.Context, ids []string) ([]bloom.TaskText, error) {
	return read(ctx, d, func(c reader) ([]bloom.TaskText, error) {
		return collect(ctx, c, scanTexts, textsOf+`t.id = ANY($1::text[]::uuid[])`, idsOnly(ids), bloom.MaxSearchText)
	})
}

// indexLock lets one process at a time write the index, so that none adds a task that
// another one has just found to be gone.
const indexLock = 0x626c6f6f6d5f6674 // "bloom_ft"

// PutWords replaces what the index has of tasks that are still there.
func (d *database) PutWords(ctx context.Context, texts []bloom.TaskText, gone []int64, below *int64) error {
	_, err := read(ctx, d, func(reader) (struct{}, error) {
		return struct{}{}, pgx.BeginFunc(ctx, d.reads, func(tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue(`SELECT pg_advisory_xact_lock($1)`, int64(indexLock))
			for _, t := range texts {
				b.Queue(`INSERT INTO task_search (task, words) SELECT $1, $2::text::tsvector WHERE EXISTS (SELECT FROM llm_tasks WHERE seq = $1)
					ON CONFLICT (task) DO UPDATE SET words = excluded.words`, t.Seq, vector(t))
			}
			b.Queue(`DELETE FROM task_search WHERE task = ANY($1::bigint[])`, gone)
			if below != nil {
				b.Queue(`UPDATE search_fill SET below = $1 WHERE below > $1`, *below)
			}
			return tx.SendBatch(ctx, b).Close()
		})
	})
	return err
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

// wordsWith lists tasks that contain a query's words, looking at the newest blocks
// first.
func wordsWith(ctx context.Context, c reader, q fulltext.Query, below int64, n int) (seqs []int64, low int64, err error) {
	newest, err := found(ctx, c, scanInt, nil, `SELECT coalesce((SELECT task FROM task_search WHERE task < $1 ORDER BY task DESC LIMIT 1), -1)`, below)
	if err != nil || newest < 0 {
		return nil, 0, err
	}
	look := func(query string) ([]int64, error) {
		// Simple: the plan fits the query's words, which may be rare or common.
		return collect(ctx, c, scanInt, `SELECT task FROM task_search WHERE words @@ $1::text::tsquery AND task < $2 ORDER BY task DESC LIMIT $3`,
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

// idsWith lists tasks whose id contains a text, of the newest scanRows.
func idsWith(ctx context.Context, c reader, part string, below int64, n int) (seqs []int64, low int64, err error) {
	type entry struct {
		seq  int64
		fits bool
	}
	all, err := collect(ctx, c, func(r pgx.Rows) (e entry, err error) {
		err = r.Scan(&e.seq, &e.fits)
		return e, err
	}, `SELECT seq, fits FROM (SELECT seq, strpos(id::text, $1) > 0 AS fits, row_number() OVER (ORDER BY seq DESC) AS n FROM llm_tasks WHERE seq < $2
		ORDER BY seq DESC LIMIT $3) x WHERE fits OR n = $3 ORDER BY seq DESC`, part, below, scanRows)
	if err != nil {
		return nil, 0, err
	}
	for i, e := range all {
		if e.fits {
			seqs = append(seqs, e.seq)
		}
		if len(seqs) == n || !e.fits || i == scanRows-1 {
			return seqs, e.seq, nil
		}
	}
	return seqs, 0, nil
}

func (l *listing[T]) finder(ctx context.Context, c reader) store.Finder[T] {
	return store.Finder[T]{
		Words: func(q fulltext.Query, below int64, n int) ([]int64, int64, error) {
			return wordsWith(ctx, c, q, below, n)
		},
		IDs: func(part string, below int64, n int) ([]int64, int64, error) { return idsWith(ctx, c, part, below, n) },
		Fetch: func(seqs []int64) ([]store.Found[T], error) {
			args := append(l.place(math.MaxInt64, len(l.args)), seqs)
			return collect(ctx, c, func(r pgx.Rows) (e store.Found[T], err error) {
				err = r.Scan(append([]any{&e.Seq}, l.fields(&e.Item)...)...)
				return e, err
			}, fmt.Sprintf(`SELECT x.seq, %s FROM %s x WHERE %s AND x.seq = ANY($%d::bigint[])%s`, l.columns, l.table, l.where(), len(args), l.filter),
				append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
		},
	}
}

// queueSearch leaves what the index has to look at, or notes what it has looked at.
func queueSearch(b *pgx.Batch, c *store.Changes) {
	if seqs := c.TextsChanged(); len(seqs) > 0 {
		b.Queue(`INSERT INTO search_queue (tasks) VALUES ($1)`, seqs)
	}
	for _, s := range c.Searched {
		b.Queue(`DELETE FROM search_queue WHERE id = ANY($1::bigint[])`, s.Done)
		b.Queue(`DELETE FROM search_retries WHERE task = ANY($1::bigint[])`, s.Read)
		for _, r := range s.Again {
			b.Queue(`INSERT INTO search_retries (task, due, tries) VALUES ($1, $2, $3) ON CONFLICT (task) DO UPDATE SET due = excluded.due, tries = excluded.tries`, r.Task, r.Due, r.Tries)
		}
	}
}

// Indexed is how many tasks the index has.
func (s *Store) Indexed(ctx context.Context) (int, error) {
	n, err := read(ctx, s.db, func(c reader) (int64, error) { return found(ctx, c, scanInt, nil, `SELECT count(*) FROM task_search`) })
	return int(n), err
}
