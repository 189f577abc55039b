package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/sync/errgroup"
)

// The kinds of work, and the names that their workflows are registered under.
const (
	empty       = "an empty workflow"
	oneActivity = "a workflow of one activity"
)

// prompt is what the Go benchmarks of our stores use.
const prompt = "Write a line about the weather in a town by the sea."

// started is called when the work of a piece starts. It is no workflow code: a workflow
// that is replayed would call it again, which idle and throughput allow for by taking
// the first.
type started func(workflowID string)

// work runs a worker for one kind of work until the returned function is called.
func (s *server) work(kind string, began started) (queue string, stop func(), err error) {
	queue = fmt.Sprintf("queue-%d", rand.Int64())
	w := worker.New(s.client, queue, worker.Options{
		MaxConcurrentWorkflowTaskPollers: s.pollers, MaxConcurrentActivityTaskPollers: s.pollers,
	})
	switch kind {
	case empty:
		w.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ string) error {
			began(workflow.GetInfo(ctx).WorkflowExecution.ID)
			return nil
		}, workflow.RegisterOptions{Name: kind})
	case oneActivity:
		w.RegisterWorkflowWithOptions(func(ctx workflow.Context, prompt string) (string, error) {
			ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
			var result string
			err := workflow.ExecuteActivity(ctx, "act", prompt).Get(ctx, &result)
			return result, err
		}, workflow.RegisterOptions{Name: kind})
		w.RegisterActivityWithOptions(func(ctx context.Context, _ string) (string, error) {
			began(activity.GetInfo(ctx).WorkflowExecution.ID)
			return "sunny", nil
		}, activity.RegisterOptions{Name: "act"})
	}
	if err := w.Start(); err != nil {
		return "", nil, err
	}
	return queue, w.Stop, nil
}

// throughput counts from the first creation until all of it is completed. Twice as many
// goroutines as clients create one piece and wait for its end before the next, so that
// as many are unfinished as our own measurement allows.
func (s *server) throughput(ctx context.Context, kind string) (rate, latencies, error) {
	var created, starts sync.Map
	queue, stop, err := s.work(kind, func(id string) { starts.LoadOrStore(id, time.Now()) })
	if err != nil {
		return rate{}, latencies{}, err
	}
	defer stop()
	var completed atomic.Int64
	began := time.Now()
	end := began.Add(s.duration)
	clients, ctx := errgroup.WithContext(ctx)
	for range s.clients * 2 {
		clients.Go(func() error {
			for time.Now().Before(end) {
				at := time.Now()
				run, err := s.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: queue}, kind, prompt)
				if err != nil {
					return err
				}
				created.Store(run.GetID(), at)
				if err := run.Get(ctx, nil); err != nil {
					return err
				}
				completed.Add(1)
			}
			return nil
		})
	}
	if err := clients.Wait(); err != nil {
		return rate{}, latencies{}, err
	}
	took := time.Since(began)
	var waits []time.Duration
	starts.Range(func(id, at any) bool {
		if c, ok := created.Load(id); ok {
			waits = append(waits, at.(time.Time).Sub(c.(time.Time)))
		}
		return true
	})
	return rate{completed.Load(), took}, newLatencies(waits), nil
}

// idle measures from the call that creates a piece until its work starts, while
// nothing else is to be done.
func (s *server) idle(ctx context.Context, kind string) (latencies, error) {
	begins := make(chan time.Time, 16)
	queue, stop, err := s.work(kind, func(string) { begins <- time.Now() })
	if err != nil {
		return latencies{}, err
	}
	defer stop()
	var waits []time.Duration
	for range s.samples {
		at := time.Now()
		run, err := s.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: queue}, kind, prompt)
		if err != nil {
			return latencies{}, err
		}
		select {
		case start := <-begins:
			waits = append(waits, start.Sub(at))
		case <-time.After(time.Minute):
			return latencies{}, errors.New("work did not start within a minute")
		case <-ctx.Done():
			return latencies{}, ctx.Err()
		}
		if err := run.Get(ctx, nil); err != nil {
			return latencies{}, err
		}
		for len(begins) > 0 { // a workflow's second call
			<-begins
		}
	}
	return newLatencies(waits), nil
}

// rate is a number of pieces in a time.
type rate struct {
	completed int64
	took      time.Duration
}

func (r rate) String() string {
	return fmt.Sprintf("%.0f/s (%d in %.1f s)", float64(r.completed)/r.took.Seconds(), r.completed, r.took.Seconds())
}

// latencies are those of single pieces.
type latencies struct {
	samples       int
	p50, p99, max time.Duration
}

func newLatencies(took []time.Duration) latencies {
	if len(took) == 0 {
		return latencies{}
	}
	slices.Sort(took)
	at := func(percent int) time.Duration { return took[(len(took)-1)*percent/100] }
	return latencies{len(took), at(50), at(99), at(100)}
}

func (l latencies) String() string {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, max %.1f ms (%d)", ms(l.p50), ms(l.p99), ms(l.max), l.samples)
}
