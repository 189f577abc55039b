package store

import (
	"context"

	"github.com/bloom-runtime/bloom"
)

// ReportLogs keeps the last log lines of a worker. Of two reports at once the later one
// stays, which a worker's next report makes whole.
func (s *Store) ReportLogs(ctx context.Context, id string, r bloom.LogReport) error {
	was, err := s.WorkerLogs(ctx, id)
	if err != nil {
		return err
	}
	_, err = do(ctx, s, func(*ReadSet) {}, func(u *Unit) (struct{}, error) {
		u.dirt = true
		u.c.Logs = append(u.c.Logs, bloom.WorkerLogs{WorkerID: id, UpdatedAt: u.Now, Lines: r.Joined(was.Lines)})
		return struct{}{}, nil
	})
	return err
}
