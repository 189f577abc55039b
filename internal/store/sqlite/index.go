package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/durable"
	"github.com/bloom-runtime/bloom/internal/fulltext"
	"github.com/bloom-runtime/bloom/internal/store"
)

// index is the words of tasks, in a file of its own beside the database: filling it
// never holds up the connection that writes the database. It has nothing that the
// database has not, and is made anew when it is missing or belongs to another state of
// the database.
type index struct {
	mu    sync.Mutex // held by who uses write
	write *conn
	read  *readers
}

// indexFormat changes when the file is to be made anew.
const indexFormat = 1

// indexTables: the texts are not kept, only where each word occurs. The words come
// split and in lower case; ascii takes any other character than ASCII for a letter.
var indexTables = []string{
	`CREATE TABLE IF NOT EXISTS state (one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL, rounds INTEGER NOT NULL, below INTEGER NOT NULL)`,
	`CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(prompt, output, content='', contentless_delete=1, tokenize='ascii')`,
}

// indexPath is where the index of a database lies.
func indexPath(path string) string { return path + ".search" }

// openIndex opens the index, and makes it anew when it cannot be used.
func (d *database) openIndex() (err error) {
	path := indexPath(d.cfg.Path)
	rounds, err := d.write.number(`SELECT rounds FROM search_rounds`)
	if err != nil {
		return err
	}
	next, err := d.write.number(`SELECT COALESCE(MAX(seq) + 1, 0) FROM llm_tasks`)
	if err != nil {
		return err
	}
	for try := range 2 {
		c, fits, err := dialIndex(path, rounds, next)
		if err == nil && fits {
			d.index = &index{write: c, read: newReaders(path, d.cfg.Readers)}
			return nil
		}
		if c != nil {
			err = errors.Join(err, c.close())
		}
		if try > 0 {
			return err
		}
		if err != nil {
			d.cfg.Logger.Warn("the search index cannot be read and is built anew", "path", path, "error", err)
		}
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return errors.New("sqlite: the search index cannot be built")
}

// dialIndex opens the file; it does not fit when it is not of the database's present.
func dialIndex(path string, rounds, next int64) (c *conn, fits bool, err error) {
	if err := durable.Private(path); err != nil { // it holds the words of prompts
		return nil, false, err
	}
	if c, err = dial(dsn(path, "rwc"), writerPragmas...); err != nil {
		return nil, false, err
	}
	for _, table := range indexTables {
		if _, err := c.exec(table); err != nil {
			return c, false, err
		}
	}
	if _, err := c.exec(`INSERT OR IGNORE INTO state (one, format, rounds, below) VALUES (1, ?, ?, ?)`, indexFormat, rounds, next); err != nil {
		return c, false, err
	}
	r, _, err := c.one(`SELECT format, rounds FROM state`)
	if err != nil {
		return c, false, err
	}
	// A batch may have entered the index and not be noted in the database.
	ahead := r.int(1) - rounds
	return c, r.int(0) == indexFormat && (ahead == 0 || ahead == 1), nil
}

func (i *index) close() error {
	if i == nil {
		return nil
	}
	return errors.Join(i.write.close(), i.read.close())
}

// SearchQueue lists the oldest rows of the queue.
func (d *database) SearchQueue(ctx context.Context, limit int) ([]store.SearchEntry, error) {
	return read(ctx, d, func(c *conn) ([]store.SearchEntry, error) {
		return collect(c, func(r row) store.SearchEntry { return store.SearchEntry{ID: r.int(0), Tasks: parseNumbers(r.str(1))} },
			`SELECT id, tasks FROM search_queue ORDER BY id LIMIT +?`, limit)
	})
}

// SearchRetries lists tasks whose output could not be read.
func (d *database) SearchRetries(ctx context.Context, limit int) ([]store.SearchRetry, error) {
	return read(ctx, d, func(c *conn) ([]store.SearchRetry, error) {
		return collect(c, func(r row) store.SearchRetry {
			return store.SearchRetry{Task: r.int(0), Tries: r.int(1), Due: r.int(2)}
		},
			`SELECT task, tries, due FROM search_retries ORDER BY due LIMIT +?`, limit)
	})
}

// SearchBelow is the number below which no task was looked at yet.
func (d *database) SearchBelow(ctx context.Context) (int64, error) {
	return readFrom(ctx, d, d.index.read, func(c *conn) (int64, error) { return c.number(`SELECT below FROM state`) })
}

// TasksBelow lists tasks by number, the newest first.
func (d *database) TasksBelow(ctx context.Context, below int64, limit int) ([]int64, error) {
	return read(ctx, d, func(c *conn) ([]int64, error) {
		return collect(c, func(r row) int64 { return r.int(0) }, `SELECT seq FROM llm_tasks WHERE seq < ? ORDER BY seq DESC LIMIT +?`, below, limit)
	})
}

// textsOf reads texts up to as many characters as may count.
const textsOf = `SELECT t.seq, t.id, substr(t.prompt, 1, ?2), COALESCE(r.error_message || ' ', '') || COALESCE(substr(a.content, 1, ?2), ''), a.url FROM llm_tasks t
	LEFT JOIN llm_results r ON r.task_id = t.id AND r.epoch = (SELECT MAX(l.epoch) FROM llm_results l WHERE l.task_id = t.id)
	LEFT JOIN runtime_artifacts a ON a.id = r.artifact_id WHERE `

func scanTexts(r row) bloom.TaskText {
	return bloom.TaskText{Seq: r.int(0), ID: r.str(1), Prompt: r.str(2), Output: r.str(3), URL: r.str(4)}
}

// TextsAt reads what is searched of tasks by number.
func (d *database) TextsAt(ctx context.Context, seqs []int64) ([]bloom.TaskText, error) {
	return read(ctx, d, func(c *conn) ([]bloom.TaskText, error) {
		return collect(c, scanTexts, textsOf+`t.seq IN (SELECT value FROM json_each(?1))`, string(bloom.MustJSON(seqs)), bloom.MaxSearchText)
	})
}

// TaskTexts reads what is searched of tasks by id.
func (d *database) TaskTexts(ctx context.Context, ids []string) ([]bloom.TaskText, error) {
	return read(ctx, d, func(c *conn) ([]bloom.TaskText, error) {
		return collect(c, scanTexts, textsOf+`t.id IN (SELECT value FROM json_each(?1))`, string(bloom.MustJSON(ids)), bloom.MaxSearchText)
	})
}

// PutWords replaces what the index has of tasks.
func (d *database) PutWords(ctx context.Context, texts []bloom.TaskText, gone []int64, below *int64) (err error) {
	rounds, err := read(ctx, d, func(c *conn) (int64, error) { return c.number(`SELECT rounds FROM search_rounds`) })
	if err != nil {
		return err
	}
	d.index.mu.Lock()
	defer d.index.mu.Unlock()
	c := d.index.write
	if _, err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = c.exec("ROLLBACK")
		}
	}()
	for _, t := range texts {
		if _, err := c.exec(`INSERT OR REPLACE INTO words (rowid, prompt, output) VALUES (?, ?, ?)`, t.Seq, fulltext.Join(t.Prompt), fulltext.Join(t.Output)); err != nil {
			return err
		}
	}
	for _, seq := range gone {
		if _, err := c.exec(`DELETE FROM words WHERE rowid = ?`, seq); err != nil {
			return err
		}
	}
	if below != nil {
		_, err = c.exec(`UPDATE state SET below = ?`, *below)
	} else {
		_, err = c.exec(`UPDATE state SET rounds = ?`, rounds+1)
	}
	if err != nil {
		return err
	}
	_, err = c.exec("COMMIT")
	return err
}

// putSearch leaves what the index has to look at, or notes what it has looked at.
func (t *tx) putSearch(c *store.Changes) error {
	if seqs := c.TextsChanged(); len(seqs) > 0 {
		if _, err := t.exec(`INSERT INTO search_queue (tasks) VALUES (?)`, string(bloom.MustJSON(seqs))); err != nil {
			return err
		}
	}
	for _, s := range c.Searched {
		if _, err := t.exec(`DELETE FROM search_queue WHERE id IN (SELECT value FROM json_each(?))`, string(bloom.MustJSON(s.Done))); err != nil {
			return err
		}
		if _, err := t.exec(`DELETE FROM search_retries WHERE task IN (SELECT value FROM json_each(?))`, string(bloom.MustJSON(s.Read))); err != nil {
			return err
		}
		for _, r := range s.Again {
			if _, err := t.exec(`INSERT OR REPLACE INTO search_retries (task, due, tries) VALUES (?, ?, ?)`, r.Task, r.Due, r.Tries); err != nil {
				return err
			}
		}
		if err := t.set(`UPDATE search_rounds SET rounds = rounds + 1`); err != nil {
			return err
		}
	}
	return nil
}

func parseNumbers(list string) (numbers []int64) {
	_ = json.Unmarshal([]byte(list), &numbers)
	return numbers
}

func (l listing[T]) finder(ctx context.Context, d *database, c *conn) store.Finder[T] {
	return store.Finder[T]{
		Words: func(q fulltext.Query, below int64, n int) ([]int64, int64, error) {
			seqs, err := readFrom(ctx, d, d.index.read, func(c *conn) ([]int64, error) {
				return collect(c, func(r row) int64 { return r.int(0) },
					`SELECT rowid FROM words WHERE words MATCH ? AND rowid < ? ORDER BY rowid DESC LIMIT +?`, matching(q), below, n)
			})
			return seqs, lowest(seqs, n), err
		},
		IDs: func(part string, below int64, n int) ([]int64, int64, error) { return idsWith(c, part, below, n) },
		Fetch: func(seqs []int64) ([]store.Found[T], error) {
			where, args := `x.seq IN (SELECT value FROM json_each(?))`, []any{string(bloom.MustJSON(seqs))}
			if l.by != "" {
				where, args = where+` AND +`+l.by, append(args, l.byArg)
			}
			return collect(c, func(r row) store.Found[T] { return store.Found[T]{Seq: r.int(0), Item: l.scan(r[1:])} },
				`SELECT x.seq, `+l.columns+` FROM `+l.table+` x WHERE `+where+l.filter, append(args, l.filterArgs...)...)
		},
	}
}

// lowest is how far a list of at most n went: to its last entry, or to the end.
func lowest(seqs []int64, n int) int64 {
	if len(seqs) < n {
		return 0
	}
	return seqs[len(seqs)-1]
}

// matching is a query in the index's language. Words are letters, digits and marks.
func matching(q fulltext.Query) string {
	var b strings.Builder
	for _, t := range q.Terms {
		b.WriteString(`"` + strings.Join(t.Words, " ") + `" `)
		if t.Prefix {
			b.WriteString("* ")
		}
	}
	return b.String()
}

// idsWith lists tasks whose id contains a text, of the newest scanRows.
func idsWith(c *conn, part string, below int64, n int) (seqs []int64, low int64, err error) {
	rows, last := 0, int64(0)
	err = c.each(`SELECT x.seq, x.id FROM llm_tasks x WHERE x.seq < ? ORDER BY x.seq DESC LIMIT +?`, func(r row) error {
		if rows, last = rows+1, r.int(0); strings.Contains(r.str(1), part) {
			seqs = append(seqs, last)
		}
		if rows == scanRows || len(seqs) == n {
			low = last
			return errStop
		}
		return nil
	}, below, scanRows)
	return seqs, low, err
}

// Indexed is how many tasks the index has.
func (s *Store) Indexed(ctx context.Context) (int, error) {
	n, err := readFrom(ctx, s.db, s.db.index.read, func(c *conn) (int64, error) { return c.number(`SELECT COUNT(*) FROM words`) })
	return int(n), err
}
