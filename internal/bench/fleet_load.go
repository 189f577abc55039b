package bench

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bloom-runtime/bloom/internal/retry"
)

// load creates the tasks and waits until they are completed.
func (r *fleetRun) load(ctx context.Context, report *FleetReport) error {
	if err := r.createIdle(ctx); err != nil {
		return err
	}
	r.step.Store(&startsLoaded)
	idle := r.steps.count("complete")
	began := time.Now()
	if err := r.createUntil(ctx, began.Add(r.Duration)); err != nil {
		return err
	}
	late := time.After(drainWait)
	for range cap(r.backlog) { // the backlog can be filled again once all tasks are completed
		select {
		case r.backlog <- struct{}{}:
		case <-late:
			return errors.New("the workers did not complete all tasks in time")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	report.Seconds = time.Since(began).Seconds()
	report.Completed = r.steps.count("complete") - idle
	report.Failures = int(r.failures.Load())
	report.PerSecond = float64(report.Completed) / report.Seconds
	report.Steps = r.steps.Latencies()
	return nil
}

// createIdle creates tasks one by one while all workers wait.
func (r *fleetRun) createIdle(ctx context.Context) error {
	w, err := Dial(ctx, r.site.API.BaseURL(), r.APIKey)
	if err != nil {
		return err
	}
	defer w.Close()
	for range r.Samples {
		// Give the workers time to wait again: nothing shows from outside when they do.
		if err := retry.Sleep(ctx, 15*time.Millisecond); err != nil {
			return err
		}
		task, err := r.createOne(ctx, w)
		if err != nil {
			return err
		}
		select {
		case <-task.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// createUntil lets all creators create tasks until the given time.
func (r *fleetRun) createUntil(ctx context.Context, until time.Time) error {
	group, ctx := errgroup.WithContext(ctx)
	for range r.Creators {
		group.Go(func() error {
			w, err := Dial(ctx, r.site.API.BaseURL(), r.APIKey)
			if err != nil {
				return err
			}
			defer w.Close()
			for time.Now().Before(until) {
				if _, err := r.createOne(ctx, w); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// createOne creates a task as soon as the backlog allows.
func (r *fleetRun) createOne(ctx context.Context, w *Wire) (*pendingTask, error) {
	select {
	case r.backlog <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	name := r.site.ContextID()
	task := &pendingTask{created: time.Now(), done: make(chan struct{})}
	r.mu.Lock()
	r.tasks[name] = task
	r.mu.Unlock()
	id, err := w.Create(name, r.site.Label)
	if err != nil {
		return nil, err
	}
	r.steps.since("create", task.created)
	r.mu.Lock()
	task.id = id
	r.mu.Unlock()
	return task, nil
}

// drainWait bounds the completion of the remaining tasks after the last one is created.
const drainWait = 30 * time.Second
