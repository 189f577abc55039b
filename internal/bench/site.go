package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// Site holds the workers and tasks of a measurement. Their label keeps the tasks from
// real workers, and labelled real tasks from the measurement's workers. ReleaseOthers
// releases real tasks without labels.
type Site struct {
	API   *client.Client
	Label string
	Names []string // of the workers

	mu      sync.Mutex
	waiting map[string]bool // unfinished tasks that are to be claimed, by ID
}

// NewSite returns one without workers.
func NewSite(api *client.Client) *Site {
	return &Site{API: api, Label: "bench-" + uuid.NewString()[:8], waiting: map[string]bool{}}
}

// atOnce bounds the requests that register or remove workers.
const atOnce = 16

// Register registers a worker for each label, with the given number of slots.
func (s *Site) Register(ctx context.Context, labels []string, slots int) error {
	s.Names = make([]string, len(labels))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, label := range labels {
		s.Names[i] = fmt.Sprintf("%s-%d", s.Label, i)
		group.Go(func() error {
			_, err := s.API.RegisterWorker(ctx, bloom.WorkerSpec{Name: s.Names[i], Status: bloom.WorkerOnline, InstallMethod: "bloom bench",
				InstanceID: s.Label, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: slots, Labels: []string{label}}})
			return err
		})
	}
	return group.Wait()
}

// cleanUpTimeout bounds the clean-up, also after an interrupt.
const cleanUpTimeout = time.Minute

// CleanUp cancels unfinished tasks and removes the workers. Completed tasks remain.
func (s *Site) CleanUp() {
	ctx, done := context.WithTimeout(context.Background(), cleanUpTimeout)
	defer done()
	s.mu.Lock()
	for id := range s.waiting {
		_, _ = s.API.Cancel(ctx, id) // a task that remains stays queued: no worker has its label
	}
	s.mu.Unlock()
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, name := range s.Names {
		group.Go(func() error {
			_ = s.API.RemoveWorker(ctx, name) // a worker that remains goes offline after a while
			return nil
		})
	}
	_ = group.Wait()
}

// ContextID returns a new context ID: a task of a known context first waits for its former
// worker. The ID is ordered by time, so that indexes grow at their end.
func (s *Site) ContextID() string { return s.Label + "-" + uuid.Must(uuid.NewV7()).String() }

// Submit creates a task for workers with the label.
func (s *Site) Submit(ctx context.Context, label string) error {
	task, err := s.API.Submit(ctx, bloom.TaskSpec{ContextID: s.ContextID(), AgentSlug: "bench", Prompt: "Measure.", Labels: []string{label}})
	if err == nil {
		s.mu.Lock()
		s.waiting[task.ID] = true
		s.mu.Unlock()
	}
	return err
}

// lifecycle creates, leases, renews and completes a task.
func (s *Site) lifecycle(wire *Wire, worker int, steps *Steps) error {
	began := time.Now()
	task, err := wire.Create(s.ContextID(), s.Label)
	if err != nil {
		return err
	}
	at := steps.since("create", began)
	lease, err := wire.lease(task, s.Names[worker])
	if err != nil {
		return err
	}
	at = steps.since("lease", at)
	if err := wire.heartbeat(task, lease); err != nil {
		return err
	}
	at = steps.since("heartbeat", at)
	if err := wire.Complete(task, lease); err != nil {
		return err
	}
	steps.since("complete", at)
	steps.since("lifecycle", began)
	return nil
}

// Complete completes a claimed task.
func (s *Site) Complete(ctx context.Context, lease bloom.Lease) error {
	output := "done"
	_, err := s.API.Complete(ctx, lease.TaskID, bloom.Completion{LeaseID: lease.ID, Status: bloom.OutcomeSuccess, Output: &output})
	if err == nil {
		s.mu.Lock()
		delete(s.waiting, lease.TaskID)
		s.mu.Unlock()
	}
	return err
}

// claimLabel is the label of the worker that claims, which is the last one.
func (s *Site) claimLabel() string { return s.Label + "-claim" }

func (s *Site) claimer() string { return s.Names[len(s.Names)-1] }

func (s *Site) claim(ctx context.Context, limit int, wait time.Duration) ([]bloom.LeasedTask, error) {
	got, err := s.API.Claim(ctx, s.claimer(), client.Claim{InstanceID: s.Label, Max: limit, Wait: wait})
	return got.Leases, cmp.Or(err, s.ReleaseOthers(ctx, got.Leases))
}

// ReleaseOthers releases tasks that the benchmark did not create, and returns an error:
// any worker may claim a task without labels, and the benchmark must not complete it.
func (s *Site) ReleaseOthers(ctx context.Context, leases []bloom.LeasedTask) (found error) {
	for _, l := range leases {
		if strings.HasPrefix(l.Task.ContextID, s.Label+"-") {
			continue
		}
		found = fmt.Errorf("claimed and released task %s, which the benchmark did not create: use a server without other tasks", l.Task.ID)
		if _, err := s.API.Release(ctx, l.Task.ID, bloom.ReleaseSpec{LeaseID: l.Lease.ID, Reason: "claimed by a measurement"}); err != nil {
			return fmt.Errorf("claimed task %s, which the benchmark did not create, and could not release it; its lease will expire: %w", l.Task.ID, err)
		}
	}
	return found
}

// startLatency measures the time from creating a task until a waiting worker has it.
func (s *Site) startLatency(ctx context.Context, samples int, steps *Steps) error {
	type claimed struct {
		leases []bloom.LeasedTask
		at     time.Time
		err    error
	}
	for range samples {
		result := make(chan claimed, 1)
		go func() {
			leases, err := s.claim(ctx, 1, 30*time.Second)
			result <- claimed{leases, time.Now(), err}
		}()
		// Give the poll time to wait: nothing shows from outside when it does.
		select {
		case <-time.After(15 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		began := time.Now()
		if err := s.Submit(ctx, s.claimLabel()); err != nil {
			return err
		}
		got := <-result
		if got.err != nil {
			return got.err
		}
		if len(got.leases) != 1 {
			return errors.New("the claim did not return the task")
		}
		steps.Add("create to start", got.at.Sub(began))
		if err := s.Complete(ctx, got.leases[0].Lease); err != nil {
			return err
		}
	}
	return nil
}

// claims measures claims of one task while others are queued behind it.
func (s *Site) claims(ctx context.Context, samples int, steps *Steps) error {
	for range samples {
		if err := s.Submit(ctx, s.claimLabel()); err != nil {
			return err
		}
	}
	for range samples {
		began := time.Now()
		leases, err := s.claim(ctx, 1, 5*time.Second)
		if err != nil {
			return err
		}
		steps.since("claim one of many", began)
		for _, l := range leases {
			if err := s.Complete(ctx, l.Lease); err != nil {
				return err
			}
		}
	}
	return nil
}

// hundred is the first page of the measured lists.
var hundred = bloom.Page{Limit: 100}

func (s *Site) reads(ctx context.Context, steps *Steps) error {
	began := time.Now()
	_, next, err := s.API.Tasks(ctx, bloom.TaskQuery{Page: hundred})
	if err != nil {
		return err
	}
	at := steps.since("list 100", began)
	if _, _, err := s.API.Tasks(ctx, bloom.TaskQuery{Status: bloom.TaskCompleted, Page: hundred}); err != nil {
		return err
	}
	steps.since("list 100 by status", at)
	for page := 2; page < 10 && next != (bloom.Cursor{}); page++ {
		if _, next, err = s.API.Tasks(ctx, bloom.TaskQuery{Page: bloom.Page{Limit: hundred.Limit, Cursor: next}}); err != nil {
			return err
		}
	}
	at = time.Now()
	if _, _, err := s.API.Tasks(ctx, bloom.TaskQuery{Page: bloom.Page{Limit: hundred.Limit, Cursor: next}}); err != nil {
		return err
	}
	at = steps.since("list 100, page 10", at)
	_, err = s.API.Stats(ctx)
	steps.since("stats", at)
	return err
}
