package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
)

// reapActor is who the audit names for what no person or worker did.
const reapActor = "reaper"

// holding is an active lease and its task, both locked by the task's row.
type holding struct {
	task  *task
	lease *lease
}

// hold locks the tasks of the active leases that where selects, in the order of
// their seq, and reads both as they are then. Contexts of ordered tasks are
// locked first.
func (t *tx) hold(where string, args ...any) ([]holding, error) {
	ids, err := collect(t.ctx, t.c, scanID, `SELECT l.task_id FROM leases l WHERE l.status = 'active' AND `+where, args...)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	w := want{tasks: ids, active: ids}
	b := &pgx.Batch{}
	t.lockContexts(b, &w)
	t.loadTasks(b, &w)
	t.loadLeases(b, &w)
	if err := t.c.SendBatch(t.ctx, b).Close(); err != nil {
		return nil, err
	}
	held := make([]holding, 0, len(ids))
	for _, id := range ids {
		if l, ok := t.active[id]; ok {
			held = append(held, holding{task: t.tasks[id], lease: l})
		}
	}
	slices.SortFunc(held, func(a, b holding) int { return int(a.task.seq - b.task.seq) })
	return held, nil
}

func scanID(r pgx.Rows) (id string, err error) {
	err = r.Scan(&id)
	return id, err
}

// Reap expires at most limit overdue leases. Active leases are few (no more than
// the workers' slots), so their deadlines have no index that every heartbeat
// would have to write.
func (s *Store) Reap(ctx context.Context, limit int) (bloom.Reaped, error) {
	return separately(ctx, s, func(*want) {}, func(t *tx) (did bloom.Reaped, err error) {
		held, err := t.hold(`l.expires_at <= $1 ORDER BY l.expires_at LIMIT $2`, t.now, limit)
		for i := 0; err == nil && i < len(held); i++ {
			tr := bloom.Expire(held[i].task.TaskState, held[i].lease.Lease, t.now)
			if tr.Noop {
				continue
			}
			did.Count(tr.Task.Status)
			err = t.apply(held[i].task, held[i].lease, tr, reapActor)
		}
		return did, err
	})
}

// ExtendLeases gives every active lease its own TTL from now on. One that has longer
// was given under a clock that was wrong.
func (s *Store) ExtendLeases(ctx context.Context) (int, error) {
	return s.moveDeadlines(ctx, func(now int64, l *bloom.Lease) bool {
		until := now + int64(l.TTLSeconds)*1000
		if l.ExpiresAt == until {
			return false
		}
		l.ExpiresAt = until
		return true
	})
}

// ShiftLeases moves every active lease's deadline. Done again because its commit
// was cut off, it leaves alone what is not where it was at first.
func (s *Store) ShiftLeases(ctx context.Context, by time.Duration) (int, error) {
	first := map[string]int64{}
	return s.moveDeadlines(ctx, func(_ int64, l *bloom.Lease) bool {
		if was, again := first[l.ID]; again && was != l.ExpiresAt {
			return false
		}
		first[l.ID] = l.ExpiresAt
		l.ExpiresAt += by.Milliseconds()
		l.LastHeartbeat += by.Milliseconds()
		return by != 0
	})
}

// moveDeadlines changes the deadlines of all active leases, under the locks of
// their tasks like every other change of a lease.
func (s *Store) moveDeadlines(ctx context.Context, move func(now int64, l *bloom.Lease) bool) (int, error) {
	return separately(ctx, s, func(*want) {}, func(t *tx) (n int, err error) {
		held, err := t.hold(`true`)
		for _, h := range held {
			is := h.lease.Lease
			if move(t.now, &is) {
				t.applyLease(h.lease, is)
				n++
			}
		}
		return n, err
	})
}
