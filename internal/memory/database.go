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
	"path/filepath"
	"time"

	"modernc.org/sqlite" // the driver, whose backup interface is used too
)

// busyWait is how long to wait for the plugin to finish a transaction.
const busyWait = 15 * time.Second

// Snapshot is a consistent copy of a database, whole and checked.
type Snapshot struct {
	Path   string
	SHA256 string
	Size   int64 // bytes
	Counts
}

// Counts says how much is in a memory. What the plugin's schema lacks is 0.
type Counts struct{ Observations, Summaries, Prompts, Tables int64 }

// remove deletes the copy.
func (s *Snapshot) remove() { _ = os.Remove(s.Path) }

// snapshot copies the database at path, which others may be writing, beside it. Two
// snapshots of the same content have the same SHA-256.
func snapshot(ctx context.Context, path string) (_ *Snapshot, err error) {
	tmp, err := temporary(path, "snapshot")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp)
		}
	}()
	db, err := open(path, "mode=ro")
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", tmp); err != nil {
		return nil, fmt.Errorf("copy %s: %w", path, err)
	}
	if err := normalize(tmp); err != nil {
		return nil, err
	}
	return inspect(ctx, tmp)
}

// normalize gives the header's counters of changes fixed values. They differ between
// copies of the same content, nobody relies on them in a file that nobody has open,
// and the file format asks only that the first two are equal.
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

// inspect checks that the file is a sound database and describes it.
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
		return nil, fmt.Errorf("%s is damaged: %s", path, verdict)
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
		return Counts{}, fmt.Errorf("count what is in the memory: %w", err)
	}
	return c, nil
}

// replace puts the content of the database at from in place of that at path, in one
// transaction of SQLite's: whoever has it open goes on with the new content, and a
// crash at any moment leaves the one or the other.
func replace(ctx context.Context, from, path string) error {
	db, err := open(path)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { _ = conn.Close() }()
	if err := samePageSize(ctx, conn, from); err != nil {
		return err
	}
	err = conn.Raw(func(driver any) error {
		c, ok := driver.(interface {
			NewRestore(string) (*sqlite.Backup, error)
		})
		if !ok {
			return errors.New("the SQLite driver cannot restore")
		}
		b, err := c.NewRestore(from)
		if err != nil {
			return err
		}
		_, err = b.Step(-1) // all pages
		return errors.Join(err, b.Finish())
	})
	if err != nil {
		return fmt.Errorf("replace %s: %w; if the memory plugin is running, stop it and try again", path, err)
	}
	return nil
}

// samePageSize makes the database take pages of from's size, which it cannot while it
// has a write-ahead log.
func samePageSize(ctx context.Context, conn *sql.Conn, from string) error {
	source, err := open(from, "mode=ro", "immutable=1")
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	var wanted, have int
	if err := source.QueryRowContext(ctx, "PRAGMA page_size").Scan(&wanted); err != nil {
		return err
	}
	if err := conn.QueryRowContext(ctx, "PRAGMA page_size").Scan(&have); err != nil || have == wanted {
		return err
	}
	var mode string
	if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode = DELETE").Scan(&mode); err != nil || mode != "delete" {
		return fmt.Errorf("the databases differ in page size and the local one is in use (%w): stop the memory plugin and try again", err)
	}
	return nil
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

// temporaryPattern is what files are called beside a database until they are in their
// place; doctor removes what a crash left of them.
const temporaryPattern = ".bloom-memory-*.tmp"

// temporary makes an empty file beside path that only its owner may read.
func temporary(path, what string) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".bloom-memory-"+what+"-*.tmp")
	if err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}
