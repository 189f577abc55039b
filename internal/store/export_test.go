package store

import (
	"context"
	"time"

	"github.com/bloom-runtime/bloom/internal/schema"
)

// Do runs an operation that makes its own changes.
func Do(ctx context.Context, s *Store, fn func(c *Changes) error) error {
	_, err := do(ctx, s, func(*ReadSet) {}, func(u *Unit) (struct{}, error) {
		u.dirty = true
		return struct{}{}, fn(&u.c)
	})
	return err
}

// Hold keeps a store that runs one transaction at a time busy until release is called: operations
// in the meantime are committed in one transaction.
func Hold(s *Store) (release func()) {
	s.sealing.Lock() // waits in the same queue
	begun, held, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_, _ = doUnbatched(context.Background(), s, func(*ReadSet) {
			close(begun)
			<-held
		}, func(*Unit) (struct{}, error) { return struct{}{}, nil })
	}()
	<-begun
	return func() {
		s.sealing.Unlock()
		close(held)
		<-done
	}
}

// Disturb has disturb see, and change, what every transaction is about to write, or fail
// it. The store must run one transaction at a time.
func Disturb(s *Store, disturb func(c *Changes) error) {
	defer Hold(s)()
	s.db = disturbed{s.db, disturb}
}

// OutagesBy has the store measure outages by a clock.
func OutagesBy(s *Store, now func() time.Time) {
	defer Hold(s)()
	s.outage.now = now
}

type disturbed struct {
	Database

	disturb func(c *Changes) error
}

func (d disturbed) Begin(ctx context.Context) (Tx, error) {
	tx, err := d.Database.Begin(ctx)
	return disturbedTx{tx, d.disturb}, err
}

type disturbedTx struct {
	Tx

	disturb func(c *Changes) error
}

func (t disturbedTx) Commit(ctx context.Context, c *Changes) error {
	if err := t.disturb(c); err != nil {
		t.Rollback()
		return err
	}
	return t.Tx.Commit(ctx, c)
}

// Endless runs an operation that needs more each time, and reports whether what it
// returns is taken for a bad row.
func Endless(ctx context.Context, s *Store) (bad bool, err error) {
	_, err = do(ctx, s, func(*ReadSet) {}, func(u *Unit) (struct{}, error) {
		u.missing.Expired.Add(schema.NewID(u.Now))
		return struct{}{}, errMissing
	})
	return causedByData(err), err
}
