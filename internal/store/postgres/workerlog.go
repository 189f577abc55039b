package postgres

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

// WorkerLogs reads the last lines that a worker reported.
func (d *database) WorkerLogs(ctx context.Context, id string) (bloom.WorkerLogs, error) {
	return read(ctx, d, func(c reader) (bloom.WorkerLogs, error) {
		return found(ctx, c, func(r pgx.Rows) (logs bloom.WorkerLogs, err error) {
			var lines string
			if err = r.Scan(&logs.WorkerID, &logs.UpdatedAt, &lines); err == nil {
				err = json.Unmarshal([]byte(lines), &logs.Lines)
			}
			return logs, err
		}, bloom.ErrWorkerNotFound, `SELECT w.id, coalesce(l.updated_at, 0), coalesce(l.lines, '[]') FROM workers w
			LEFT JOIN worker_logs l ON l.worker_id = w.id WHERE w.id = $1 AND NOT w.removed`, bloom.CleanText(id))
	})
}

// queueLogs replaces the lines that workers reported, and drops those of removed workers.
func queueLogs(b *pgx.Batch, c *store.Changes) {
	for _, l := range c.Logs {
		b.Queue(`INSERT INTO worker_logs (worker_id, updated_at, lines) VALUES ($1, $2, $3)
			ON CONFLICT (worker_id) DO UPDATE SET updated_at = excluded.updated_at, lines = excluded.lines`, l.WorkerID, l.UpdatedAt, string(bloom.MustJSON(l.Lines)))
	}
	for _, w := range c.Workers {
		if w.Removed {
			b.Queue(`DELETE FROM worker_logs WHERE worker_id = $1`, w.ID)
		}
	}
}
