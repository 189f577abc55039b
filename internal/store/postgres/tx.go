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
	d       *database
	conn    *pgxpool.Conn
	c       *pgx.Conn
	session session // of the connection
	begun   bool
}

// Begin takes a connection.
func (d *database) Begin(ctx context.Context) (store.Tx, error) {
	conn, err := d.hot.Acquire(ctx)
	if err != nil {
		return nil, d.failed(err)
	}
	return &tx{d: d, conn: conn, c: conn.Conn(), session: sessionOf(conn.Conn())}, nil
}

// failed wraps the failure of a transaction that was rolled back in its kind. After a
// timeout it drops all connections: they lead to the same machine, and each would
// time out in turn.
func (d *database) failed(err error) error {
	if pgconn.Timeout(err) || errors.Is(err, context.DeadlineExceeded) {
		d.hot.Reset()
		d.reads.Reset()
	}
	switch {
	case err == nil:
		return nil
	case isGone(err):
		return fmt.Errorf("%w: %w", store.ErrUnreachable, err)
	case isTaken(err):
		return fmt.Errorf("%w: %w", store.ErrTaken, err)
	case isRace(err):
		return fmt.Errorf("%w: %w", store.ErrConflict, err)
	}
	return err
}

// release returns the connection to the pool, which closes it if a transaction is
// open.
func (t *tx) release() {
	if t.conn != nil {
		t.conn.Release()
		t.conn = nil
	}
}

// idle is the status of a connection outside a transaction.
const idle = 'I'

// Rollback rolls the transaction back.
func (t *tx) Rollback() {
	defer t.release()
	if t.conn != nil && !t.c.IsClosed() && t.c.PgConn().TxStatus() != idle {
		ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
		defer cancel()
		if _, err := t.c.Exec(ctx, "rollback"); err != nil {
			_ = t.c.Close(ctx)
		}
	}
}

// rollbackTimeout is how long a rollback may take before the connection is closed.
const rollbackTimeout = silence / 5

// send runs a batch in the transaction.
func (t *tx) send(ctx context.Context, b *pgx.Batch) error {
	if !t.begun {
		begin := &pgx.Batch{}
		begin.Queue("begin")
		begin.QueuedQueries = append(begin.QueuedQueries, b.QueuedQueries...)
		b, t.begun = begin, true
	}
	return t.c.SendBatch(ctx, b).Close()
}

// warned is the key in the connection's custom data for a warning of the server. The
// only warning of a commit is that an operator cancelled the wait for the standby:
// the commit is only on the primary.
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
		err = errors.New("postgresql: the server answered the commit with a warning")
	case committed:
		return nil // a later error concerns only the connection
	case err == nil:
		t.Rollback()
		return errors.New("postgresql: the server answered the commit with a rollback")
	case errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR":
		t.Rollback()
		return t.d.failed(err)
	}
	_ = t.d.failed(err)
	_ = t.c.Close(ctx)
	return fmt.Errorf("%w: %w", store.ErrUnknown, err)
}

// Committed looks for the transaction's last audit entry once its backend has ended.
// It terminates the backend of the lost connection, which may wait for more data, or
// may not have read all of it. The transaction's id would not show it: after a crash or
// a promotion the server may assign the same id again. The check itself commits a
// lock that changes nothing: that commit returns only once everything the check saw
// is durable, also on a synchronous standby.
func (t *tx) Committed(ctx context.Context, last bloom.Audit) (there bool, err error) {
	hot := t.d.hot
	var ended bool
	if err := hot.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, t.session.token).Scan(&ended); err != nil {
		return false, t.d.failed(err)
	}
	if !ended {
		// If the role may not do this, the backend ends once it notices that the connection
		// is closed.
		_, _ = hot.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks
			WHERE locktype = 'advisory' AND objsubid = 1 AND (classid::bigint << 32 | objid::bigint) = $1`, t.session.token)
		return false, errInProgress
	}
	c, err := hot.Acquire(ctx)
	if err != nil {
		return false, t.d.failed(err)
	}
	defer c.Release()
	data := c.Conn().PgConn().CustomData()
	delete(data, warned)
	err = c.QueryRow(ctx, `SELECT EXISTS (SELECT FROM audit_logs WHERE entity_id = $1 AND id = $2::text::uuid)
		FROM counters WHERE slot = pg_backend_pid() % $3 FOR UPDATE`, last.EntityID, last.ID, counterSlots).Scan(&there)
	if err == nil && data[warned] != nil {
		return false, errInProgress // this wait for the standby was cancelled, too
	}
	return there, t.d.failed(err)
}

// errInProgress means that the server may still commit what it received before the
// connection was lost.
var errInProgress = fmt.Errorf("%w: the commit may still take effect", store.ErrConflict)
