package sqlite

import (
	"context"
	"slices"

	"github.com/bloom-runtime/bloom"
)

// counts is by how much a transaction changes what stats shows: one row, kept
// by differences so that nobody ever counts tasks.
type counts struct {
	byStatus       [7]int64 // in the order of bloom.TaskStatuses
	leases, active int64
}

func (c *counts) tasks(status bloom.TaskStatus, by int64) {
	c.byStatus[slices.Index(bloom.TaskStatuses, status)] += by
}

// flushCounts writes what the group changed.
func (t *tx) flushCounts() error {
	c := t.counts
	if c == (counts{}) {
		return nil
	}
	s := c.byStatus
	_, err := t.exec(`UPDATE counters SET queued = queued + ?, leased = leased + ?, running = running + ?, completed = completed + ?,
		failed = failed + ?, dead = dead + ?, cancelled = cancelled + ?, leases = leases + ?, active = active + ?`,
		s[0], s[1], s[2], s[3], s[4], s[5], s[6], c.leases, c.active)
	return err
}

// Stats reads the counters; only the workers, who are few, are counted.
func (s *Store) Stats(ctx context.Context) (bloom.Stats, error) {
	return read(ctx, s, func(c *conn) (bloom.Stats, error) {
		st := bloom.Stats{Tasks: bloom.TaskStats{ByStatus: map[bloom.TaskStatus]int64{}}}
		r, _, err := c.one(`SELECT queued, leased, running, completed, failed, dead, cancelled, leases, active FROM counters`)
		if err != nil {
			return st, err
		}
		for i, status := range bloom.TaskStatuses {
			if n := r.int(i); n != 0 {
				st.Tasks.ByStatus[status] = n
				st.Tasks.Total += n
			}
		}
		st.Leases = bloom.LeaseStats{Total: r.int(7), Active: r.int(8)}
		r, _, err = c.one(`SELECT COUNT(*), COALESCE(SUM(status = 'online'), 0) FROM workers WHERE removed = 0`)
		if err == nil {
			st.Workers = bloom.WorkerStats{Total: r.int(0), Online: r.int(1)}
		}
		return st, err
	})
}
