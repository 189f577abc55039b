package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// benchSite is where a measurement happens: workers of its own, told apart from
// everything else on the server by a label.
type benchSite struct {
	api   *client.Client
	label string
	names []string
}

// leaveWait bounds the tidying up, also after an interrupt.
const leaveWait = 10 * time.Second

func (s *benchSite) hire(ctx context.Context, n int) error {
	for i := range n + 1 { // the last one claims
		name := fmt.Sprintf("%s-%d", s.label, i)
		label := s.label
		if i == n {
			label += "-claim"
		}
		_, _, err := s.api.RegisterWorker(ctx, bloom.WorkerSpec{Name: name, Status: bloom.WorkerOnline, InstallMethod: "bloom bench",
			Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: bloom.MaxConcurrency, Labels: []string{label}}})
		if err != nil {
			return err
		}
		s.names = append(s.names, name)
	}
	return nil
}

// leave forgets the workers; their finished tasks stay, as they would.
func (s *benchSite) leave() {
	ctx, done := context.WithTimeout(context.Background(), leaveWait)
	defer done()
	for _, name := range s.names {
		_ = s.api.RemoveWorker(ctx, name) // what stays behind goes offline by itself
	}
}

// context is a new one: a task of a known context waits a moment for the worker
// that had it. It begins with the time, so that indexes grow at their end.
func (s *benchSite) context() string { return s.label + "-" + uuid.Must(uuid.NewV7()).String() }

func (s *benchSite) spec(label string) bloom.TaskSpec {
	return bloom.TaskSpec{ContextID: s.context(), AgentSlug: "bench", Prompt: "Measure.", Labels: []string{label}}
}

// lifecycle is create, lease, heartbeat, complete: what the described system's
// own figures count.
func (s *benchSite) lifecycle(wire *benchWire, worker int, steps *benchSteps) error {
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

func (s *benchSite) complete(ctx context.Context, lease bloom.Lease) error {
	output := "done"
	_, err := s.api.Complete(ctx, lease.TaskID, bloom.Completion{LeaseID: lease.ID, Status: bloom.OutcomeSuccess, Output: &output})
	return err
}

func (s *benchSite) claimer() string { return s.names[len(s.names)-1] }

func (s *benchSite) claim(ctx context.Context, limit int, wait time.Duration) ([]bloom.LeasedTask, error) {
	got, err := s.api.Claim(ctx, s.claimer(), client.Claim{InstanceID: s.label, Max: limit, Wait: wait})
	return got.Leases, err
}

// startLatency measures from the moment before a task is posted until a worker
// that waited for it has it in hand.
func (s *benchSite) startLatency(ctx context.Context, samples int, steps *benchSteps) error {
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
		if _, err := s.api.Submit(ctx, s.spec(s.label+"-claim")); err != nil {
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
func (s *benchSite) claims(ctx context.Context, samples int, steps *benchSteps) error {
	for range samples {
		if _, err := s.api.Submit(ctx, s.spec(s.label+"-claim")); err != nil {
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

func (s *benchSite) reads(ctx context.Context, steps *benchSteps) error {
	began := time.Now()
	_, next, err := s.api.Tasks(ctx, bloom.TaskQuery{})
	if err != nil {
		return err
	}
	at := steps.since("list 100", began)
	if _, _, err := s.api.Tasks(ctx, bloom.TaskQuery{Status: bloom.TaskCompleted}); err != nil {
		return err
	}
	steps.since("list 100 by status", at)
	for page := 2; page < 10 && next != (bloom.Cursor{}); page++ {
		if _, next, err = s.api.Tasks(ctx, bloom.TaskQuery{Page: bloom.Page{Cursor: next}}); err != nil {
			return err
		}
	}
	at = time.Now()
	if _, _, err := s.api.Tasks(ctx, bloom.TaskQuery{Page: bloom.Page{Cursor: next}}); err != nil {
		return err
	}
	at = steps.since("list 100, page 10", at)
	_, err = s.api.Stats(ctx)
	steps.since("stats", at)
	return err
}
