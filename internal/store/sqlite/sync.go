package sqlite

import (
	"context"

	"github.com/bloom-runtime/bloom"
)

// SyncWorkers upserts what the control plane reports.
func (s *Store) SyncWorkers(ctx context.Context, reports []bloom.WorkerReport) (int, error) {
	return write(ctx, s, func(t *tx) (changed int, err error) {
		for _, r := range reports {
			did, err := t.sync(r)
			if err != nil {
				return 0, err
			}
			if did {
				changed++
			}
		}
		return changed, nil
	})
}

// sync takes one report in and tells whether it was news.
func (t *tx) sync(r bloom.WorkerReport) (bool, error) {
	was, err := t.orUnknown(r.Name)
	if err != nil {
		return false, err
	}
	c := bloom.SyncWorker(was, r, t.now)
	switch {
	case c.Contact:
		t.mem.keepWorker(c.Worker)
		return false, t.set(`UPDATE workers SET last_heartbeat = ?, posted_at = ? WHERE id = ?`, c.Worker.LastHeartbeat, c.Worker.PostedAt, c.Worker.ID)
	case c.Action == "":
		return false, nil
	}
	if err := t.putWorker(c.Worker); err != nil {
		return false, err
	}
	return true, t.auditWorker(c, "membridge")
}
