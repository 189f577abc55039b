// Package importer copies everything in a SQLite file into a PostgreSQL database.
package importer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// Imported describes an imported table.
type Imported struct {
	Table  string `json:"table"`
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"` // of all rows, the same in both databases
}

// ErrNotEmpty is returned if the target database has other data.
var ErrNotEmpty = errors.New("the database already holds data that does not come from this import")

// ErrDiffers is returned if the copy differs from the file.
var ErrDiffers = errors.New("the copy differs from the file")

// Import copies everything in a SQLite file into an empty PostgreSQL database. The file's server must
// be stopped: the file is locked meanwhile. Calling Import again resumes an interrupted import. At
// the end every table is read back and compared by count and hash. progress, when not nil, is called
// with the number of copied rows of a table.
func Import(ctx context.Context, sqlitePath, databaseURL string, progress func(table string, rows int64)) (done []Imported, err error) {
	path, err := filepath.Abs(sqlitePath)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	// Opening the store locks the file and migrates its schema.
	lock, err := sqlite.Open(ctx, sqlite.Config{Path: path})
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	for sealed := 1; sealed > 0; { // the whole audit, so that nothing changes afterwards
		if sealed, err = lock.Seal(ctx); err != nil {
			return nil, fmt.Errorf("import: audit: %w", err)
		}
	}
	file := url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro"}
	from, err := sql.Open("sqlite", file.String())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if _, err := postgres.MigrateUp(ctx, databaseURL); err != nil {
		return nil, fmt.Errorf("import: schema: %w", err)
	}
	to, err := postgres.Connect(ctx, databaseURL)
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	defer func() { _ = to.Close(context.WithoutCancel(ctx)) }()
	if progress == nil {
		progress = func(string, int64) {}
	}
	m := &mover{from: from, to: to, progress: progress}
	return m.run(ctx)
}

// mover copies tables from one database to the other.
type mover struct {
	from     *sql.DB
	to       *pgx.Conn
	progress func(table string, rows int64)
}

func (m *mover) run(ctx context.Context) (done []Imported, err error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	for _, t := range moved {
		if err := m.copy(ctx, t); err != nil {
			return nil, fmt.Errorf("import %s: %w", t.name, err)
		}
	}
	if _, err := m.to.Exec(ctx, finishImport); err != nil {
		return nil, fmt.Errorf("import: counters and sequences: %w", err)
	}
	if err := m.sequences(ctx); err != nil {
		return nil, fmt.Errorf("import: sequences: %w", err)
	}
	if err := m.chain(ctx); err != nil {
		return nil, fmt.Errorf("import: audit: %w", err)
	}
	for _, t := range moved {
		got, err := m.verify(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("import %s: %w", t.name, err)
		}
		done = append(done, got)
	}
	_, err = m.to.Exec(ctx, `DROP TABLE bloom_import`)
	return done, err
}

// sequences continues numbers that must not be reused, even if the rows with the highest ones were
// removed.
func (m *mover) sequences(ctx context.Context) error {
	for _, name := range neverReused {
		var last int64
		if err := m.from.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?`, name).Scan(&last); err != nil {
			return err
		}
		if _, err := m.to.Exec(ctx, `SELECT setval(pg_get_serial_sequence('`+name+`', 'seq'), greatest(1, $1, (SELECT max(seq) FROM `+name+`)))`, last); err != nil {
			return err
		}
	}
	return nil
}

// chain copies the head of the audit's chain and the progress of its export.
func (m *mover) chain(ctx context.Context) error {
	var seq, exported, planned, branch int64
	var hash, last string
	if err := m.from.QueryRowContext(ctx, `SELECT h.seq, hex(h.hash), e.exported, e.hash, e.planned, e.branch FROM audit_head h, audit_export e`).
		Scan(&seq, &hash, &exported, &last, &planned, &branch); err != nil {
		return err
	}
	if _, err := m.to.Exec(ctx, `UPDATE audit_head SET seq = $1, hash = decode($2, 'hex')`, seq, hash); err != nil {
		return err
	}
	_, err := m.to.Exec(ctx, `UPDATE audit_export SET exported = $1, hash = $2, planned = $3, branch = $4`, exported, last, planned, branch)
	return err
}

// begin resumes an interrupted import, or checks that the database is empty.
func (m *mover) begin(ctx context.Context) error {
	var resumes, used bool
	if err := m.to.QueryRow(ctx, `SELECT to_regclass('bloom_import') IS NOT NULL`).Scan(&resumes); err != nil || resumes {
		return err
	}
	// What a server writes at its first start, before there is any other data.
	if _, err := m.to.Exec(ctx, `DELETE FROM runtime_settings WHERE (key = 'installation' OR key LIKE 'sweep:%') AND NOT EXISTS (SELECT FROM llm_tasks)`); err != nil {
		return err
	}
	for _, t := range moved {
		if err := m.to.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+t.name+`)`).Scan(&used); err != nil {
			return err
		}
		if used {
			return fmt.Errorf("%w: there are rows in %s", ErrNotEmpty, t.name)
		}
	}
	_, err := m.to.Exec(ctx, `CREATE TABLE bloom_import (name text PRIMARY KEY, upto bigint NOT NULL)`)
	return err
}

// copy copies a table in steps along its key. Each transaction also records its step, so that an
// interrupted import can resume.
func (m *mover) copy(ctx context.Context, t table) error {
	upto, last := int64(0), int64(0)
	if err := m.to.QueryRow(ctx, `SELECT coalesce(max(upto), 0) FROM bloom_import WHERE name = $1`, t.name).Scan(&upto); err != nil {
		return err
	}
	if err := m.from.QueryRowContext(ctx, `SELECT coalesce(max(`+t.key+`), 0) FROM `+t.name).Scan(&last); err != nil {
		return err
	}
	for upto < last {
		next := min(upto+t.step, last)
		rows, err := m.source(ctx, t, upto, next)
		if err != nil {
			return err
		}
		if err := m.put(ctx, t, rows, next); err != nil {
			return err
		}
		upto = next
		m.progress(t.name, int64(len(rows)))
	}
	return nil
}

// source reads rows of the file with keys above after and up to upto, every value as text.
func (m *mover) source(ctx context.Context, t table, after, upto int64) (all [][]*string, err error) {
	err = m.eachSource(ctx, t, after, upto, func(row []*string) { all = append(all, row) })
	return all, err
}

func (m *mover) eachSource(ctx context.Context, t table, after, upto int64, fn func([]*string)) error {
	var values []string
	for _, c := range t.columns {
		values = append(values, "CAST("+c.source()+" AS TEXT)")
	}
	//nolint:gosec // G202: names of tables and columns are our own, see tables.go
	rows, err := m.from.QueryContext(ctx, `SELECT `+strings.Join(values, ", ")+` FROM `+t.name+` WHERE `+t.key+` > ? AND `+t.key+` <= ? ORDER BY `+t.order, after, upto)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		row, err := t.scan(rows)
		if err != nil {
			return err
		}
		fn(row)
	}
	return rows.Err()
}

func (m *mover) put(ctx context.Context, t table, rows [][]*string, upto int64) error {
	arrays := make([]any, len(t.columns))
	for i := range t.columns {
		values := make([]*string, len(rows))
		for j, r := range rows {
			values[j] = r[i]
		}
		arrays[i] = values
	}
	b := &pgx.Batch{}
	b.Queue("begin")
	b.Queue(t.insert(), arrays...)
	b.Queue(`INSERT INTO bloom_import (name, upto) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET upto = excluded.upto`, t.name, upto)
	b.Queue("commit")
	return m.to.SendBatch(ctx, b).Close()
}
