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

// site is where a measurement happens: workers and tasks of its own with a label.
// It keeps the tasks from real workers. Real tasks it keeps from ours when they have
// labels; returnOthers sees to those that have none.
type site struct {
	api   *client.Client
	label string
	names []string

	mu      sync.Mutex
	waiting map[string]bool // tasks that were posted to be claimed and are not completed, by id
}

func newSite(api *client.Client) *site {
	return &site{api: api, label: "bench-" + uuid.NewString()[:8], waiting: map[string]bool{}}
}

// leaveWait bounds the tidying up, also after an interrupt.
const leaveWait = 10 * time.Second

func (s *site) hire(ctx context.Context, n int) error {
	for i := range n + 1 { // the last one claims
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

// leave forgets the workers and what was not done; their finished tasks stay, as
// they would.
func (s *site) leave() {
	ctx, done := context.WithTimeout(context.Background(), leaveWait)
	defer done()
	s.callOff(ctx)
	for _, name := range s.names {
		_ = s.api.RemoveWorker(ctx, name) // what stays behind goes offline by itself
	}
}

// context is a new one: a task of a known context waits a moment for the worker
// that had it. It begins with the time, so that indexes grow at their end.
func (s *site) context() string { return s.label + "-" + uuid.Must(uuid.NewV7()).String() }

// callOff cancels the tasks that were not completed.
func (s *site) callOff(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.waiting {
		_, _ = s.api.Cancel(ctx, id) // what stays behind waits for a label that nobody carries
	}
}

// submit posts a task that a worker with the label is to claim.
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

// lifecycle is create, lease, heartbeat, complete: what the described system's
// own figures count.
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
	return got.Leases, cmp.Or(err, s.returnOthers(ctx, got.Leases))
}

// returnOthers releases what is not ours, for a task without labels is any
// worker's, and says so: whoever waits for it must not be told that it was done.
func (s *site) returnOthers(ctx context.Context, leases []bloom.LeasedTask) (found error) {
	for _, l := range leases {
		if strings.HasPrefix(l.Task.ContextID, s.label+"-") {
			continue
		}
		found = fmt.Errorf("task %s of somebody else waits for any worker, and was released: measure with a server of its own", l.Task.ID)
		if _, err := s.api.Release(ctx, l.Task.ID, bloom.ReleaseSpec{LeaseID: l.Lease.ID, Reason: "claimed by a measurement"}); err != nil {
			return fmt.Errorf("task %s of somebody else was claimed and could not be released, its lease will expire: %w", l.Task.ID, err)
		}
	}
	return found
}

// startLatency measures from the moment before a task is posted until a worker
// that waited for it has it in hand.
func (s *site) startLatency(ctx context.Context, samples int, steps *steps) error {
	type handed struct {
		leases []bloom.LeasedTask
		at     time.Time
		err    error
	}
	for range samples {
		result := make(chan handed, 1)
		go func() {
			leases, err := s.claim(ctx, 1, 30*time.Second)
			result <- handed{leases, time.Now(), err}
		}()
		// The poll has to be waiting; when it is cannot be seen from outside.
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
			return errors.New("the claim came back without the task")
		}
		steps.add("create to start", got.at.Sub(began))
		if err := s.complete(ctx, got.leases[0].Lease); err != nil {
			return err
		}
	}
	return nil
}

// claims measures claims of one task with the others waiting behind it.
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

// hundred is the page of the lists that are measured.
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
