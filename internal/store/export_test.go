package store

import (
	"context"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/schema"
)

// Do runs an operation that makes its own changes.
func Do(ctx context.Context, s *Store, fn func(c *Changes) error) error {
	_, err := do(ctx, s, func(*Rows) {}, func(u *Unit) (struct{}, error) {
		u.changed()
		return struct{}{}, fn(&u.c)
	})
	return err
}

// AddTask adds a task to what is written.
func (c *Changes) AddTask(t *Task) { tasks.in(c).put(t.ID, t) }

// AddSetting adds a setting to what is written.
func (c *Changes) AddSetting(name, value string) { settings.in(c).put(name, &setting{Value: value}) }

// Created returns how many tasks are created.
func (c *Changes) Created() int { return len(slices.Collect(tasks.added(c))) }

// Leases returns the leases that are written, either the new ones or the others.
func (c *Changes) Leases(added bool) (all []*bloom.Lease) {
	for is, was := range leases.changes(c) {
		if added == (was == nil) {
			all = append(all, is)
		}
	}
	return all
}

// Hold keeps a store that runs one transaction at a time busy until release is called: operations
// in the meantime are committed in one transaction.
func Hold(s *Store) (release func()) {
	s.sealing.Lock() // waits in the same queue
	begun, held, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_, _ = doUnbatched(context.Background(), s, func(*Rows) {
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
	_, err = do(ctx, s, func(*Rows) {}, func(u *Unit) (struct{}, error) {
		_, err := expired.get(u, schema.NewID(u.Now))
		return struct{}{}, err
	})
	return causedByData(err), err
}
