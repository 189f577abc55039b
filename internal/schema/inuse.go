package schema

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/pressly/goose/v3/lock"

	"github.com/bloom-runtime/bloom/internal/retry"
)

// ErrInUse says that a step could not be applied since others, such as a dump, did
// not let go of the tables that it changes.
var ErrInUse = errors.New("the schema's next step changes tables that others use, perhaps a dump or a transaction that was left open; try again when they are done")

// A step that waits for a table holds up everybody who comes after it, readers too.
// So it waits for a moment, lets them pass, and tries again, for about a minute.
// The moment is longer than PostgreSQL's deadlock_timeout, 1 s, after which a vacuum
// makes way for who waits.
var inUsePatience = retry.Policy{First: 3 * time.Second, Tries: 15}

const lockTimeout = "1500ms"

// inUse reports whether a lock was waited for in vain: SQLSTATE 55P03.
func inUse(err error) bool {
	var refused interface{ SQLState() string }
	return errors.As(err, &refused) && refused.SQLState() == "55P03"
}

// briefly is a lock whose holder waits for other locks for a moment only.
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

// reset gives the connection back to its pool as it was.
func reset(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(context.WithoutCancel(ctx), "RESET lock_timeout")
	return err
}
