package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bloom-runtime/bloom/internal/retry"
)

// persist runs operations in one transaction. If it returns nil, the transaction was
// committed and each op.Err has that operation's outcome. If it returns an error, the
// transaction was rolled back or, with ErrUnknown, its outcome could not be found out.
// While the database is unreachable persist retries, until the operation that has
// waited longest has waited for Patience.
func (s *Store) persist(ops []*op) (*Unit, error) {
	ctx, cancel := context.WithTimeout(s.life, 2*s.cfg.Patience)
	defer cancel()
	deadline := ops[0].at.Add(s.cfg.Patience)
	for {
		began := s.outage.now()
		u, err := s.attempt(ctx, ops)
		s.noteAttempt(began, u, err)
		if errors.Is(err, ErrUnknown) {
			// A fresh deadline, however long the operations have waited: nobody else can
			// find out the outcome.
			committed, checkErr := s.wasCommitted(ctx, u, time.Now().Add(s.cfg.Patience))
			if checkErr != nil {
				return nil, errors.Join(err, checkErr)
			}
			if committed {
				s.noteAttempt(began, u, nil)
				return u, nil
			}
		}
		if err == nil || !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrUnknown) || !wait(ctx, deadline) {
			return u, err
		}
	}
}

// wasCommitted looks for the transaction's last audit entry, to find out whether an
// interrupted commit took effect. A transaction without audit entries is safe to
// repeat. See docs/development/adr/0007.
func (s *Store) wasCommitted(ctx context.Context, u *Unit, deadline time.Time) (bool, error) {
	if len(u.c.Audits) == 0 {
		return false, nil
	}
	for {
		committed, err := u.tx.Committed(ctx, u.c.Audits[len(u.c.Audits)-1])
		switch {
		case err == nil:
			return committed, nil
		case !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrConflict):
			return false, err
		case !wait(ctx, deadline):
			return false, errors.Join(err, context.DeadlineExceeded)
		}
	}
}

// wait sleeps before the next attempt. It returns false if the deadline is too near.
func wait(ctx context.Context, deadline time.Time) bool {
	pause := unreachableBackoff.Waits()()
	return time.Until(deadline) >= pause && retry.Sleep(ctx, pause) == nil
}

// maxReads is how often a unit may load rows. An operation that needs many rows asks
// for them together.
const maxReads = 16

// errEndlessReads is a bug in an operation, not a problem of the stored data.
var errEndlessReads = fmt.Errorf("store: an operation still lacks rows after %d reads", maxReads)

// attempt runs operations in one transaction, once. It reads and locks the rows that they
// want, runs them, reads what they want then, runs them again on all rows, and commits
// the changes.
func (s *Store) attempt(ctx context.Context, ops []*op) (*Unit, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience)
	defer cancel()
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return nil, err
	}
	rows := &Rows{read: make([]values, queries)}
	for _, o := range ops {
		o.reads(rows)
	}
	for range maxReads {
		if err := tx.Load(ctx, rows); err != nil {
			tx.Rollback()
			return nil, err
		}
		u := s.decide(rows, ops)
		u.tx = tx
		switch {
		case rows.wanting():
			continue
		case u.c.Empty():
			tx.Rollback()
			return u, nil
		}
		return u, tx.Commit(ctx, &u.c)
	}
	tx.Rollback()
	return nil, errEndlessReads
}

// decide runs the operations on the loaded rows. If one fails after changing
// something, decide starts over without it.
func (s *Store) decide(rows *Rows, ops []*op) *Unit {
	for _, o := range ops {
		o.excluded = false
	}
	for {
		u := newUnit(s, rows)
		restart := false
		for _, o := range ops {
			if o.excluded {
				continue
			}
			u.op, u.dirty, o.openedNext = o, false, ""
			o.Err = o.Run(u)
			if !errors.Is(o.Err, errUnfinished) {
				o.outcome = finished
			}
			if o.Err != nil && u.dirty && o.outcome != lacksRows {
				o.excluded, restart = true, !rows.wanting()
				if restart {
					break
				}
			}
		}
		if !restart {
			return u
		}
	}
}

// publish updates the caches and notifies subscribers and other processes of what was
// committed.
func (s *Store) publish(u *Unit) {
	for _, w := range workers.of(u.rows).read {
		if w != nil {
			s.contacts.note(w)
		}
	}
	for w := range workers.changes(&u.c) {
		s.contacts.note(w)
	}
	s.candidates.note(u)
	for _, scan := range u.scans {
		s.labels.setPosition(scan)
	}
	if len(u.c.Audits) > 0 && !u.c.Sealed {
		s.wakeSealing()
	}
	if len(u.notify) == 0 {
		return
	}
	s.feed.Publish(u.notify)
	s.db.Notify(u.notify)
}
