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
// cancel, or the worker is drained. It comes back with what it has when ctx ends or
// the service closes.
func (s *Service) Claim(ctx context.Context, r bloom.ClaimRequest, wait time.Duration) (bloom.ClaimResult, error) {
	p := s.newPoll(r, wait)
	if wait <= 0 {
		err := p.renew(ctx)
		return p.answer, err
	}
	p.waiter = s.hub.join(p.request) // before the first look: what comes after it is not missed
	defer s.hub.leave(p.waiter)
	err := p.begin(ctx)
	if err == nil && !p.over {
		err = p.run(ctx)
	}
	return p.answer, err
}

// poll is one claim. It is passed on by its address, since its frames are what a
// thousand that wait hold on to: requests and answers are 200 bytes in each.
type poll struct {
	svc     *Service
	request bloom.ClaimRequest
	foreign []string // of what the worker holds, what cannot be ours
	wait    time.Duration
	waiter  *waiter
	answer  bloom.ClaimResult
	over    bool // the answer is one to come back with now
}

func (s *Service) newPoll(r bloom.ClaimRequest, wait time.Duration) *poll {
	p := &poll{svc: s, request: r, wait: wait}
	p.request.WorkerID, p.request.InstanceID = bloom.CleanText(r.WorkerID), bloom.CleanText(r.InstanceID)
	p.request.Held, p.foreign = partition(r.Held)
	return p
}

// renew is the first look of a poll, which renews what the worker holds.
func (p *poll) renew(ctx context.Context) error {
	p.request.Renew = true
	res, err := p.svc.store.Claim(ctx, p.request)
	p.request.Renew = false
	p.answer = filled(res, p.foreign)
	return err
}

// begin looks for the first time and gets the poll ready to wait.
func (p *poll) begin(ctx context.Context) error {
	hub := p.svc.hub
	wakes, _ := hub.take(p.waiter)
	err := p.renew(ctx)
	hub.unused(p.waiter, without(wakes, p.answer.Leases))
	if err != nil {
		return err
	}
	if p.over = p.svc.urgent(p.request, p.answer); p.over {
		return nil
	}
	if p.answer.Urgent() {
		p.wait = min(p.wait, repeatOrders)
	}
	hub.know(p.waiter, p.answer.Labels)
	return nil
}

// run waits and looks until there is something to come back with.
func (p *poll) run(ctx context.Context) error {
	deadline := time.NewTimer(p.wait)
	defer deadline.Stop()
	regular := time.NewTimer(jittered(p.svc.poll))
	defer regular.Stop()
	for {
		select {
		case <-p.waiter.signal:
		case <-regular.C:
		case <-deadline.C:
			return nil
		case <-p.svc.closing:
			return nil
		case <-ctx.Done():
			return nil
		}
		if err := p.look(ctx); err != nil || p.over {
			return err
		}
		regular.Reset(jittered(p.svc.poll))
	}
}

// look looks again. What it finds becomes the answer if it is news.
func (p *poll) look(ctx context.Context) error {
	hub := p.svc.hub
	wakes, ended := hub.take(p.waiter)
	if ended {
		hub.unused(p.waiter, wakes)
		p.over = true
		return nil
	}
	res, err := p.svc.store.Claim(ctx, p.request)
	hub.unused(p.waiter, without(wakes, res.Leases))
	switch {
	case errors.Is(err, context.Canceled):
		p.over = true
		return nil
	case err != nil:
		return err
	}
	hub.know(p.waiter, res.Labels)
	if p.over = p.svc.urgent(p.request, res); p.over {
		renewed := p.answer.Renewed
		p.answer = filled(res, nil)
		p.answer.Renewed = renewed
	}
	return nil
}

// repeatOrders is how soon a worker that still runs what it was ordered to cancel,
// or drains, is ordered so again: its last answer may have been lost.
const repeatOrders = 5 * time.Second

// urgent reports whether an answer holds something its worker does not know.
func (s *Service) urgent(r bloom.ClaimRequest, res bloom.ClaimResult) bool {
	news := s.hub.tell(r, res)
	return news || len(res.Leases) > 0 || len(res.Lost) > 0
}

// without is the wakes whose task is not among the leases.
func without(wakes []*wake, leases []bloom.LeasedTask) []*wake {
	return slices.DeleteFunc(wakes, func(k *wake) bool {
		return slices.ContainsFunc(leases, func(l bloom.LeasedTask) bool { return l.Task.ID == k.taskID })
	})
}

// partition separates lease ids that can be ours from those that cannot: the latter
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
