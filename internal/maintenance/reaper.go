package maintenance

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Default intervals.
const (
	DefaultReapEvery   = 30 * time.Second
	DefaultSilentEvery = 10 * time.Second
)

// clockJump is how far the store's clock and this process's monotonic one may diverge between two
// runs. More than that is a jump, not the slewing of a time daemon.
const clockJump = 5 * time.Second

// reapBatch is the maximum number of leases in one transaction.
const reapBatch = 256

// Leases is what the Reaper needs of a store.
type Leases interface {
	Time(ctx context.Context) (int64, error)
	Reap(ctx context.Context, limit int) (contract.Reaped, error)
	ExtendLeases(ctx context.Context) (int, error)
}

// ReaperConfig is what a Reaper needs. Store is required.
type ReaperConfig struct {
	Store  Leases
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultReapEvery when 0
	Clock  timing.Clock  // measures the time between runs; timing.System when nil
}

type reaper struct {
	store Leases
	clock timing.Clock
	grace bool // extend all leases before the next reaping
	// The store's clock in the last run, and this process's before and after it was read.
	stored        int64
	before, after time.Time
}

// NewReaper makes the loop that ends expired leases. After a start, after a failure, after
// runs that were left to another replica and after a jump of the store's clock it first
// extends every active lease, because workers may not have been able to renew them meanwhile.
func NewReaper(c ReaperConfig) *Loop {
	r := &reaper{store: c.Store, grace: true, clock: c.Clock}
	if r.clock == nil {
		r.clock = timing.System{}
	}
	l := newLoop("reaper", cmp.Or(c.Every, DefaultReapEvery), c.Logger, r.once)
	l.notRun = func() { r.grace = true }
	return l
}

func (r *reaper) once(ctx context.Context) (res Result, err error) {
	defer func() { r.grace = r.grace || err != nil }()
	var details []string
	jump, err := r.jump(ctx)
	if err != nil {
		return res, err
	}
	if jump.Abs() > clockJump {
		r.grace = true
		details = append(details, fmt.Sprintf("the store's clock jumped by %s", jump.Round(time.Second)))
	}
	if r.grace {
		n, err := r.store.ExtendLeases(ctx)
		if err != nil {
			return res, err
		}
		r.grace = false
		if n > 0 {
			details = append(details, fmt.Sprintf("%d leases were extended", n))
		}
		res.Changed += n
	}
	reaped, err := r.reap(ctx)
	if n := reaped.Total(); n > 0 {
		res.Changed += n
		details = append(details, fmt.Sprintf("%d leases expired: %d tasks queued again, %d dead, %d cancelled", n, reaped.Requeued, reaped.Dead, reaped.Cancelled))
	}
	res.Detail = strings.Join(details, "; ")
	return res, err
}

// jump returns how much further, at least, the store's clock has moved than the monotonic one since
// the last run. A store that is slow to answer does not look like a jump.
func (r *reaper) jump(ctx context.Context) (jump time.Duration, err error) {
	before := r.clock.Now()
	stored, err := r.store.Time(ctx)
	if err != nil {
		return 0, err
	}
	after := r.clock.Now()
	if r.stored != 0 {
		moved := time.Duration(stored-r.stored) * time.Millisecond
		jump = moved - min(max(moved, before.Sub(r.after)), after.Sub(r.before))
	}
	r.stored, r.before, r.after = stored, before, after
	return jump, nil
}

func (r *reaper) reap(ctx context.Context) (all contract.Reaped, err error) {
	for {
		got, err := r.store.Reap(ctx, reapBatch)
		if err != nil {
			return all, err
		}
		all.Requeued += got.Requeued
		all.Dead += got.Dead
		all.Cancelled += got.Cancelled
		if got.Total() < reapBatch {
			return all, nil
		}
	}
}

// Silence is what SilentWorkers needs of a store.
type Silence interface {
	MarkSilent(ctx context.Context, longer time.Duration) (int, error)
}

// SilentWorkersConfig is what SilentWorkers needs. Store is required.
type SilentWorkersConfig struct {
	Store  Silence
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultSilentEvery when 0
	After  time.Duration // bloom.OfflineAfter when 0
}

// NewSilentWorkers makes the loop that marks workers offline that had no contact for too
// long.
func NewSilentWorkers(c SilentWorkersConfig) *Loop {
	after := cmp.Or(c.After, bloom.OfflineAfter)
	return newLoop("silent-workers", cmp.Or(c.Every, DefaultSilentEvery), c.Logger, func(ctx context.Context) (Result, error) {
		n, err := c.Store.MarkSilent(ctx, after)
		return Result{Changed: n, Detail: fmt.Sprintf("%d workers went offline: no contact for %s", n, after)}, err
	})
}
