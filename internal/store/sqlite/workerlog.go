package sqlite

import (
	"context"
	"encoding/json"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

// WorkerLogs reads the last lines that a worker reported.
func (d *database) WorkerLogs(ctx context.Context, id string) (bloom.WorkerLogs, error) {
	return read(ctx, d, func(c *conn) (bloom.WorkerLogs, error) {
		return found(c, func(r row) bloom.WorkerLogs {
			logs := bloom.WorkerLogs{WorkerID: r.str(0), UpdatedAt: r.int(1), Lines: []bloom.LogLine{}}
			_ = json.Unmarshal([]byte(r.str(2)), &logs.Lines)
			return logs
		}, bloom.ErrWorkerNotFound, `SELECT w.id, l.updated_at, l.lines FROM workers w LEFT JOIN worker_logs l ON l.worker_id = w.id WHERE w.id = ? AND w.removed = 0`, id)
	})
}

// putLogs replaces the lines that workers reported, and drops those of removed workers.
func (t *tx) putLogs(c *store.Changes) error {
	for _, l := range c.Logs {
		if _, err := t.exec(`INSERT INTO worker_logs (worker_id, updated_at, lines) VALUES (?1, ?2, ?3)
			ON CONFLICT (worker_id) DO UPDATE SET updated_at = ?2, lines = ?3`, l.WorkerID, l.UpdatedAt, string(bloom.MustJSON(l.Lines))); err != nil {
			return err
		}
	}
	for _, w := range c.Workers {
		if w.Removed {
			if _, err := t.exec(`DELETE FROM worker_logs WHERE worker_id = ?`, w.ID); err != nil {
				return err
			}
		}
	}
	return nil
}
