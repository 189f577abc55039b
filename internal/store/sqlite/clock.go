package sqlite

import (
	"log/slog"
	"time"

	"github.com/bloom-runtime/bloom"
)

// clockJump is how far wall and monotonic clock may part between two transactions
// before it is a jump and not the slewing of a time daemon.
const clockJump = 2 * time.Second

// follower notices jumps of the wall clock and moves along what is so many seconds
// away: deadlines of leases, the last contact with workers, the pause before another
// attempt, and for how long a task prefers a worker. It does so before every
// transaction that writes, so that nothing is ever renewed between a jump and its
// being noticed, and moved a second time.
type follower struct {
	clock bloom.Clock
	log   *slog.Logger
	last  time.Time
}

func newFollower(clock bloom.Clock, log *slog.Logger) *follower {
	return &follower{clock: clock, log: log, last: clock.Now()}
}

// follow reads the clock, and when it has jumped since the last call commits what has
// to move. A jump is remembered until that has worked.
func (f *follower) follow(c *conn) (now time.Time, err error) {
	now = f.clock.Now()
	jump := now.Round(0).Sub(f.last.Round(0)) - now.Sub(f.last) // Round(0) drops the monotonic part
	if jump.Abs() > clockJump {
		if err := moveAlong(c, jump.Milliseconds()); err != nil {
			return now, err
		}
		f.log.Warn("the wall clock jumped; deadlines moved along", "by", jump.Round(time.Millisecond))
	}
	f.last = now
	return now, nil
}

// moved are the statements that move times by ?1 milliseconds.
var moved = []string{
	`UPDATE leases INDEXED BY leases_held SET expires_at = expires_at + ?1, last_heartbeat = last_heartbeat + ?1 WHERE status = 'active'`,
	`UPDATE workers SET last_heartbeat = last_heartbeat + ?1, instance_seen = CASE WHEN instance_seen > 0 THEN instance_seen + ?1 ELSE 0 END`,
	`UPDATE llm_tasks INDEXED BY llm_tasks_prefers SET preferred_until = preferred_until + ?1 WHERE preferred_worker IS NOT NULL`,
	// One that waits because an attempt failed; any other run_at was asked for.
	`UPDATE llm_tasks INDEXED BY llm_tasks_delayed SET run_at = run_at + ?1 WHERE gate = 'delayed' AND error_class IS NOT NULL`,
}

func moveAlong(c *conn, by int64) error {
	if _, err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	var err error
	for _, text := range moved {
		if err == nil {
			_, err = c.exec(text, by)
		}
	}
	if err == nil {
		_, err = c.exec("COMMIT")
	}
	if err != nil {
		_, _ = c.exec("ROLLBACK") // SQLite has often done so already
	}
	return err
}
