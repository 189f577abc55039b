package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

// tx is a transaction on one connection. It begins with the first Load.
type tx struct {
	d     *database
	conn  *pgxpool.Conn
	c     *pgx.Conn
	is    session // of the connection
	begun bool
}

// Begin takes a connection.
func (d *database) Begin(ctx context.Context) (store.Tx, error) {
	conn, err := d.hot.Acquire(ctx)
	if err != nil {
		return nil, d.failed(err)
	}
	return &tx{d: d, conn: conn, c: conn.Conn(), is: sessionOf(conn.Conn())}, nil
}

// failed says in what way a transaction failed that is undone. When a connection
// has kept silent for too long all are dropped: the others lead to the same machine,
// and each would be waited for in turn.
func (d *database) failed(err error) error {
	if pgconn.Timeout(err) || errors.Is(err, context.DeadlineExceeded) {
		d.hot.Reset()
		d.reads.Reset()
	}
	switch {
	case err == nil:
		return nil
	case isGone(err):
		return fmt.Errorf("%w: %w", store.ErrAway, err)
	case isRace(err):
		return fmt.Errorf("%w: %w", store.ErrConflict, err)
	}
	return err
}

// release gives the connection back; one inside a transaction is closed by this.
func (t *tx) release() {
	if t.conn != nil {
		t.conn.Release()
		t.conn = nil
	}
}

// idle is the status of a connection outside of any transaction.
const idle = 'I'

// Rollback undoes the transaction.
func (t *tx) Rollback() {
	defer t.release()
	if t.conn != nil && !t.c.IsClosed() && t.c.PgConn().TxStatus() != idle {
		ctx, cancel := context.WithTimeout(context.Background(), rollbackFor)
		defer cancel()
		if _, err := t.c.Exec(ctx, "rollback"); err != nil {
			_ = t.c.Close(ctx)
		}
	}
}

// rollbackFor is how long a connection may take for it before it is closed.
const rollbackFor = silence / 5

// send runs a batch, in the transaction.
func (t *tx) send(ctx context.Context, b *pgx.Batch) error {
	if !t.begun {
		begin := &pgx.Batch{}
		begin.Queue("begin")
		begin.QueuedQueries = append(begin.QueuedQueries, b.QueuedQueries...)
		b, t.begun = begin, true
	}
	return t.c.SendBatch(ctx, b).Close()
}

// warned is where a connection keeps that the server warned of something. The one
// warning that a commit knows is that it stands here, while the wait for its
// standby was cancelled: an operator has cancelled it.
const warned = "warned"

func noteWarning(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		c.CustomData()[warned] = n.Message
	}
}

// Commit writes the changes and commits, in one round trip.
func (t *tx) Commit(ctx context.Context, c *store.Changes) error {
	defer t.release()
	b := &pgx.Batch{}
	t.queue(b, c)
	committed := false
	b.Queue("commit").Exec(func(tag pgconn.CommandTag) error {
		committed = tag.String() == "COMMIT"
		return nil
	})
	delete(t.c.PgConn().CustomData(), warned)
	err := t.send(ctx, b)
	var pg *pgconn.PgError
	switch {
	case committed && t.c.PgConn().CustomData()[warned] != nil:
		err = errors.New("postgresql: the commit was answered with a warning")
	case committed:
		return nil // what broke after it concerns only the connection
	case err == nil:
		t.Rollback()
		return errors.New("postgresql: the commit was answered with a rollback")
	case errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR":
		t.Rollback()
		return t.d.failed(err)
	}
	_ = t.d.failed(err)
	_ = t.c.Close(ctx)
	return fmt.Errorf("%w: %w", store.ErrUnknown, err)
}

// Stands looks for the last entry of a transaction, once the server no longer works
// on it: the process behind the connection that was cut is made to end, for it may
// wait for more, or have yet to read what it was sent. The number of the transaction
// does not tell: a crash or a promotion forgets numbers of which nothing was written
// down, and gives them to others. The look-up's own commit, of a lock that changes
// nothing, comes back no sooner than what it saw is safe, also on a synchronous
// standby.
func (t *tx) Stands(ctx context.Context, last bloom.Audit) (there bool, err error) {
	hot := t.d.hot
	var over bool
	if err := hot.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, t.is.token).Scan(&over); err != nil {
		return false, t.d.failed(err)
	}
	if !over {
		// Refused to a role that was set for the login: then it ends when it finds the
		// connection closed.
		_, _ = hot.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks
			WHERE locktype = 'advisory' AND objsubid = 1 AND (classid::bigint << 32 | objid::bigint) = $1`, t.is.token)
		return false, errInProgress
	}
	c, err := hot.Acquire(ctx)
	if err != nil {
		return false, t.d.failed(err)
	}
	defer c.Release()
	said := c.Conn().PgConn().CustomData()
	delete(said, warned)
	err = c.QueryRow(ctx, `SELECT EXISTS (SELECT FROM audit_logs WHERE entity_id = $1 AND id = $2::text::uuid)
		FROM counters WHERE slot = pg_backend_pid() % $3 FOR UPDATE`, last.EntityID, last.ID, counterSlots).Scan(&there)
	if err == nil && said[warned] != nil {
		return false, errInProgress // this wait for the standby was cancelled, too
	}
	return there, t.d.failed(err)
}

// errInProgress says that the server may still commit what it was sent before the
// connection was cut.
var errInProgress = fmt.Errorf("%w: the commit goes on", store.ErrConflict)
