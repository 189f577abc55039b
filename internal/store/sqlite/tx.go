package sqlite

import (
	"context"
	"fmt"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// tx is the one write transaction. It does not use callers' contexts: cancelling one
// would interrupt the operations of all callers.
type tx struct {
	*conn
	d     *database
	now   int64  // when it began, Unix milliseconds
	chain *chain // the state after the commit; nil: unchanged
}

// Begin starts a transaction on the write connection.
func (d *database) Begin(context.Context) (store.Tx, error) {
	if err := d.checkFile(); err != nil {
		return nil, err
	}
	now, err := d.clock.follow(d.write)
	if err == nil {
		_, err = d.write.exec("BEGIN IMMEDIATE")
	}
	if err != nil {
		return nil, err
	}
	return &tx{conn: d.write, d: d, now: timing.Millis(now)}, nil
}

// Rollback rolls the transaction back. It ignores the error, which only means that
// SQLite has already done so.
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

// Committed is never called: SQLite always reports the outcome of a commit.
func (t *tx) Committed(context.Context, bloom.Audit) (bool, error) {
	panic("sqlite: the outcome of a commit is always known")
}
