package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bloom-runtime/bloom"
)

// errUnknown wraps the failure of a commit whose outcome the connection took
// with it.
var errUnknown = errors.New("the commit's outcome is unknown")

// persist runs operations in one transaction. A nil error means that it was
// committed and that every op's own err says how it went; an error that all of
// it was undone. While the server is away it is tried again, as long as the
// configured patience lasts. A transaction whose commit was cut off is looked up
// by its number: either it stands, or it is run again.
func (s *Store) persist(ops []*op, alone bool) ([]bloom.Change, error) {
	ctx, cancel := context.WithTimeout(s.life, 2*s.cfg.Patience)
	defer cancel()
	deadline := time.Now().Add(s.cfg.Patience)
	for {
		t, err := s.attempt(ctx, ops, alone)
		if errors.Is(err, errUnknown) {
			stands, asked := s.committed(ctx, t.xid, deadline)
			switch {
			case asked != nil:
				return nil, errors.Join(err, asked)
			case stands:
				err = nil
			}
		}
		if err == nil {
			return t.changes, nil
		}
		if !errors.Is(err, errUnknown) && !isGone(err) || !wait(ctx, deadline) {
			return nil, err
		}
	}
}

// wait lets a moment pass before the server is asked again; false when there is
// no time left.
func wait(ctx context.Context, deadline time.Time) bool {
	const pause = 50 * time.Millisecond
	if time.Until(deadline) < pause {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt runs ops in one transaction, once.
func (s *Store) attempt(ctx context.Context, ops []*op, alone bool) (*tx, error) {
	conn, err := s.hot.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release() // a connection inside a transaction is closed by this
	t := newTx(ctx, s, conn.Conn(), alone)
	var w want
	for _, o := range ops {
		o.err = nil
		o.need(&w)
	}
	if err := t.load(&w); err != nil {
		return t, t.rollback(err)
	}
	t.due = t.due && !ops[0].opened
	for _, o := range ops {
		if o.err = t.do(o); o.err != nil && !harmless(t, o.err) {
			return t, t.rollback(o.err)
		}
	}
	return t, t.flush()
}

// rollback undoes the transaction. When that fails the connection is closed,
// which undoes it as well.
func (t *tx) rollback(cause error) error {
	if !t.c.IsClosed() {
		if _, err := t.c.Exec(t.ctx, "rollback"); err != nil {
			_ = t.c.Close(t.ctx)
		}
	}
	return cause
}

// send runs a batch whose last statement is the commit.
func (t *tx) send(b *pgx.Batch) error {
	committed := false
	b.Queue("commit").Exec(func(tag pgconn.CommandTag) error {
		committed = tag.String() == "COMMIT"
		return nil
	})
	err := t.c.SendBatch(t.ctx, b).Close()
	var pg *pgconn.PgError
	switch {
	case committed:
		return nil // what broke after it concerns only the connection
	case err == nil:
		return t.rollback(errors.New("postgresql: the commit was answered with a rollback"))
	case errors.As(err, &pg) && pg.Severity == "ERROR":
		return t.rollback(err)
	}
	_ = t.c.Close(t.ctx)
	return fmt.Errorf("%w: %w", errUnknown, err)
}

// committed asks the server what became of a transaction. Without a number there
// was nothing that could have been committed but what may be repeated.
func (s *Store) committed(ctx context.Context, xid *int64, deadline time.Time) (bool, error) {
	if xid == nil {
		return false, nil
	}
	for {
		var status *string
		err := s.hot.QueryRow(ctx, `SELECT pg_xact_status($1::text::xid8)`, fmt.Sprint(*xid)).Scan(&status)
		var pg *pgconn.PgError
		switch {
		case errors.As(err, &pg) && pg.Code == "22023":
			return false, nil // in the future: this server, promoted since, never saw it
		case err == nil && status != nil && *status != "in progress":
			return *status == "committed", nil
		case err != nil && !isGone(err):
			return false, err
		case !wait(ctx, deadline):
			return false, errors.Join(err, context.DeadlineExceeded)
		}
	}
}
