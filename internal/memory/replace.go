package memory

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
)

// restoreStep is how many pages are put in place between two looks at the context.
const restoreStep = 256

// watch tells whether others write a database after a snapshot of it was taken.
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

// replace puts the content of incoming in place of the database that there is a
// snapshot of, in one transaction of SQLite's: whoever has it open goes on with the new
// content, and a crash at any moment leaves the one or the other. keep is called when
// nobody else can write any more, with there up to date, and before anything changes.
func (p *Project) replace(ctx context.Context, there *local, incoming *Snapshot, keep func() error) error {
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
	together, err := readsWhileWriting(ctx, conn, incoming.Path)
	if err != nil {
		return err
	}
	locked := func() error {
		p.Point("database locked")
		changed, err := there.changed(ctx)
		if err == nil && changed {
			err = there.again(ctx, there.watch.conn, p)
		}
		if err != nil {
			return err
		}
		return keep()
	}
	if !together {
		there.stopWatching()
		if err := p.lockAlone(ctx, conn); err != nil {
			return fmt.Errorf("%s is in use, and its pages differ in size from those that came, or it keeps no write-ahead log (%w): stop the memory plugin and try again", p.DB, err)
		}
		if err := there.again(ctx, conn, p); err != nil {
			return err
		}
		locked = keep
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
			if more, err = b.Step(restoreStep); err == nil {
				err = ctx.Err()
			}
		}
		p.Point("all pages in place, not committed")
		return errors.Join(err, b.Finish()) // which rolls back what is not complete
	})
}

// readsWhileWriting reports whether the database can be read while conn writes it, as one
// with a write-ahead log can. That has to go where the sizes of pages differ.
func readsWhileWriting(ctx context.Context, conn *sql.Conn, from string) (bool, error) {
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

// lockAlone makes conn the only one that uses the database, until it is closed.
func (p *Project) lockAlone(ctx context.Context, conn *sql.Conn) error {
	var mode string
	if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode = DELETE").Scan(&mode); err != nil || mode != "delete" {
		return errors.Join(fmt.Errorf("its journal mode stays %s", mode), err)
	}
	for _, statement := range []string{"PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE", "COMMIT"} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	p.Point("database locked")
	return nil
}
