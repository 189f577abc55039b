package maintenance

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Defaults of Retention.
const (
	// DefaultRetentionEvery is how often is looked for what has grown old. With
	// nothing to remove that is one short read for each kind.
	DefaultRetentionEvery = 5 * time.Minute
	// DefaultRetentionBusy bounds one run. What is left then is for the next one,
	// which goes on where this one stopped.
	DefaultRetentionBusy = 4 * time.Minute
)

const (
	auditBatch   = 250 // entries of the audit in one transaction; they are small
	noteBatch    = 500 // notes of forgotten contexts in one transaction
	contentBatch = 20  // contents listed at once
	contentFails = 5   // failures in a row by which the blob store is taken to be away
	restFactor   = 3   // how much longer than a batch took is rested after it
	leastRest    = 5 * time.Millisecond
)

// Contents deletes what lies in the blob store; bloom.Blobs does.
type Contents interface {
	// Delete removes content; what is not there is no error.
	Delete(ctx context.Context, url string) error
}

// RetentionConfig is what Retention needs. Store is required.
type RetentionConfig struct {
	Store    bloom.RetentionStore
	Contents Contents      // of removed artifacts; nil leaves them where they are
	Clock    bloom.Clock   // times the pauses; bloom.SystemClock when nil
	Logger   *slog.Logger  // discards when nil
	Every    time.Duration // DefaultRetentionEvery when 0
	Busy     time.Duration // DefaultRetentionBusy when 0
	Keep     bloom.Keep
	// Transcripts, when not nil, writes events into transcripts before they are removed.
	Transcripts *Transcripts
	// ExportedOnly keeps entries of the audit until they are in a file of the export.
	ExportedOnly bool
	// Removed, when not nil, hears of every batch, for metrics.
	Removed func(bloom.Removed)
	// Deleted, when not nil, hears of every content that was to be deleted from
	// Contents, and why it could not be, for metrics.
	Deleted func(error)
}

type retention struct {
	RetentionConfig
	log   *slog.Logger
	kinds []*oldKind
}

// oldKind is one kind of what grows old, and how far the walk through it is.
type oldKind struct {
	keep   time.Duration
	limit  int
	before func(context.Context, bloom.RemoveRequest) error // nil: nothing has to be done before
	remove func(context.Context, bloom.RemoveRequest) (bloom.Removed, error)
	after  int64
}

// NewRetention makes the loop that removes what is older than configured: ended
// tasks with all that is their own, the events of ended tasks, audit entries, contexts
// that are not used; and notes of forgotten contexts that are older than
// bloom.ForgottenRetention. It
// works in small batches and rests after each three times as long as it took, so
// that those who work have most of the time, and more of it the busier they are. Content in the blob store is
// deleted last: a loop that is killed leaves it listed for the next run.
func NewRetention(c RetentionConfig) *Loop {
	c.Busy = cmp.Or(c.Busy, DefaultRetentionBusy)
	if c.Clock == nil {
		c.Clock = bloom.SystemClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	r := &retention{RetentionConfig: c, log: c.Logger, kinds: []*oldKind{
		{keep: c.Keep.Tasks, limit: bloom.DefaultRemoveBatch, remove: c.Store.RemoveTasks},
		{keep: c.Keep.Events, limit: bloom.DefaultRemoveBatch, remove: c.Store.RemoveEvents},
		{keep: c.Keep.Audit, limit: auditBatch, remove: c.Store.RemoveAudit},
		{keep: c.Keep.Contexts, limit: bloom.DefaultRemoveBatch, remove: c.Store.RemoveContexts},
		{keep: bloom.ForgottenRetention, limit: noteBatch, remove: c.Store.RemoveForgotten},
	}}
	if t := c.Transcripts; t != nil {
		r.kinds[1].before = t.Keep
	}
	return newLoop("retention", cmp.Or(c.Every, DefaultRetentionEvery), c.Logger, r.once)
}

func (r *retention) once(ctx context.Context) (res Result, err error) {
	var all bloom.Removed
	until := r.Clock.Now().Add(r.Busy)
	for _, k := range r.kinds {
		if k.keep > 0 && err == nil {
			err = r.walk(ctx, k, until, &all)
		}
	}
	if err == nil {
		err = r.deleteContents(ctx, until)
	}
	res.Changed, res.Detail = int(all.Total()), "removed what has grown old: "+all.String()
	if ctx.Err() != nil && res.Changed > 0 {
		err = nil // stopped in the middle, which is no failure: say what was done
	}
	return res, err
}

// walk removes one kind batch by batch, until there is no more or the time is up.
func (r *retention) walk(ctx context.Context, k *oldKind, until time.Time, all *bloom.Removed) error {
	for began := r.Clock.Now(); !began.After(until); began = r.Clock.Now() {
		batch := bloom.RemoveRequest{OlderThan: k.keep, After: k.after, Limit: k.limit, Kept: k.before != nil, Exported: r.ExportedOnly}
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
		if err := rest(ctx, restFactor*now.Sub(began)); err != nil {
			return err
		}
	}
	return nil
}

// deleteContents deletes from the blob store what no artifact names any more,
// also what an earlier run left. What cannot be deleted stays listed.
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
		// Also when the loop is being stopped: what is deleted need not be again.
		if err := r.Store.ForgetContent(context.WithoutCancel(ctx), deleted); err != nil {
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
		r.log.WarnContext(ctx, "content of removed artifacts could not be deleted and will be tried again", "error", last)
	}
	return nil
}

// rest lets others work for a while.
func rest(ctx context.Context, long time.Duration) error {
	timer := time.NewTimer(max(long, leastRest))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
