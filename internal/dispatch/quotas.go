package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/problems"
)

// Quotas of what a worker may add, far above what tasks need: a worker's key must not fill the disk,
// the database or the audit. They count for a key that is bound to a worker, else for a lease, and
// for releases for a task.
const (
	eventBytes  = 128 << 20 // of events at once
	eventRate   = 512 << 10 // a second
	uploadKiB   = 16 << 20  // of parts and files at once
	uploadRate  = 4 << 10   // KiB a second
	releases    = 256       // at once; each is entries of the audit
	releaseRate = 1
	maxQuotas   = 4096 // callers of which each quota keeps the state
)

// quotaShown is how long a caller that has reached a quota is shown as a problem.
const quotaShown = 15 * time.Minute

// diskReserve is what uploads leave free on the disk, for the database.
const diskReserve = problems.DiskVeryLow

var errDiskReserve = &bloom.Error{Kind: bloom.KindUnavailable, Code: bloom.CodeUnavailable,
	Message: "The server's disk is almost full and accepts no uploads; free some space on it"}

// quotas limits what workers add. It is safe for concurrent use.
type quotas struct {
	events, uploads, releases *quota

	mu      sync.Mutex
	reached map[string]time.Time // by name, when last
}

func newQuotas() *quotas {
	return &quotas{events: newQuota("events", eventRate, eventBytes), uploads: newQuota("uploads", uploadRate, uploadKiB),
		releases: newQuota("releases", releaseRate, releases), reached: map[string]time.Time{}}
}

type quota struct {
	what  string
	every rate.Limit
	burst int

	mu sync.Mutex
	of map[string]*rate.Limiter
}

func newQuota(what string, every rate.Limit, burst int) *quota {
	return &quota{what: what, every: every, burst: burst, of: map[string]*rate.Limiter{}}
}

// take counts n for the caller's key if it is bound to a worker, else for the item, which is a lease
// or a task. The worker is needed only if that is too much.
func (s *Service) take(ctx context.Context, q *quota, item string, n int64, worker func() string) error {
	c := bloom.CallerOf(ctx)
	who, whose := item, "this lease or task"
	if c.Worker != "" {
		who, whose = c.KeyID, "this key"
	}
	now := s.clock.Now()
	if q.allow(who, now, n) {
		return nil
	}
	s.quotas.note(worker(), now)
	return &bloom.Error{Kind: bloom.KindRateLimited, Code: bloom.CodeRateLimited,
		Message: "Too many " + q.what + " with " + whose + "; try again later"}
}

func (q *quota) allow(who string, now time.Time, n int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l, known := q.of[who]
	if !known {
		if len(q.of) >= maxQuotas {
			q.forget(now)
		}
		l = rate.NewLimiter(q.every, q.burst)
		q.of[who] = l
	}
	return l.AllowN(now, int(min(n, int64(q.burst))))
}

// forget removes callers whose quota is full again, else all.
func (q *quota) forget(now time.Time) {
	for who, l := range q.of {
		if l.TokensAt(now) >= float64(q.burst) {
			delete(q.of, who)
		}
	}
	if len(q.of) >= maxQuotas {
		clear(q.of)
	}
}

func (s *quotas) note(worker string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.reached[worker]; known || len(s.reached) < maxQuotas {
		s.reached[worker] = now
	}
}

// names lists the workers that have reached a quota lately.
func (s *quotas) names(now time.Time) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, at := range s.reached {
		if now.Sub(at) > quotaShown {
			delete(s.reached, name)
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// takeUpload counts an upload of n bytes under a lease, and leaves space for the database.
func (s *Service) takeUpload(ctx context.Context, taskID, leaseID string, n int64) error {
	if s.objects == nil {
		if m := s.Machine(); m.DiskLow && m.FreeBytes < diskReserve+uint64(max(n, 0)) {
			return errDiskReserve
		}
	}
	return s.take(ctx, s.quotas.uploads, leaseID, n>>10+1, s.holderOf(ctx, taskID, leaseID))
}

// holderOf returns a function that reads the worker of a lease, "" if that fails.
func (s *Service) holderOf(ctx context.Context, taskID, leaseID string) func() string {
	return func() string {
		worker, _ := s.Holder(ctx, taskID, leaseID)
		return worker
	}
}
