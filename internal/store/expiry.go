package store

import (
	"context"
	"errors"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// reapActor is the audit's actor of an expiry.
const reapActor = "reaper"

// Reap expires up to limit overdue leases, each in its own operation, so that one
// that cannot be expired does not block the others. After an outage of the database it
// first extends all leases. Then it opens ordered tasks that wait for nothing.
func (s *Store) Reap(ctx context.Context, limit int) (did contract.Reaped, err error) {
	if s.outage.needsExtension() {
		n, err := s.ExtendLeases(ctx)
		if err != nil {
			return did, err
		}
		s.log.Info("extended all leases after an outage of the database", "leases", n)
	}
	now, err := s.Time(ctx)
	if err != nil {
		return did, err
	}
	overdue, err := s.ActiveLeases(ctx, now, limit, s.quarantined.list(notExpired))
	if err != nil {
		return did, s.explain(err)
	}
	ended := make([]bloom.TaskStatus, len(overdue))
	s.forEachLease(overdue, func(i int) error {
		l := overdue[i]
		var err error // not shared: these functions run concurrently
		ended[i], err = do(ctx, s, func(r *Rows) { wantNamed(r, l.TaskID, l.ID) }, func(u *Unit) (bloom.TaskStatus, error) {
			t, l, err := u.named(l.TaskID, l.ID)
			if err != nil {
				return "", err
			}
			tr := lifecycle.Expire(t.TaskState, *l, u.Now)
			if tr.Noop {
				return "", nil
			}
			return tr.Task.Status, u.apply(t, l, tr, reapActor)
		})
		return err
	}, notExpired)
	for _, status := range ended {
		if status != "" {
			did.Count(status)
		}
	}
	if err := s.openOrdered(ctx); err != nil { // it must not keep leases from expiring
		s.log.Warn("ordered tasks that wait for nothing were not looked for", "error", err)
	}
	if _, err := s.ExpireApprovals(ctx, limit); err != nil {
		s.log.Warn("requests that nobody decided were not looked for", "error", err)
	}
	return did, nil
}

// forEachLease is forEach with the index of each lease.
func (s *Store) forEachLease(leases []bloom.Lease, run func(i int) error, op failure) {
	ids, places := make([]string, len(leases)), make(map[string]int, len(leases))
	for i, l := range leases {
		ids[i], places[l.ID] = l.ID, i
	}
	s.forEach(ids, func(id string) error { return run(places[id]) }, op)
}

// farFuture is later than any lease's deadline.
const farFuture = int64(1) << 62

// ExtendLeases sets every active lease's deadline to its TTL from now, also when that
// is earlier: a later deadline comes from a clock that was wrong. Leases renewed in
// the meantime are not changed. It fails if the database does: leases must not be
// reaped before all are extended. A single lease that cannot be extended fails nothing.
func (s *Store) ExtendLeases(ctx context.Context) (int, error) {
	leases, err := s.ActiveLeases(ctx, farFuture, 1<<30, nil)
	if err != nil {
		return 0, s.explain(err)
	}
	moved, errs := make([]bool, len(leases)), make([]error, len(leases))
	s.forEachLease(leases, func(i int) error {
		found := leases[i]
		moved[i], errs[i] = do(ctx, s, func(r *Rows) { wantNamed(r, found.TaskID, found.ID) }, func(u *Unit) (bool, error) {
			_, l, err := u.named(found.TaskID, found.ID)
			if err != nil || l.Status != bloom.LeaseActive || l.ExpiresAt != found.ExpiresAt {
				return false, err
			}
			is := *l
			is.ExpiresAt = u.Now + int64(is.TTLSeconds)*1000
			changes := is.ExpiresAt != l.ExpiresAt
			u.applyLease(l, is)
			return changes, nil
		})
		return errs[i]
	}, notMoved)
	var failed error
	extended := false
	for _, err := range errs {
		switch {
		case unreachable(err):
			return 0, err
		case err == nil:
			extended = true
		case transient(err) && !errors.Is(err, ErrConflict):
			failed = err
		}
	}
	if failed != nil && !extended {
		return 0, failed
	}
	s.outage.extended()
	n := 0
	for _, m := range moved {
		if m {
			n++
		}
	}
	return n, nil
}
