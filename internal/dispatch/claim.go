package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
)

// MaxClaimWait is the longest a claim may wait.
const MaxClaimWait = 60 * time.Second

// Claim is a worker's long poll. It renews what the worker holds, then waits
// for at most wait until there is new work, a lease it has lost, a run to
// cancel or the order to drain. It comes back with what it has when ctx ends or
// the service closes.
func (s *Service) Claim(ctx context.Context, r bloom.ClaimRequest, wait time.Duration) (bloom.ClaimResult, error) {
	r.WorkerID, r.InstanceID = bloom.CleanText(r.WorkerID), bloom.CleanText(r.InstanceID)
	var foreign []string
	r.Held, foreign = partition(r.Held)
	if wait <= 0 {
		r.Renew = true
		res, err := s.store.Claim(ctx, r)
		return filled(res, foreign), err
	}
	w := s.hub.join(r) // before the first look: what comes after it is not missed
	defer s.hub.leave(w)
	r.Renew = true
	wakes, _ := s.hub.take(w)
	first, err := s.store.Claim(ctx, r)
	first = filled(first, foreign)
	s.hub.unused(w, without(wakes, first.Leases))
	if err != nil || s.urgent(r, first) {
		return first, err
	}
	if first.Urgent() {
		wait = min(wait, repeatOrders)
	}
	if err := s.introduce(ctx, w, r.WorkerID); err != nil {
		return first, err
	}
	r.Renew = false
	return s.waitForClaim(ctx, r, w, first, wait)
}

// repeatOrders is how soon a worker that still runs what it was told to cancel,
// or drains, is told so again: its last answer may have been lost.
const repeatOrders = 5 * time.Second

// urgent reports whether an answer holds something its worker does not know.
func (s *Service) urgent(r bloom.ClaimRequest, res bloom.ClaimResult) bool {
	news := s.hub.tell(r, res)
	return news || len(res.Leases) > 0 || len(res.Lost) > 0
}

// introduce tells the hub what the worker can take.
func (s *Service) introduce(ctx context.Context, w *waiter, workerID string) error {
	worker, _, err := s.store.Worker(ctx, workerID)
	if err != nil {
		return err
	}
	s.hub.know(w, worker.Capabilities)
	return nil
}

func (s *Service) waitForClaim(ctx context.Context, r bloom.ClaimRequest, w *waiter, first bloom.ClaimResult, wait time.Duration) (bloom.ClaimResult, error) {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for {
		poll := time.NewTimer(jittered(s.poll))
		select {
		case <-w.signal:
		case <-poll.C:
		case <-deadline.C:
			poll.Stop()
			return first, nil
		case <-s.closing:
			poll.Stop()
			return first, nil
		case <-ctx.Done():
			poll.Stop()
			return first, nil
		}
		poll.Stop()
		wakes, ended := s.hub.take(w)
		if ended {
			s.hub.unused(w, wakes)
			return first, nil
		}
		res, err := s.store.Claim(ctx, r)
		s.hub.unused(w, without(wakes, res.Leases))
		switch {
		case errors.Is(err, context.Canceled):
			return first, nil
		case err != nil:
			return first, err
		case s.urgent(r, res):
			res = filled(res, nil)
			res.Renewed = first.Renewed
			return res, nil
		}
	}
}

// without is the wakes whose task is not among the leases.
func without(wakes []*wake, leases []bloom.LeasedTask) []*wake {
	return slices.DeleteFunc(wakes, func(k *wake) bool {
		return slices.ContainsFunc(leases, func(l bloom.LeasedTask) bool { return l.Task.ID == k.taskID })
	})
}

// partition tells lease ids that can be ours from those that cannot: the latter
// are lost by definition.
func partition(held []string) (ours, foreign []string) {
	for _, id := range held {
		if isID(id) {
			ours = append(ours, id)
		} else {
			foreign = append(foreign, bloom.CleanText(id))
		}
	}
	return ours, foreign
}

// filled is r with the foreign ids counted as lost and no list nil.
func filled(r bloom.ClaimResult, foreign []string) bloom.ClaimResult {
	r.Lost = append(slices.Clip(r.Lost), foreign...)
	r.Leases = orEmpty(r.Leases)
	r.Renewed = orEmpty(r.Renewed)
	r.Lost = orEmpty(r.Lost)
	r.Cancel = orEmpty(r.Cancel)
	return r
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Waiting is how many long polls wait.
func (s *Service) Waiting() int { return s.hub.idle() }
