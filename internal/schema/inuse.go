package schema

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/pressly/goose/v3/lock"

	"github.com/bloom-runtime/bloom/internal/retry"
)

// ErrInUse is returned when a step could not be applied because others, such as a dump, keep its
// tables locked.
var ErrInUse = errors.New("the next migration changes tables that are in use, perhaps by a dump or an open transaction; try again when they are done")

// A step that waits for a table blocks everyone after it, even readers. So it waits briefly, lets
// them pass, and tries again, for about a minute. The wait is longer than PostgreSQL's
// deadlock_timeout, 1 s, after which a vacuum yields.
var inUsePatience = retry.Policy{First: 3 * time.Second, Tries: 15}

const lockTimeout = "1500ms"

// inUse reports whether waiting for a lock timed out: SQLSTATE 55P03.
func inUse(err error) bool {
	var refused interface{ SQLState() string }
	return errors.As(err, &refused) && refused.SQLState() == "55P03"
}

// briefly is a session lock whose holder waits for other locks only briefly.
type briefly struct{ lock.SessionLocker }

func (l briefly) SessionLock(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, "SET lock_timeout = '"+lockTimeout+"'"); err != nil {
		return err
	}
	err := l.SessionLocker.SessionLock(ctx, conn)
	if err != nil {
		err = errors.Join(err, reset(ctx, conn))
	}
	return err
}

func (l briefly) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	return errors.Join(l.SessionLocker.SessionUnlock(ctx, conn), reset(ctx, conn))
}

// reset restores the connection before it returns to its pool.
func reset(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(context.WithoutCancel(ctx), "RESET lock_timeout")
	return err
}
