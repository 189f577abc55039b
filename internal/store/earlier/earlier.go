// Package earlier copies the PostgreSQL database of the earlier Node implementation into a SQLite
// file of this runtime. It does not change the database. It reads rows as JSON, because not every
// version of that implementation had all columns.
package earlier

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// Imported reports how many rows of a table were copied.
type Imported struct {
	Table   string `json:"table"`
	Rows    int64  `json:"rows"`    // in the database
	Written int64  `json:"written"` // more than Rows where some had to be derived
	Note    string `json:"note,omitempty"`
}

// ErrForeign means that the earlier implementation did not create the database.
var ErrForeign = errors.New("this is not a database of the earlier implementation")

// Import copies the database at sourceURL into a new SQLite file at path, which must not exist. If it
// fails, it leaves no file.
func Import(ctx context.Context, sourceURL, path string) (moved []Imported, err error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("%w: %s; choose another folder", os.ErrExist, path)
	}
	source, err := read(ctx, sourceURL)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
				_ = os.Remove(path + suffix)
			}
		}
	}()
	empty, err := sqlite.Open(ctx, sqlite.Config{Path: path}) // creates the schema
	if err != nil {
		return nil, err
	}
	if err := empty.Close(); err != nil {
		return nil, err
	}
	return write(ctx, path, convert(source))
}

// tables are those of the earlier implementation, each after the tables that it refers to.
var tables = []string{"llm_tasks", "leases", "workers", "runtime_artifacts", "llm_results", "audit_logs", "runtime_settings", "users"}

// row maps the names of columns to values.
type row map[string]any

// read reads all tables into memory, from one snapshot: such databases have thousands of rows, not
// millions.
func read(ctx context.Context, url string) (map[string][]row, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, errors.New("the source database cannot be opened: check its address, user and password")
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing was written
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // nothing was written
	var theirs, ours bool
	err = tx.QueryRow(ctx, `SELECT to_regclass('llm_tasks') IS NOT NULL,
		EXISTS (SELECT FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = 'llm_tasks' AND column_name = 'epoch')`).Scan(&theirs, &ours)
	switch {
	case err != nil:
		return nil, err
	case ours:
		return nil, fmt.Errorf("%w but of this runtime: start a server with it as DATABASE_URL", ErrForeign)
	case !theirs:
		return nil, fmt.Errorf("%w: it has no table llm_tasks", ErrForeign)
	}
	all := map[string][]row{}
	for _, table := range tables {
		if all[table], err = readTable(ctx, tx, table); err != nil {
			return nil, fmt.Errorf("read %s: %w", table, err)
		}
	}
	return all, nil
}

func readTable(ctx context.Context, tx pgx.Tx, table string) ([]row, error) {
	var there bool
	if err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, table).Scan(&there); err != nil || !there {
		return nil, err
	}
	rows, err := tx.Query(ctx, `SELECT to_jsonb(t)::text FROM `+pgx.Identifier{table}.Sanitize()+` t`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (out row, err error) {
		var text string
		if err := r.Scan(&text); err != nil {
			return nil, err
		}
		return out, json.Unmarshal([]byte(text), &out)
	})
}

// write inserts everything in one transaction.
func write(ctx context.Context, path string, c converted) (moved []Imported, err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=foreign_keys(1)")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // fails after the commit
	for _, t := range c.tables {
		for _, values := range t.rows {
			if _, err := tx.ExecContext(ctx, t.insert(), values...); err != nil {
				return nil, fmt.Errorf("write %s: %w", t.name, err)
			}
		}
		moved = append(moved, Imported{Table: t.name, Rows: t.read, Written: int64(len(t.rows)), Note: t.note})
	}
	if _, err := tx.ExecContext(ctx, countAll); err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, usageOfAll, bloom.MaxTokens); err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, contextsOfAll, bloom.MaxTokens); err != nil {
		return nil, err
	}
	return moved, tx.Commit()
}

// usageOfAll sets what the attempts have used. Only their tokens were known then.
const usageOfAll = `UPDATE leases SET tokens = coalesce((SELECT min(json_extract(r.metrics, '$.tokens_used'), ?)
	FROM llm_results r WHERE r.task_id = leases.task_id AND r.epoch = leases.epoch), 0)`

// contextsOfAll adds the contexts of the tasks.
const contextsOfAll = `INSERT INTO contexts (id, seq, created_at, last_used_at, updated_at, tasks, unfinished, tokens, worker_id)
	SELECT t.context_id, max(t.seq), min(t.created_at), max(t.created_at), max(t.updated_at), count(*), sum(t.status = 'queued'),
		coalesce(sum((SELECT sum(min(json_extract(r.metrics, '$.tokens_used'), ?)) FROM llm_results r WHERE r.task_id = t.id)), 0),
		(SELECT w.worker_id FROM llm_tasks w WHERE w.context_id = t.context_id AND w.worker_id IS NOT NULL ORDER BY w.seq DESC LIMIT 1)
	FROM llm_tasks t GROUP BY t.context_id`

// countAll sets the counters of stats.
const countAll = `UPDATE counters SET
	queued = (SELECT count(*) FROM llm_tasks WHERE status = 'queued'),
	completed = (SELECT count(*) FROM llm_tasks WHERE status = 'completed'),
	failed = (SELECT count(*) FROM llm_tasks WHERE status = 'failed'),
	dead = (SELECT count(*) FROM llm_tasks WHERE status = 'dead'),
	cancelled = (SELECT count(*) FROM llm_tasks WHERE status = 'cancelled'),
	leases = (SELECT count(*) FROM leases)`
