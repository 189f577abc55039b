package memory

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"modernc.org/sqlite" // the driver, and its backup interface
)

// busyWait is how long to wait for the plugin to finish a transaction.
const busyWait = 15 * time.Second

// Snapshot is a consistent, verified copy of a database.
type Snapshot struct {
	Path   string
	SHA256 string
	Size   int64 // bytes
	Counts
}

// Counts are the numbers of rows in a memory, 0 for tables that the plugin's schema lacks.
type Counts struct{ Observations, Summaries, Prompts, Tables int64 }

// remove deletes the copy.
func (s *Snapshot) remove() { _ = os.Remove(s.Path) }

// snapshot copies the database to a file next to it, while others may write to it. Two
// snapshots of the same content have the same SHA-256.
func (p *Project) snapshot(ctx context.Context) (*Snapshot, error) {
	db, err := open(p.DB, "mode=ro")
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	return p.snapshotOn(ctx, db)
}

// snapshotOn is snapshot over an open connection.
func (p *Project) snapshotOn(ctx context.Context, db querier) (_ *Snapshot, err error) {
	var size int64
	if err := db.QueryRowContext(ctx, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&size); err != nil {
		return nil, fmt.Errorf("read %s: %w", p.DB, err)
	}
	if err := p.room(size, "a copy of the memory"); err != nil {
		return nil, err
	}
	tmp, err := p.temporary("snapshot")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp)
		}
	}()
	p.Point("snapshot file made")
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", tmp); err != nil {
		return nil, fmt.Errorf("copy %s: %w", p.DB, err)
	}
	p.Point("snapshot taken")
	if err := normalize(tmp); err != nil {
		return nil, err
	}
	s, err := inspect(ctx, tmp)
	p.Point("snapshot checked")
	return s, err
}

type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// normalize sets the header's change counters to fixed values, because they differ between
// copies of the same content. Nothing relies on them in a file that is not open, and the
// file format only requires that the first two are equal.
func normalize(path string) error {
	const changeCounter, schemaCookie, validFor, libraryVersion = 24, 40, 92, 96
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for _, at := range []int64{changeCounter, schemaCookie, validFor, libraryVersion} {
		if _, err := f.WriteAt(binary.BigEndian.AppendUint32(nil, 1), at); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(f.Sync(), f.Close())
}

// inspect checks the database's integrity and describes it.
func inspect(ctx context.Context, path string) (*Snapshot, error) {
	s := &Snapshot{Path: path}
	db, err := open(path, "mode=ro", "immutable=1")
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&verdict); err != nil {
		return nil, fmt.Errorf("check %s: %w", path, err)
	}
	if verdict != "ok" {
		return nil, fmt.Errorf("%s: %w: %s", path, errDamaged, verdict)
	}
	if s.Counts, err = count(ctx, db); err != nil {
		return nil, err
	}
	s.SHA256, s.Size, err = digest(path)
	return s, err
}

func count(ctx context.Context, db *sql.DB) (c Counts, err error) {
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table'").Scan(&c.Tables)
	for table, n := range map[string]*int64{"observations": &c.Observations, "session_summaries": &c.Summaries, "user_prompts": &c.Prompts} {
		var there int
		err = errors.Join(err, db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?", table).Scan(&there))
		if there > 0 {
			err = errors.Join(err, db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(n))
		}
	}
	if err != nil {
		return Counts{}, fmt.Errorf("count the memory's rows: %w", err)
	}
	return c, nil
}

func open(path string, options ...string) (*sql.DB, error) {
	query := url.Values{"_pragma": {fmt.Sprintf("busy_timeout(%d)", busyWait.Milliseconds())}}
	uri := url.URL{Scheme: "file", Path: path}
	raw := query.Encode()
	for _, o := range options {
		raw += "&" + o
	}
	uri.RawQuery = raw
	db, err := sql.Open("sqlite", uri.String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func digest(path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}

// errDamaged is the error of a failed integrity check.
var errDamaged = errors.New("the database is damaged")

// damage reports whether err means that a file is a damaged database, and not only that it
// cannot be read now.
func damage(err error) bool {
	const corrupt, notADatabase = 11, 26
	switch sqliteCode(err) {
	case corrupt, notADatabase:
		return true
	case 0:
		return errors.Is(err, errDamaged)
	}
	return false
}

// sqliteCode returns SQLite's primary code of an error, 0 if it has none.
func sqliteCode(err error) int {
	const primary = 0xff
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & primary
	}
	return 0
}

// rolledBack reports whether err ended a transaction that changed nothing for certain.
func rolledBack(err error) bool {
	const full = 13
	return sqliteCode(err) == full || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// rollBack rolls back a transaction that a crash interrupted. SQLite does this when the
// database is opened for writing, but not when it is opened read-only.
func rollBack(ctx context.Context, path string) error {
	if info, err := os.Stat(path + "-journal"); err != nil || info.Size() == 0 {
		return nil
	}
	db, err := open(path)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	var n int
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&n)
	if damage(err) {
		return nil // reported when the database is read
	}
	return err
}
