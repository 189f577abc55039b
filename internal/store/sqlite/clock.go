package sqlite

import (
	"log/slog"
	"time"

	"github.com/bloom-runtime/bloom/internal/timing"
)

// clockJump is how far the wall clock and the monotonic clock may diverge between two
// transactions. More than that is a jump, not the slewing of a time daemon.
const clockJump = 2 * time.Second

// follower detects jumps of the wall clock and shifts the stored times that measure a
// distance from now: lease deadlines, workers' last contact, retry delays and worker
// preferences. It does so before every write transaction, so that no time is renewed
// between a jump and its detection, and then shifted a second time.
type follower struct {
	clock timing.Clock
	log   *slog.Logger
	last  time.Time
}

func newFollower(clock timing.Clock, log *slog.Logger) *follower {
	return &follower{clock: clock, log: log, last: clock.Now()}
}

// follow reads the clock and, if it has jumped since the last call, commits the
// shifted times. If that fails, the next call tries again.
func (f *follower) follow(c *conn) (now time.Time, err error) {
	now = f.clock.Now()
	jump := now.Round(0).Sub(f.last.Round(0)) - now.Sub(f.last) // Round(0) drops the monotonic part
	if jump.Abs() > clockJump {
		if err := shiftTimes(c, jump.Milliseconds()); err != nil {
			return now, err
		}
		f.log.Warn("wall clock jumped: shifted deadlines", "by", jump.Round(time.Millisecond))
	}
	f.last = now
	return now, nil
}

// shifts are the statements that shift times by ?1 milliseconds.
var shifts = []string{
	`UPDATE leases INDEXED BY leases_held SET expires_at = expires_at + ?1, last_heartbeat = last_heartbeat + ?1 WHERE status = 'active'`,
	`UPDATE workers SET last_heartbeat = last_heartbeat + ?1, instance_seen = CASE WHEN instance_seen > 0 THEN instance_seen + ?1 ELSE 0 END`,
	`UPDATE llm_tasks INDEXED BY llm_tasks_prefers SET preferred_until = preferred_until + ?1 WHERE preferred_worker IS NOT NULL`,
	// Only retries of failed attempts; any other run_at was requested as a time.
	`UPDATE llm_tasks INDEXED BY llm_tasks_delayed SET run_at = run_at + ?1 WHERE gate = 'delayed' AND error_class IS NOT NULL`,
}

func shiftTimes(c *conn, by int64) error {
	if _, err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	var err error
	for _, text := range shifts {
		if err == nil {
			_, err = c.exec(text, by)
		}
	}
	if err == nil {
		_, err = c.exec("COMMIT")
	}
	if err != nil {
		_, _ = c.exec("ROLLBACK") // fails if SQLite has already rolled back
	}
	return err
}
