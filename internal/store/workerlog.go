package store

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var logLayout = layout("worker_logs", "worker_id text, updated_at bigint, lines json", Replace)

func logValues(v []any, l bloom.WorkerLogs) []any {
	return append(v, l.WorkerID, l.UpdatedAt, string(storable.MustJSON(l.Lines)))
}

// ReportLogs keeps the last log lines of a worker. It fails with ErrWorkerConflict if
// another living process has the worker's name. Of two concurrent reports the later
// one wins; the worker's next report restores the lines of the other.
func (s *Store) ReportLogs(ctx context.Context, id string, r bloom.LogReport) error {
	was, err := s.WorkerLogs(ctx, id)
	if err != nil {
		return err
	}
	reads := func(rows *Rows) {
		if r.MustName {
			workers.want(rows, id)
		}
	}
	_, err = do(ctx, s, reads, func(u *Unit) (struct{}, error) {
		if r.MustName {
			if w, err := u.worker(id); err != nil {
				return struct{}{}, err
			} else if w.ConflictsWith(r.InstanceID, true, u.Now) {
				return struct{}{}, bloom.ErrWorkerConflict
			}
		}
		u.changed()
		u.c.Logs = append(u.c.Logs, bloom.WorkerLogs{WorkerID: id, UpdatedAt: u.Now, Lines: contract.JoinLines(was.Lines, r)})
		return struct{}{}, nil
	})
	return err
}

// WorkerLogs reads a worker's last log lines.
func (s *Store) WorkerLogs(ctx context.Context, id string) (bloom.WorkerLogs, error) {
	return single(ctx, s, func(l *bloom.WorkerLogs) []any { return []any{&l.WorkerID, &l.UpdatedAt, &object{&l.Lines}} }, bloom.ErrWorkerNotFound,
		`SELECT w.id, coalesce(l.updated_at, 0), coalesce(l.lines, '[]') FROM workers w
			LEFT JOIN worker_logs l ON l.worker_id = w.id WHERE w.id = $1 AND NOT w.removed`, storable.Text(id))
}
