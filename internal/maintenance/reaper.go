package maintenance

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Defaults of the loops.
const (
	DefaultReapEvery   = 30 * time.Second
	DefaultSilentEvery = 10 * time.Second
)

const (
	// reapBatch bounds one transaction of the reaper.
	reapBatch = 256
)

// Leases is what the Reaper needs of a store.
type Leases interface {
	Reap(ctx context.Context, limit int) (bloom.Reaped, error)
	ExtendLeases(ctx context.Context) (int, error)
}

// ReaperConfig is what a Reaper needs. Store is required.
type ReaperConfig struct {
	Store  Leases
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultReapEvery when 0
}

type reaper struct {
	store Leases
	grace bool // owed before the next reaping
}

// NewReaper makes the loop that ends overdue leases. After a start and after a
// failure it first gives every active lease its time again, so that workers can
// report: that they could not was not their fault.
func NewReaper(c ReaperConfig) *Loop {
	r := &reaper{store: c.Store, grace: true}
	return newLoop("reaper", cmp.Or(c.Every, DefaultReapEvery), c.Logger, r.once)
}

func (r *reaper) once(ctx context.Context) (res Result, err error) {
	defer func() { r.grace = r.grace || err != nil }()
	var said []string
	if r.grace {
		n, err := r.store.ExtendLeases(ctx)
		if err != nil {
			return res, err
		}
		r.grace = false
		if n > 0 {
			said = append(said, fmt.Sprintf("%d leases got their time again", n))
		}
		res.Changed += n
	}
	reaped, err := r.reap(ctx)
	if n := reaped.Total(); n > 0 {
		res.Changed += n
		said = append(said, fmt.Sprintf("%d leases expired: %d tasks queued again, %d dead, %d cancelled", n, reaped.Requeued, reaped.Dead, reaped.Cancelled))
	}
	res.Detail = strings.Join(said, "; ")
	return res, err
}

func (r *reaper) reap(ctx context.Context) (all bloom.Reaped, err error) {
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

// NewSilentWorkers makes the loop that sets workers offline that nobody has
// heard of for too long.
func NewSilentWorkers(c SilentWorkersConfig) *Loop {
	after := cmp.Or(c.After, bloom.OfflineAfter)
	return newLoop("silent-workers", cmp.Or(c.Every, DefaultSilentEvery), c.Logger, func(ctx context.Context) (Result, error) {
		n, err := c.Store.MarkSilent(ctx, after)
		return Result{Changed: n, Detail: fmt.Sprintf("%d workers went offline: not heard of for %s", n, after)}, err
	})
}
