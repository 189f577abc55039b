package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/jackc/pgx/v5"
)

const lockDuty = 0x626c6d04 // class of the locks of loops that run once, by hash of the name

// lockSettings let the server notice within a minute that the holder's machine is
// gone, or its process frozen, so that another takes over.
var lockSettings = map[string]string{
	"tcp_keepalives_idle":     "20",
	"tcp_keepalives_interval": "10",
	"tcp_keepalives_count":    "3",
	"idle_session_timeout":    "60000",
}

// Lock is a name that one process holds among all that share the database: the
// right to run a loop that must run once. It is held by a connection of its own
// and lost with it. Safe for concurrent use.
type Lock struct {
	mu   sync.Mutex
	conn *pgx.Conn
	name string
}

// ErrLockLost says that a lock's connection is gone: another process may hold it.
var ErrLockLost = errors.New("postgresql: the lock was lost")

// TryLock takes the lock of the given name when nobody has it; ok is false when
// somebody does. A holder asks Held before each run, and gives up with Release. A
// holder that dies loses the lock at once with its process, and within a minute
// with its machine. One that does not ask for a minute has lost it, too.
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
	err = conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, hashtext($2))`, lockDuty, name).Scan(&ok)
	if err != nil || !ok {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, false, s.db.fail(err)
	}
	return &Lock{conn: conn, name: name}, true, nil
}

// Held asks the server whether the lock is still held: nil, or ErrLockLost.
func (l *Lock) Held(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.conn.Exec(ctx, "SELECT 1"); err != nil {
		return fmt.Errorf("%w: %w", ErrLockLost, err)
	}
	return nil
}

// Release gives the lock up. It may be called again.
func (l *Lock) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), DefaultPatience)
	defer cancel()
	_ = l.conn.Close(ctx)
}
