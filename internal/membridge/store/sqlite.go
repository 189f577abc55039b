package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	_ "modernc.org/sqlite" // the driver

	"github.com/bloom-runtime/bloom/internal/durable"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// maxGroup bounds the writes that are committed together, and thereby the duration of a transaction
// and the wait for the next.
const maxGroup = 512

// readConns is the number of concurrent reads. They see the last commit and never wait for the
// writer (WAL).
const readConns = 4

// OpenSQLite opens or creates the file at path. It refuses a file that another process uses. A nil
// clock means the machine's.
func OpenSQLite(ctx context.Context, path string, clock timing.Clock) (*Store, error) {
	if clock == nil {
		clock = timing.System{}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	unlock, err := lockFile(path)
	if err != nil {
		return nil, err
	}
	writer, err := openFile(path, 1, "_txlock=immediate", "synchronous(FULL)")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("membridge registry %s: %w", path, err), unlock())
	}
	if err := migrateSQLite(ctx, writer); err != nil {
		return nil, errors.Join(fmt.Errorf("membridge registry %s: %w", path, err), writer.Close(), unlock())
	}
	reader, err := openFile(path, readConns, "_txlock=deferred", "query_only(1)")
	if err != nil {
		return nil, errors.Join(err, writer.Close(), unlock())
	}
	writes := startWriter(writer)
	closeAll := sync.OnceValue(func() error {
		writes.stop()
		return errors.Join(reader.Close(), writer.Close(), unlock())
	})
	return &Store{clock: clock, read: reader, write: writes.do, close: closeAll,
		eachName: `SELECT value AS name FROM json_each($1)`}, nil
}

func openFile(path string, conns int, txlock, pragma string) (*sql.DB, error) {
	q := url.Values{"_pragma": {"journal_mode(WAL)", "busy_timeout(5000)", "foreign_keys(1)", pragma}}
	dsn := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: txlock + "&" + q.Encode()}).String()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

func migrateSQLite(ctx context.Context, db *sql.DB) error {
	steps, err := schema.SQLite(db, migrations)
	if err != nil {
		return err
	}
	_, err = steps.Up(ctx)
	return err
}

// lockFile takes the lock beside the file. The kernel releases it when the process dies.
func lockFile(path string) (unlock func() error, err error) {
	f, err := durable.LockFile(path + ".lock")
	if errors.Is(err, durable.ErrLocked) {
		return nil, errors.Join(fmt.Errorf("another process already uses the membridge registry %s; stop it, or choose another --data-dir", path), f.Close())
	}
	if err != nil {
		return nil, err
	}
	// SQLite creates its other files with the database's mode.
	return f.Unlock, durable.Private(path)
}
