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
// committed and that every op's own Err says how it went; an error that all of
// it was undone. While the server is away it is tried again, as long as the
// configured patience lasts. A transaction whose commit was cut off is looked up:
// either it stands, or it is run again. The lane's memory is used and kept up;
// nil when the one operation there is runs alone.
func (s *Store) persist(ops []*op, m *memory) ([]bloom.Change, error) {
	ctx, cancel := context.WithTimeout(s.life, 2*s.cfg.Patience)
	defer cancel()
	deadline := ops[0].at.Add(s.cfg.Patience) // of who has waited longest
	for try := 1; ; try++ {
		t, err := s.attempt(ctx, ops, m, try == 1)
		s.suspect(err)
		m.learn(t, err)
		if errors.Is(err, errUnknown) {
			// However long the operations had waited before: nobody else can tell.
			stands, asked := s.stands(ctx, t, time.Now().Add(s.cfg.Patience))
			switch {
			case asked != nil:
				return nil, errors.Join(err, asked)
			case stands:
				err = nil
			}
		}
		if err == nil {
			s.roster.note(t.newLeases, t.moved)
			return t.changes, nil
		}
		switch {
		case t != nil && t.recalled && !isGone(err):
			continue // with what is there now
		case !errors.Is(err, errUnknown) && !isGone(err), !wait(ctx, deadline):
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

// suspect drops all connections when one has kept silent for too long: the others
// lead to the same machine, and each would be waited for in turn.
func (s *Store) suspect(err error) {
	if pgconn.Timeout(err) || errors.Is(err, context.DeadlineExceeded) {
		s.hot.Reset()
		s.reads.Reset()
	}
}

// attempt runs ops in one transaction, once; at first on what the memory has, when
// that is all they need.
func (s *Store) attempt(ctx context.Context, ops []*op, m *memory, first bool) (*tx, error) {
	most, alone := s.cfg.Patience, m == nil
	if alone {
		most *= 2 // it may touch a lot
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	conn, err := s.hot.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release() // a connection inside a transaction is closed by this
	w := want{alone: alone}
	for _, o := range ops {
		o.Err = nil
		o.need(&w)
	}
	if m != nil && first {
		t := newTx(ctx, s, conn.Conn(), alone)
		if t.recalled = m.recall(t, &w); t.recalled && t.run(ops) == nil {
			return t, t.flush()
		} // nothing is refused because of what was so a moment ago
	}
	t := newTx(ctx, s, conn.Conn(), alone)
	if err := t.load(&w); err != nil {
		return t, t.rollback(err)
	}
	t.due = t.due && !ops[0].opened
	if err := t.run(ops); err != nil {
		return t, t.rollback(err)
	}
	return t, t.flush()
}

// run runs the operations. One that is refused does not harm the others, but on
// remembered rows it ends them all.
func (t *tx) run(ops []*op) error {
	for _, o := range ops {
		t.wrote = false
		o.Err = o.Run(t)
		if o.Err != nil && (t.recalled || !harmless(t, o.Err)) {
			return o.Err
		}
	}
	return nil
}

// idle is the status of a connection outside of any transaction.
const idle = 'I'

// rollback undoes the transaction. When that fails the connection is closed,
// which undoes it as well.
func (t *tx) rollback(cause error) error {
	if !t.c.IsClosed() && t.c.PgConn().TxStatus() != idle {
		if _, err := t.c.Exec(t.ctx, "rollback"); err != nil {
			_ = t.c.Close(t.ctx)
		}
	}
	return cause
}

// warned is where a connection keeps that the server warned of something. The one
// warning that a commit knows is that it stands here, while the wait for its
// standby was called off: an operator has cancelled it.
const warned = "warned"

func noteWarning(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		c.CustomData()[warned] = n.Message
	}
}

// send runs the batch that ends the transaction. One that nothing was read for is
// all of it, and committed by the server at its end without being told.
func (t *tx) send(b *pgx.Batch) error {
	committed := false
	if !t.recalled {
		b.Queue("commit").Exec(func(tag pgconn.CommandTag) error {
			committed = tag.String() == "COMMIT"
			return nil
		})
	}
	delete(t.c.PgConn().CustomData(), warned)
	err := t.c.SendBatch(t.ctx, b).Close()
	if t.recalled {
		committed = err == nil
	}
	var pg *pgconn.PgError
	switch {
	case committed && t.c.PgConn().CustomData()[warned] != nil:
		err = errors.New("postgresql: the commit was answered with a warning")
	case committed:
		return nil // what broke after it concerns only the connection
	case err == nil:
		return t.rollback(errors.New("postgresql: the commit was answered with a rollback"))
	case errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR":
		return t.rollback(err)
	}
	_ = t.c.Close(t.ctx)
	return fmt.Errorf("%w: %w", errUnknown, err)
}

// stands finds out whether a transaction that was cut off at its commit was
// committed: by an audit entry that it left. Its number does not tell. A crash or
// a promotion forgets numbers of which nothing was written down, and gives them to
// others. A transaction that left no entry has done only what may be done again.
func (s *Store) stands(ctx context.Context, t *tx, deadline time.Time) (bool, error) {
	if len(t.audits) == 0 {
		return false, nil
	}
	for {
		stands, err := s.left(ctx, t)
		switch {
		case err == nil:
			return stands, nil
		case !errors.Is(err, errInProgress) && !isGone(err) && !isRace(err):
			return false, err
		case !wait(ctx, deadline):
			return false, errors.Join(err, context.DeadlineExceeded)
		}
	}
}

// errInProgress says that the server may still commit what it was sent before the
// connection was cut.
var errInProgress = errors.New("the commit goes on")

// left looks for the last entry of a transaction, once the server no longer works
// on it: the process behind the connection that was cut is told to end, for it may
// wait for more, or have yet to read what it was sent. The look-up's own commit, of
// a lock that changes nothing, comes back no sooner than what it saw is safe, also
// on a synchronous standby.
func (s *Store) left(ctx context.Context, t *tx) (there bool, err error) {
	token := sessionOf(t.c).token
	var over bool
	if err := s.hot.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, token).Scan(&over); err != nil {
		return false, err
	}
	if !over {
		// Refused to a role that was set for the login: then it ends when it finds the
		// connection closed.
		_, _ = s.hot.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks
			WHERE locktype = 'advisory' AND objsubid = 1 AND (classid::bigint << 32 | objid::bigint) = $1`, token)
		return false, errInProgress
	}
	c, err := s.hot.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer c.Release()
	said := c.Conn().PgConn().CustomData()
	delete(said, warned)
	last := t.audits[len(t.audits)-1]
	err = c.QueryRow(ctx, `SELECT EXISTS (SELECT FROM audit_logs WHERE entity_id = $1 AND id = $2::text::uuid)
		FROM counters WHERE slot = pg_backend_pid() % $3 FOR UPDATE`, last.EntityID, last.ID, counterSlots).Scan(&there)
	if err == nil && said[warned] != nil {
		return false, errInProgress // this wait for the standby was called off, too
	}
	return there, err
}
