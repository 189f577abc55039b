package memory

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
)

// restoreStep is how many pages are copied between two checks of the context.
const restoreStep = 256

// watch detects writes to a database after a snapshot of it was taken.
type watch struct {
	db      *sql.DB
	conn    *sql.Conn
	version int64
}

func newWatch(ctx context.Context, path string) (w *watch, err error) {
	w = &watch{}
	if w.db, err = open(path, "mode=ro"); err != nil {
		return nil, err
	}
	if w.conn, err = w.db.Conn(ctx); err == nil {
		w.version, err = w.dataVersion(ctx)
	}
	if err != nil {
		w.close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return w, nil
}

func (w *watch) dataVersion(ctx context.Context) (v int64, err error) {
	err = w.conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&v)
	return v, err
}

func (w *watch) close() {
	if w.conn != nil {
		_ = w.conn.Close()
	}
	_ = w.db.Close()
}

// replace replaces the database's content by that of incoming, in one SQLite transaction:
// processes that have the database open see the new content, and a crash leaves either the
// old or the new one. replace calls backup when nobody else can write and there is up to
// date, before it changes anything.
func (p *Project) replace(ctx context.Context, there *local, incoming *Snapshot, backup func() error) error {
	db, err := open(p.DB)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("open %s: %w", p.DB, err)
	}
	defer func() { _ = conn.Close() }()
	concurrent, err := canReadWhileWriting(ctx, conn, incoming.Path)
	if err != nil {
		return err
	}
	concurrent = concurrent && there.watch != nil
	locked := func() error {
		p.Point("database locked")
		changed, err := there.changed(ctx)
		if err == nil && changed {
			err = there.retake(ctx, there.watch.conn, p)
		}
		if err != nil {
			return err
		}
		return backup()
	}
	if !concurrent {
		there.stopWatching()
		if err := p.lockAlone(ctx, conn); err != nil {
			return fmt.Errorf("%s is in use, and has another page size than the stored memory or no write-ahead log (%w): stop the memory plugin and try again", p.DB, err)
		}
		if err := there.retake(ctx, conn, p); err != nil {
			return err
		}
		locked = backup
	}
	if err := p.restore(ctx, conn, incoming.Path, locked); err != nil {
		return fmt.Errorf("replace %s: %w", p.DB, err)
	}
	return nil
}

// restore copies the pages. locked is called when the write lock is held.
func (p *Project) restore(ctx context.Context, conn *sql.Conn, from string, locked func() error) error {
	return conn.Raw(func(driver any) error {
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
		more, err := b.Step(0) // takes the lock, copies nothing
		if err == nil {
			err = locked()
		}
		for more && err == nil {
			p.Point("pages put in place")
			if more, err = b.Step(restoreStep); more && err == nil {
				err = ctx.Err()
			}
		}
		p.Point("all pages in place, not committed")
		return errors.Join(err, b.Finish()) // rolls back if it is not complete
	})
}

// canReadWhileWriting reports whether others can read the database while conn writes it. This
// requires a write-ahead log, which cannot be kept if the page sizes differ.
func canReadWhileWriting(ctx context.Context, conn *sql.Conn, from string) (bool, error) {
	source, err := open(from, "mode=ro", "immutable=1")
	if err != nil {
		return false, err
	}
	defer func() { _ = source.Close() }()
	var wanted, have int
	var mode string
	err = errors.Join(source.QueryRowContext(ctx, "PRAGMA page_size").Scan(&wanted),
		conn.QueryRowContext(ctx, "PRAGMA page_size").Scan(&have), conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode))
	return mode == "wal" && wanted == have, err
}

// lockAlone locks the database for conn alone, until it is closed.
func (p *Project) lockAlone(ctx context.Context, conn *sql.Conn) error {
	var mode string
	if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode = DELETE").Scan(&mode); err != nil || mode != "delete" {
		return errors.Join(fmt.Errorf("its journal mode is still %s", mode), err)
	}
	for _, statement := range []string{"PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE", "COMMIT"} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	p.Point("database locked")
	return nil
}
