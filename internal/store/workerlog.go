package store

import (
	"context"

	"github.com/bloom-runtime/bloom"
)

// ReportLogs keeps the last log lines of a worker; ErrWorkerConflict when another living
// process has its name. Of two reports at once the later one stays, which a worker's next
// report makes whole.
func (s *Store) ReportLogs(ctx context.Context, id string, r bloom.LogReport) error {
	was, err := s.WorkerLogs(ctx, id)
	if err != nil {
		return err
	}
	want := func(w *ReadSet) {
		if r.MustName {
			w.Workers.Add(id)
		}
	}
	_, err = do(ctx, s, want, func(u *Unit) (struct{}, error) {
		if r.MustName {
			if w, err := u.worker(id); err != nil {
				return struct{}{}, err
			} else if w.ConflictsWith(r.InstanceID, true, u.Now) {
				return struct{}{}, bloom.ErrWorkerConflict
			}
		}
		u.dirt = true
		u.c.Logs = append(u.c.Logs, bloom.WorkerLogs{WorkerID: id, UpdatedAt: u.Now, Lines: r.Joined(was.Lines)})
		return struct{}{}, nil
	})
	return err
}
