// Package earlier moves what the earlier Node implementation kept in PostgreSQL
// into a SQLite file of this runtime. It only reads there. The rows are read as
// JSON, so that a column that some version of that implementation did not have is
// only absent.
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

	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// Moved is what became of one table's rows.
type Moved struct {
	Table   string `json:"table"`
	Rows    int64  `json:"rows"`    // read there
	Written int64  `json:"written"` // here; more where the earlier rows left something out
	Note    string `json:"note,omitempty"`
}

// ErrForeign says that the database is not one of the earlier implementation's.
var ErrForeign = errors.New("this is not a database of the earlier implementation")

// Import reads the database at sourceURL and writes a new SQLite file at path,
// which must not be there. Nothing is left at path when it fails.
func Import(ctx context.Context, sourceURL, path string) (moved []Moved, err error) {
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
	empty, err := sqlite.Open(ctx, sqlite.Config{Path: path}) // makes the schema
	if err != nil {
		return nil, err
	}
	if err := empty.Close(); err != nil {
		return nil, err
	}
	return write(ctx, path, convert(source))
}

// tables of the earlier implementation, those first that others belong to.
var tables = []string{"llm_tasks", "leases", "workers", "runtime_artifacts", "llm_results", "audit_logs", "runtime_settings", "users"}

// row is one row by its columns' names.
type row map[string]any

// read reads every table whole, in one transaction. The earlier implementation
// kept thousands of rows, not millions.
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

// write puts everything into the file in one transaction.
func write(ctx context.Context, path string, c converted) (moved []Moved, err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=foreign_keys(1)")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // in vain after the commit
	for _, t := range c.tables {
		for _, values := range t.rows {
			if _, err := tx.ExecContext(ctx, t.insert(), values...); err != nil {
				return nil, fmt.Errorf("write %s: %w", t.name, err)
			}
		}
		moved = append(moved, Moved{Table: t.name, Rows: t.read, Written: int64(len(t.rows)), Note: t.note})
	}
	if _, err := tx.ExecContext(ctx, countAll); err != nil {
		return nil, err
	}
	// The server takes them into their contexts.
	if _, err := tx.ExecContext(ctx, `UPDATE context_fill SET below = (SELECT COALESCE(MAX(seq) + 1, 0) FROM llm_tasks)`); err != nil {
		return nil, err
	}
	return moved, tx.Commit()
}

// countAll fills in what stats show.
const countAll = `UPDATE counters SET
	queued = (SELECT count(*) FROM llm_tasks WHERE status = 'queued'),
	completed = (SELECT count(*) FROM llm_tasks WHERE status = 'completed'),
	failed = (SELECT count(*) FROM llm_tasks WHERE status = 'failed'),
	dead = (SELECT count(*) FROM llm_tasks WHERE status = 'dead'),
	cancelled = (SELECT count(*) FROM llm_tasks WHERE status = 'cancelled'),
	leases = (SELECT count(*) FROM leases)`
