package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/problems"
)

// quota limits what a worker may add, far above what tasks need: a worker's key must not fill the
// disk, the database or the audit. It counts for a key that is bound to a worker, else for a lease,
// and for releases for a task.
type quota struct {
	what  string
	every rate.Limit // a second
	burst int64      // at once
}

var (
	eventQuota   = quota{"events", 512 << 10, 128 << 20} // bytes
	uploadQuota  = quota{"uploads", 4 << 10, 16 << 20}   // KiB of parts and files
	releaseQuota = quota{"releases", 1, 256}             // each is entries of the audit
)

const (
	maxQuotas  = 4096             // callers whose state is kept; when it is reached, all begin again
	quotaShown = 15 * time.Minute // how long a worker that has reached a quota is shown as a problem
	// Audit entries of requests under lost leases, a minute: of one worker with one key, and of all
	// together. Anybody with a worker's key can make up leases.
	staleAudited    = 60
	staleAuditedAll = 10 * staleAudited
)

var errDiskReserve = &bloom.Error{Kind: bloom.KindUnavailable, Code: bloom.CodeUnavailable,
	Message: "The server's disk is almost full and accepts no uploads; free some space on it"}

// quotas keeps the state of all quotas. It is safe for concurrent use.
type quotas struct {
	mu      sync.Mutex
	of      map[[2]string]*rate.Limiter // by what and caller
	reached map[string]time.Time        // by worker, when last
}

// take counts n for the caller's key if it is bound to a worker, else for the item, which is a lease
// or a task. It reads whose the lease is only if that is too much.
func (s *Service) take(ctx context.Context, q quota, item string, n int64, taskID, leaseID string) error {
	c := audit.CallerOf(ctx)
	who, whose := item, "this lease or task"
	if c.Worker != "" {
		who, whose = c.KeyID, "this key"
	}
	now := s.clock.Now()
	if s.quotas.allow(q, who, now, n) {
		return nil
	}
	worker, _ := s.Holder(ctx, taskID, leaseID) // "" if that fails
	s.quotas.mu.Lock()
	defer s.quotas.mu.Unlock()
	if _, known := s.quotas.reached[worker]; known || len(s.quotas.reached) < maxQuotas {
		s.quotas.reached[worker] = now
	}
	return &bloom.Error{Kind: bloom.KindRateLimited, Code: bloom.CodeRateLimited,
		Message: "Too many " + q.what + " with " + whose + "; try again later"}
}

func (s *quotas) allow(q quota, who string, now time.Time, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := [2]string{q.what, who}
	l := s.of[key]
	if l == nil {
		if len(s.of) >= maxQuotas {
			clear(s.of)
		}
		l = rate.NewLimiter(q.every, int(q.burst))
		s.of[key] = l
	}
	return l.AllowN(now, int(min(n, q.burst)))
}

// overQuota lists the workers that have reached a quota lately.
func (s *Service) overQuota() (names []string) {
	s.quotas.mu.Lock()
	defer s.quotas.mu.Unlock()
	for name, at := range s.quotas.reached {
		if s.clock.Now().Sub(at) > quotaShown {
			delete(s.quotas.reached, name)
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TakeUpload counts an upload of n bytes under a lease, and leaves space for the database.
func (s *Service) TakeUpload(ctx context.Context, taskID, leaseID string, n int64) error {
	if m := s.machine(); s.Content.Objects == nil && m.DiskLow && m.FreeBytes < problems.DiskVeryLow+uint64(max(n, 0)) {
		return errDiskReserve
	}
	return s.take(ctx, uploadQuota, leaseID, n>>10+1, taskID, leaseID)
}
