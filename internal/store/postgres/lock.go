package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/jackc/pgx/v5"
)

const lockLoop = 0x626c6d04 // class of the advisory locks of background loops, by hash of the name

// lockSettings make the server notice within a minute that the holder's machine or
// process is gone, so that another can take over.
var lockSettings = map[string]string{
	"tcp_keepalives_idle":     "20",
	"tcp_keepalives_interval": "10",
	"tcp_keepalives_count":    "3",
	"idle_session_timeout":    "60000",
}

// Lock is the right to run a background loop, which one process holds of all that
// share the database. It belongs to a connection and is lost with it. It is safe for
// concurrent use.
type Lock struct {
	mu   sync.Mutex
	conn *pgx.Conn
	name string
}

// ErrLockLost means that the lock's connection is broken: another process may hold
// the lock.
var ErrLockLost = errors.New("postgresql: the lock was lost")

// TryLock takes the named lock; ok is false if another process holds it. The holder
// calls Held before each run, and Release at the end. If its process dies, the lock
// is released at once; if its machine dies, within a minute. A holder that does not
// call Held for a minute loses the lock.
func (s *Store) TryLock(ctx context.Context, name string) (l *Lock, ok bool, err error) {
	cfg, err := parse(s.db.cfg.URL)
	if err != nil {
		return nil, false, err
	}
	all := maps.Clone(lockSettings)
	all["application_name"] = "bloom-" + name
	maps.Copy(cfg.RuntimeParams, all)
	s.db.fence.guard(cfg)
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, false, s.db.fail(fmt.Errorf("lock %s: %w", name, err))
	}
	err = conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, hashtext($2))`, lockLoop, name).Scan(&ok)
	if err != nil || !ok {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, false, s.db.fail(err)
	}
	return &Lock{conn: conn, name: name}, true, nil
}

// Held returns nil, or ErrLockLost if the lock is no longer held.
func (l *Lock) Held(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.conn.Exec(ctx, "SELECT 1"); err != nil {
		return fmt.Errorf("%w: %w", ErrLockLost, err)
	}
	return nil
}

// Release releases the lock. It may be called again.
func (l *Lock) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), DefaultPatience)
	defer cancel()
	_ = l.conn.Close(ctx)
}
