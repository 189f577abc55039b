package maintenance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Defaults of RunLogs.
const (
	DefaultRunLogsEvery = 10 * time.Second
	runLogsAtOnce       = 4
	runLogBatch         = 500 // tasks
	runLogPage          = 256 // events
	// runLogRest is the wait before a failed run log is retried.
	runLogRest = 10 * time.Minute
)

// RunLogsConfig is what RunLogs needs. Store, Blobs and Dir are required.
type RunLogsConfig struct {
	Store interface {
		Events(ctx context.Context, taskID string, after int64, limit int) ([]bloom.Event, error)
		DueRunLogs(ctx context.Context, after int64, limit int) (taskIDs []string, next int64, err error)
		UnarchivedStreams(ctx context.Context, r contract.RemoveRequest) (ids []string, next int64, more bool, err error)
		ArchivedTo(ctx context.Context, taskID string) (int64, error)
		AddRunLogs(ctx context.Context, r contract.AddRunLogs) error
	}
	Blobs blob.Blobs
	// Placed reports whether url is in the preferred storage; nil means that all are.
	Placed func(url string) bool
	// Dir is the folder for temporary files.
	Dir    string
	Clock  timing.Clock  // timing.System when nil
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultRunLogsEvery when 0
	// Written, if not nil, is called with the result for every task, for metrics.
	Written func(error)
}

// RunLogs stores the events of each attempt as an artifact: compressed JSON lines, in
// the format of GET …/events. Its methods are safe for concurrent use.
type RunLogs struct {
	c   RunLogsConfig
	log *slog.Logger

	writing singleflight.Group

	mu     sync.Mutex
	failed map[string]time.Time
}

// NewRunLogs makes RunLogs.
func NewRunLogs(c RunLogsConfig) *RunLogs {
	if c.Clock == nil {
		c.Clock = timing.System{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &RunLogs{c: c, log: c.Logger, failed: map[string]time.Time{}}
}

// Loop returns the loop that writes run logs of ended runs.
func (t *RunLogs) Loop() *Loop {
	return newLoop("transcripts", cmp.Or(t.c.Every, DefaultRunLogsEvery), t.c.Logger, func(ctx context.Context) (res Result, err error) {
		for after := int64(0); ; { // a failed task is skipped until the next run
			ids, next, err := t.c.Store.DueRunLogs(ctx, after, runLogBatch)
			if err != nil {
				return res, err
			}
			written, err := t.writeAll(ctx, ids)
			res.Changed += written
			res.Detail = fmt.Sprintf("wrote run logs of %d tasks", res.Changed)
			if err != nil || len(ids) < runLogBatch {
				return res, err
			}
			after = next
		}
	})
}

// Keep writes the run logs of the events that RemoveEvents would remove.
func (t *RunLogs) Keep(ctx context.Context, r contract.RemoveRequest) error {
	ids, _, _, err := t.c.Store.UnarchivedStreams(ctx, r)
	if err == nil {
		_, err = t.writeAll(ctx, ids)
	}
	if errors.Is(err, blob.ErrUnavailable) {
		t.log.WarnContext(ctx, "keeping events until their run logs can be stored", "error", err)
		return nil
	}
	return err
}

// writeAll writes run logs. A failure does not affect the others, unless the storage is
// unavailable.
func (t *RunLogs) writeAll(ctx context.Context, ids []string) (written int, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runLogsAtOnce)
	var mu sync.Mutex
	for _, id := range ids {
		if t.backingOff(id) {
			continue
		}
		group.Go(func() error {
			err := t.Write(ctx, id)
			if t.c.Written != nil && ctx.Err() == nil {
				t.c.Written(err)
			}
			switch {
			case err == nil:
				mu.Lock()
				defer mu.Unlock()
				written++
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, blob.ErrUnavailable):
				return err
			default:
				t.backOff(id)
				t.log.ErrorContext(ctx, "a run log could not be written; retrying later", "task_id", id, "error", err)
			}
			return nil
		})
	}
	err = group.Wait()
	return written, err
}

func (t *RunLogs) backingOff(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, failed := t.failed[id]
	if failed && t.c.Clock.Now().Sub(at) >= runLogRest {
		delete(t.failed, id)
		return false
	}
	return failed
}

func (t *RunLogs) backOff(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed[id] = t.c.Clock.Now()
}

// Write stores the events of an ended task that are not in an artifact yet. It uploads the
// artifacts, then records them. It ignores a task that was requeued or removed meanwhile. Concurrent
// calls for one task make one upload.
func (t *RunLogs) Write(ctx context.Context, taskID string) error {
	_, err, _ := t.writing.Do(taskID, func() (any, error) { return nil, t.write(ctx, taskID) })
	return err
}

func (t *RunLogs) write(ctx context.Context, taskID string) error {
	after, err := t.c.Store.ArchivedTo(ctx, taskID)
	if err != nil {
		return ignoreGone(err)
	}
	w := &runLogWriter{t: t, taskID: taskID}
	add, err := w.write(ctx, after)
	if err = errors.Join(err, w.close()); err != nil {
		w.undo(ctx)
		return err
	}
	err = t.c.Store.AddRunLogs(ctx, add)
	if err != nil && ignoreGone(err) == nil { // after other errors they may have been recorded
		w.undo(ctx)
	}
	return ignoreGone(err)
}

// ignoreGone returns nil for errors which mean that the task needs no run log any more.
func ignoreGone(err error) error {
	if k := bloom.KindOf(err); err != nil && (k == bloom.KindNotFound || k == bloom.KindConflict) {
		return nil
	}
	return err
}
