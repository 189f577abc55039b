package sqlite

import (
	"context"
	"fmt"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

// tx is the one transaction that writes. It runs under no caller's context: a
// cancelled one would interrupt everybody's.
type tx struct {
	*conn
	d     *database
	now   int64  // Unix milliseconds, when it began
	chain *chain // as it is once this is committed; nil: as it was
}

// Begin starts a transaction on the only connection that writes.
func (d *database) Begin(context.Context) (store.Tx, error) {
	now, err := d.clock.follow(d.write)
	if err == nil {
		_, err = d.write.exec("BEGIN IMMEDIATE")
	}
	if err != nil {
		return nil, err
	}
	return &tx{conn: d.write, d: d, now: bloom.Millis(now)}, nil
}

// Rollback undoes the transaction. SQLite has often done so already; an error of
// the rollback then says only that.
func (t *tx) Rollback() { _, _ = t.exec("ROLLBACK") }

// Commit writes the changes; when it returns nil they are on disk.
func (t *tx) Commit(_ context.Context, c *store.Changes) error {
	err := t.put(c)
	if err == nil {
		if _, err = t.exec("COMMIT"); err != nil {
			err = fmt.Errorf("commit: %w", err)
		}
	}
	if err != nil {
		t.Rollback()
		return err
	}
	if t.chain != nil {
		t.d.chain = *t.chain
	}
	return nil
}

// Stands is never asked: no commit's outcome is unknown here.
func (t *tx) Stands(context.Context, bloom.Audit) (bool, error) {
	panic("sqlite: the outcome of a commit is always known")
}
