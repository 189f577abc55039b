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

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// site holds the workers and tasks of a measurement. Their label keeps the tasks from
// real workers, and labelled real tasks from the measurement's workers. releaseOthers
// releases real tasks without labels.
type site struct {
	api   *client.Client
	label string
	names []string

	mu      sync.Mutex
	waiting map[string]bool // unfinished tasks that are to be claimed, by ID
}

func newSite(api *client.Client) *site {
	return &site{api: api, label: "bench-" + uuid.NewString()[:8], waiting: map[string]bool{}}
}

// cleanUpTimeout bounds the clean-up, also after an interrupt.
const cleanUpTimeout = 10 * time.Second

// registerWorkers registers n workers for lifecycles and one that claims.
func (s *site) registerWorkers(ctx context.Context, n int) error {
	for i := range n + 1 {
		name := fmt.Sprintf("%s-%d", s.label, i)
		label := s.label
		if i == n {
			label += "-claim"
		}
		_, err := s.api.RegisterWorker(ctx, bloom.WorkerSpec{Name: name, Status: bloom.WorkerOnline, InstallMethod: "bloom bench",
			Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: bloom.MaxConcurrency, Labels: []string{label}}})
		if err != nil {
			return err
		}
		s.names = append(s.names, name)
	}
	return nil
}

// cleanUp cancels unfinished tasks and removes the workers. Completed tasks remain.
func (s *site) cleanUp() {
	ctx, done := context.WithTimeout(context.Background(), cleanUpTimeout)
	defer done()
	s.cancelWaiting(ctx)
	for _, name := range s.names {
		_ = s.api.RemoveWorker(ctx, name) // a worker that remains goes offline after a while
	}
}

// context returns a new context ID: a task of a known context first waits for its former
// worker. The ID is ordered by time, so that indexes grow at their end.
func (s *site) context() string { return s.label + "-" + uuid.Must(uuid.NewV7()).String() }

// cancelWaiting cancels the tasks that were not completed.
func (s *site) cancelWaiting(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.waiting {
		_, _ = s.api.Cancel(ctx, id) // a task that remains stays queued: no worker has its label
	}
}

// submit creates a task for workers with the label.
func (s *site) submit(ctx context.Context, label string) error {
	task, err := s.api.Submit(ctx, s.spec(label))
	if err == nil {
		s.mu.Lock()
		s.waiting[task.ID] = true
		s.mu.Unlock()
	}
	return err
}

func (s *site) spec(label string) bloom.TaskSpec {
	return bloom.TaskSpec{ContextID: s.context(), AgentSlug: "bench", Prompt: "Measure.", Labels: []string{label}}
}

// lifecycle creates, leases, renews and completes a task.
func (s *site) lifecycle(wire *wire, worker int, steps *steps) error {
	began := time.Now()
	task, err := wire.create(s.context(), s.label)
	if err != nil {
		return err
	}
	at := steps.since("create", began)
	lease, err := wire.lease(task, s.names[worker])
	if err != nil {
		return err
	}
	at = steps.since("lease", at)
	if err := wire.heartbeat(task, lease); err != nil {
		return err
	}
	at = steps.since("heartbeat", at)
	if err := wire.complete(task, lease); err != nil {
		return err
	}
	steps.since("complete", at)
	steps.since("lifecycle", began)
	return nil
}

func (s *site) complete(ctx context.Context, lease bloom.Lease) error {
	output := "done"
	_, err := s.api.Complete(ctx, lease.TaskID, bloom.Completion{LeaseID: lease.ID, Status: bloom.OutcomeSuccess, Output: &output})
	if err == nil {
		s.mu.Lock()
		delete(s.waiting, lease.TaskID)
		s.mu.Unlock()
	}
	return err
}

func (s *site) claimer() string { return s.names[len(s.names)-1] }

func (s *site) claim(ctx context.Context, limit int, wait time.Duration) ([]bloom.LeasedTask, error) {
	got, err := s.api.Claim(ctx, s.claimer(), client.Claim{InstanceID: s.label, Max: limit, Wait: wait})
	return got.Leases, cmp.Or(err, s.releaseOthers(ctx, got.Leases))
}

// releaseOthers releases tasks that the benchmark did not create, and returns an error:
// any worker may claim a task without labels, and the benchmark must not complete it.
func (s *site) releaseOthers(ctx context.Context, leases []bloom.LeasedTask) (found error) {
	for _, l := range leases {
		if strings.HasPrefix(l.Task.ContextID, s.label+"-") {
			continue
		}
		found = fmt.Errorf("claimed and released task %s, which the benchmark did not create: use a server without other tasks", l.Task.ID)
		if _, err := s.api.Release(ctx, l.Task.ID, bloom.ReleaseSpec{LeaseID: l.Lease.ID, Reason: "claimed by a measurement"}); err != nil {
			return fmt.Errorf("claimed task %s, which the benchmark did not create, and could not release it; its lease will expire: %w", l.Task.ID, err)
		}
	}
	return found
}

// startLatency measures the time from creating a task until a waiting worker has it.
func (s *site) startLatency(ctx context.Context, samples int, steps *steps) error {
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
		if err := s.submit(ctx, s.label+"-claim"); err != nil {
			return err
		}
		got := <-result
		if got.err != nil {
			return got.err
		}
		if len(got.leases) != 1 {
			return errors.New("the claim did not return the task")
		}
		steps.add("create to start", got.at.Sub(began))
		if err := s.complete(ctx, got.leases[0].Lease); err != nil {
			return err
		}
	}
	return nil
}

// claims measures claims of one task while others are queued behind it.
func (s *site) claims(ctx context.Context, samples int, steps *steps) error {
	for range samples {
		if err := s.submit(ctx, s.label+"-claim"); err != nil {
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
			if err := s.complete(ctx, l.Lease); err != nil {
				return err
			}
		}
	}
	return nil
}

// hundred is the first page of the measured lists.
var hundred = bloom.Page{Limit: 100}

func (s *site) reads(ctx context.Context, steps *steps) error {
	began := time.Now()
	_, next, err := s.api.Tasks(ctx, bloom.TaskQuery{Page: hundred})
	if err != nil {
		return err
	}
	at := steps.since("list 100", began)
	if _, _, err := s.api.Tasks(ctx, bloom.TaskQuery{Status: bloom.TaskCompleted, Page: hundred}); err != nil {
		return err
	}
	steps.since("list 100 by status", at)
	for page := 2; page < 10 && next != (bloom.Cursor{}); page++ {
		if _, next, err = s.api.Tasks(ctx, bloom.TaskQuery{Page: bloom.Page{Limit: hundred.Limit, Cursor: next}}); err != nil {
			return err
		}
	}
	at = time.Now()
	if _, _, err := s.api.Tasks(ctx, bloom.TaskQuery{Page: bloom.Page{Limit: hundred.Limit, Cursor: next}}); err != nil {
		return err
	}
	at = steps.since("list 100, page 10", at)
	_, err = s.api.Stats(ctx)
	steps.since("stats", at)
	return err
}
