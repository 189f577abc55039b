package sqlite

import (
	"context"
	"time"

	"github.com/bloom-runtime/bloom"
)

// reapActor is who the audit names for what no person or worker did.
const reapActor = "reaper"

// Reap expires at most limit overdue leases. Active leases are few (no more
// than the workers' slots), so their deadlines have no index that every
// heartbeat would have to write.
func (s *Store) Reap(ctx context.Context, limit int) (bloom.Reaped, error) {
	return write(ctx, s, func(t *tx) (did bloom.Reaped, err error) {
		overdue, err := collect(t.conn, func(r row) holding { return holding{task: scanState(r), lease: scanLease(r[stateWidth:])} },
			`SELECT `+stateColumns+`, `+leaseColumns+` FROM leases l INDEXED BY leases_held JOIN llm_tasks t ON t.id = l.task_id
			WHERE l.status = 'active' AND l.expires_at <= ? ORDER BY l.seq LIMIT ?`, t.now, limit)
		for i := 0; err == nil && i < len(overdue); i++ {
			o := &overdue[i]
			tr := bloom.Expire(o.task.state, o.lease, t.now)
			if tr.Noop {
				continue
			}
			did.Count(tr.Task.Status)
			err = t.apply(&o.task, o.lease, tr, reapActor)
		}
		return did, err
	})
}

// ExtendLeases gives every active lease its own TTL from now on. One that has longer
// was given under a clock that was wrong.
func (s *Store) ExtendLeases(ctx context.Context) (int, error) {
	return write(ctx, s, func(t *tx) (int, error) {
		t.mem.forget()
		n, err := t.put(`UPDATE leases INDEXED BY leases_held SET expires_at = ?1 + ttl_seconds * 1000
			WHERE status = 'active' AND expires_at <> ?1 + ttl_seconds * 1000`, t.now)
		return int(n), err
	})
}

// ShiftLeases moves every active lease's deadline.
func (s *Store) ShiftLeases(ctx context.Context, by time.Duration) (int, error) {
	return write(ctx, s, func(t *tx) (int, error) {
		t.mem.forget()
		n, err := t.put(`UPDATE leases INDEXED BY leases_held SET expires_at = expires_at + ?, last_heartbeat = last_heartbeat + ?1 WHERE status = 'active'`, by.Milliseconds())
		return int(n), err
	})
}
