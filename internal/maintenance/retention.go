package maintenance

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Defaults of Retention.
const (
	// DefaultRetentionEvery is how often Retention looks for old records. If there are
	// none, that is one short read for each kind.
	DefaultRetentionEvery = 5 * time.Minute
	// DefaultRetentionBusy is how long one run may take. The next run continues where it
	// stopped.
	DefaultRetentionBusy = 4 * time.Minute
)

const (
	auditBatch   = 250 // audit entries in one transaction; they are small
	noteBatch    = 500 // records of forgotten contexts in one transaction
	contentBatch = 20  // contents listed at once
	contentFails = 5   // consecutive failures after which the blob store counts as unavailable
	pauseFactor  = 3   // the pause after a batch is this many times as long as the batch took
	minPause     = 5 * time.Millisecond
)

// Contents deletes content from the blob store; blob.Blobs implements it.
type Contents interface {
	// Delete deletes content. Missing content is not an error.
	Delete(ctx context.Context, url string) error
}

// RetentionConfig is what Retention needs. Store is required.
type RetentionConfig struct {
	Store    contract.RetentionStore
	Contents Contents      // of removed artifacts; nil keeps their content
	Clock    timing.Clock  // times the pauses; timing.System when nil
	Logger   *slog.Logger  // discards when nil
	Every    time.Duration // DefaultRetentionEvery when 0
	Busy     time.Duration // DefaultRetentionBusy when 0
	Keep     contract.Keep
	// RunLogs, if not nil, archives events before they are removed.
	RunLogs *RunLogs
	// ExportedOnly keeps audit entries until they are exported.
	ExportedOnly bool
	// Removed, if not nil, is called after every batch, for metrics.
	Removed func(contract.Removed)
	// Deleted, if not nil, is called with the result of every deletion from Contents, for
	// metrics.
	Deleted func(error)
}

type retention struct {
	RetentionConfig
	log   *slog.Logger
	kinds []*oldKind
}

// oldKind is one kind of old records, and the walk's position in it.
type oldKind struct {
	keep   time.Duration
	limit  int
	before func(context.Context, contract.RemoveRequest) error // called before remove; may be nil
	remove func(context.Context, contract.RemoveRequest) (contract.Removed, error)
	after  int64
}

// NewRetention makes the loop that removes what is older than configured: ended tasks with
// everything that belongs to them, events of ended tasks, audit entries and unused contexts.
// It also removes records of forgotten contexts that are older than
// contract.ForgottenRetention. It works in small batches, and pauses after each for three
// times as long as the batch took, so that it slows down when the database is busy. It
// deletes content in the blob store last; an interrupted run leaves it listed for the next
// run.
func NewRetention(c RetentionConfig) *Loop {
	c.Busy = cmp.Or(c.Busy, DefaultRetentionBusy)
	if c.Clock == nil {
		c.Clock = timing.System{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	r := &retention{RetentionConfig: c, log: c.Logger, kinds: []*oldKind{
		{keep: c.Keep.Tasks, limit: contract.DefaultRemoveBatch, remove: c.Store.RemoveTasks},
		{keep: c.Keep.Events, limit: contract.DefaultRemoveBatch, remove: c.Store.RemoveEvents},
		{keep: c.Keep.Audit, limit: auditBatch, remove: c.Store.RemoveAudit},
		{keep: c.Keep.Contexts, limit: contract.DefaultRemoveBatch, remove: c.Store.RemoveContexts},
		{keep: contract.ForgottenRetention, limit: noteBatch, remove: c.Store.RemoveForgotten},
	}}
	if t := c.RunLogs; t != nil {
		r.kinds[1].before = t.Keep
	}
	return newLoop("retention", cmp.Or(c.Every, DefaultRetentionEvery), c.Logger, r.once)
}

func (r *retention) once(ctx context.Context) (res Result, err error) {
	var all contract.Removed
	until := r.Clock.Now().Add(r.Busy)
	for _, k := range r.kinds {
		if k.keep > 0 && err == nil {
			err = r.walk(ctx, k, until, &all)
		}
	}
	if err == nil {
		err = r.deleteContents(ctx, until)
	}
	res.Changed, res.Detail = int(all.Total()), "removed old records: "+all.String()
	if ctx.Err() != nil && res.Changed > 0 {
		err = nil // report what a cancelled run removed
	}
	return res, err
}

// walk removes one kind in batches, until there is no more or the time is up.
func (r *retention) walk(ctx context.Context, k *oldKind, until time.Time, all *contract.Removed) error {
	for began := r.Clock.Now(); !began.After(until); began = r.Clock.Now() {
		batch := contract.RemoveRequest{OlderThan: k.keep, After: k.after, Limit: k.limit, Archived: k.before != nil, Exported: r.ExportedOnly}
		if k.before != nil {
			if err := k.before(ctx, batch); err != nil {
				return err
			}
		}
		did, err := k.remove(ctx, batch)
		if err != nil {
			return err
		}
		all.Add(did)
		if r.Removed != nil && did.Total() > 0 {
			r.Removed(did)
		}
		if k.after = did.Next; !did.More {
			k.after = 0
			return nil
		}
		now := r.Clock.Now()
		if now.After(until) {
			return nil
		}
		if err := pause(ctx, pauseFactor*now.Sub(began)); err != nil {
			return err
		}
	}
	return nil
}

// deleteContents deletes the content of removed artifacts from the blob store, including
// what an earlier run left. Content that cannot be deleted stays listed.
func (r *retention) deleteContents(ctx context.Context, until time.Time) error {
	if r.Contents == nil {
		return nil
	}
	after, failed := int64(0), 0
	var last error
	for failed < contentFails && !r.Clock.Now().After(until) {
		list, err := r.Store.RemovedContent(ctx, after, contentBatch)
		if err != nil {
			return err
		}
		var deleted []int64
		for _, c := range list {
			after = c.Seq
			err := r.Contents.Delete(ctx, c.URL)
			if r.Deleted != nil {
				r.Deleted(err)
			}
			if err != nil {
				if last, failed = err, failed+1; failed == contentFails || ctx.Err() != nil {
					break
				}
				continue
			}
			deleted, failed = append(deleted, c.Seq), 0
		}
		// Record it even if the loop is being stopped.
		if err := r.Store.ConfirmDeleted(context.WithoutCancel(ctx), deleted); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(list) < contentBatch {
			break
		}
	}
	if last != nil {
		r.log.WarnContext(ctx, "content of removed artifacts could not be deleted; retrying later", "error", last)
	}
	return nil
}

// pause waits, so that other work is not slowed down.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(max(d, minPause))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
