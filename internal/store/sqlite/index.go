package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/bloom-runtime/bloom/internal/durable"
	"github.com/bloom-runtime/bloom/internal/fulltext"
	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// index is the full-text index, in its own file beside the database, so that indexing
// never blocks writes to the database. It can be rebuilt from the database at any
// time, and is rebuilt if it is missing or does not match the database.
type index struct {
	mu    sync.Mutex // protects write
	write *conn
	read  *readers
}

// indexFormat is raised when the file must be rebuilt.
const indexFormat = 1

// indexTables keep no texts, only the positions of words. Words are passed split and
// in lower case; the tokenizer ascii treats every non-ASCII character as a letter.
var indexTables = []string{
	`CREATE TABLE IF NOT EXISTS state (one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL, rounds INTEGER NOT NULL, below INTEGER NOT NULL)`,
	`CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(prompt, output, content='', contentless_delete=1, tokenize='ascii')`,
}

// indexPragmas do not sync commits, which would delay those of the database. A power
// failure may lose the last ones; the index then does not match the database and is
// rebuilt.
var indexPragmas = append(slices.Clone(writerPragmas), "synchronous = NORMAL")

// indexPath returns the path of a database's index.
func indexPath(path string) string { return path + ".search" }

// openIndex opens the index, and rebuilds it if it cannot be used.
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
		c, matches, err := dialIndex(path, rounds, next)
		if err == nil && matches {
			d.index = &index{write: c, read: newReaders(path, d.cfg.Readers, d.fail)}
			return nil
		}
		if c != nil {
			err = errors.Join(err, c.close())
		}
		if try > 0 {
			return err
		}
		if err != nil {
			d.cfg.Logger.Warn("rebuilding the search index: it cannot be read", "path", path, "error", err)
		}
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return errors.New("sqlite: the search index cannot be rebuilt")
}

// dialIndex opens the index file, and reports whether it matches the database.
func dialIndex(path string, rounds, next int64) (c *conn, matches bool, err error) {
	if err := durable.Private(path); err != nil { // it holds the words of prompts
		return nil, false, err
	}
	if c, err = dial(dsn(path, "rwc"), indexPragmas...); err != nil {
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
	// The last batch may be in the index and not yet be recorded in the database.
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
	return store.Read(ctx, d.read, func(c store.Conn) ([]store.SearchEntry, error) {
		return store.Collect(ctx, c, func(e *store.SearchEntry) []any { return []any{&e.ID, (*numberList)(&e.Tasks)} },
			`SELECT id, tasks FROM search_queue ORDER BY id LIMIT +?`, limit)
	})
}

// numberList scans a JSON array of numbers.
type numberList []int64

// Scan implements sql.Scanner.
func (l *numberList) Scan(src any) error {
	list, _ := src.(string)
	_ = json.Unmarshal([]byte(list), (*[]int64)(l))
	return nil
}

// indexed reads a number from the index.
func (d *database) indexed(ctx context.Context, query string) (int64, error) {
	return store.Read(ctx, d.index.read, func(c store.Conn) (int64, error) { return store.One(ctx, c, store.Self[int64], nil, query) })
}

// SearchBelow returns the number below which no task was indexed yet.
func (d *database) SearchBelow(ctx context.Context) (int64, error) {
	return d.indexed(ctx, `SELECT below FROM state`)
}

// PutWords replaces the index entries of tasks.
func (d *database) PutWords(ctx context.Context, texts []contract.TaskText, gone []int64, below *int64) (err error) {
	rounds, err := store.Read(ctx, d.read, func(c store.Conn) (int64, error) {
		return store.One(ctx, c, store.Self[int64], nil, `SELECT rounds FROM search_rounds`)
	})
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

// Words lists the newest tasks that contain a query's words. All are one row, because only the search
// for the first row can be interrupted.
func (d *database) Words(ctx context.Context, _ store.Conn, q fulltext.Query, below int64, n int) (seqs []int64, low int64, err error) {
	seqs, err = store.Read(ctx, d.index.read, func(c store.Conn) ([]int64, error) {
		found, err := store.One(ctx, c, func(l *numberList) []any { return []any{l} }, nil,
			`SELECT json_group_array(rowid) FROM (SELECT rowid FROM words WHERE words MATCH ? AND rowid < ? ORDER BY rowid DESC LIMIT +?)`, matching(q), below, n)
		return found, err
	})
	slices.SortFunc(seqs, func(a, b int64) int { return cmp.Compare(b, a) })
	if len(seqs) == n {
		low = seqs[n-1]
	}
	return seqs, low, err
}

// matching translates a query for FTS5. Words contain only letters, digits and marks.
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

// Indexed returns the number of tasks in the index.
func (s *Store) Indexed(ctx context.Context) (int, error) {
	n, err := s.db.indexed(ctx, `SELECT COUNT(*) FROM words`)
	return int(n), err
}
