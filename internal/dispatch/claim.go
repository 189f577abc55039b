package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
)

// MaxClaimWait is the longest time that a claim may wait.
const MaxClaimWait = 60 * time.Second

// Claim is a worker's long poll. It renews the worker's leases, then waits up to wait
// for new work, a lost lease, a task to cancel, or a drain. If ctx ends or the
// service closes, it returns what it has.
func (s *Service) Claim(ctx context.Context, r bloom.ClaimRequest, wait time.Duration) (bloom.ClaimResult, error) {
	p := s.newPoll(r, wait)
	if wait <= 0 {
		err := p.renew(ctx)
		return p.answer, err
	}
	p.waiter = s.hub.join(p.request) // before the first claim, so that no later change is missed
	defer s.hub.leave(p.waiter)
	err := p.begin(ctx)
	if err == nil && !p.done {
		err = p.run(ctx)
	}
	return p.answer, err
}

// poll is one claim. Methods take a pointer to it, because with a thousand waiting
// polls the size of their stack frames counts.
type poll struct {
	svc     *Service
	request bloom.ClaimRequest
	foreign []string // named leases whose ids are invalid
	wait    time.Duration
	waiter  *waiter
	answer  bloom.ClaimResult
	done    bool // answer is to be returned now
}

func (s *Service) newPoll(r bloom.ClaimRequest, wait time.Duration) *poll {
	p := &poll{svc: s, request: r, wait: wait}
	p.request.WorkerID, p.request.InstanceID = bloom.CleanText(r.WorkerID), bloom.CleanText(r.InstanceID)
	p.request.Held, p.foreign = partition(r.Held)
	return p
}

// renew runs the first claim, which renews the worker's leases.
func (p *poll) renew(ctx context.Context) error {
	p.request.Renew = true
	res, err := p.svc.store.Claim(ctx, p.request)
	p.request.Renew = false
	p.answer = filled(res, p.foreign)
	return err
}

// begin runs the first claim and prepares the poll to wait.
func (p *poll) begin(ctx context.Context) error {
	hub := p.svc.hub
	wakes, _ := hub.take(p.waiter)
	err := p.renew(ctx)
	hub.unused(p.waiter, without(wakes, p.answer.Leases))
	if err != nil {
		return err
	}
	if p.done = p.svc.urgent(p.request, p.answer); p.done {
		return nil
	}
	if p.answer.Urgent() {
		p.wait = min(p.wait, repeatOrders)
	}
	hub.know(p.waiter, p.answer.Labels)
	return nil
}

// run waits and claims until there is something to return.
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
		if err := p.claim(ctx); err != nil || p.done {
			return err
		}
		regular.Reset(jittered(p.svc.poll))
	}
}

// claim claims again. The result becomes the answer if it contains anything new.
func (p *poll) claim(ctx context.Context) error {
	hub := p.svc.hub
	wakes, ended := hub.take(p.waiter)
	if ended {
		hub.unused(p.waiter, wakes)
		p.done = true
		return nil
	}
	res, err := p.svc.store.Claim(ctx, p.request)
	hub.unused(p.waiter, without(wakes, res.Leases))
	switch {
	case errors.Is(err, context.Canceled):
		p.done = true
		return nil
	case err != nil:
		return err
	}
	hub.know(p.waiter, res.Labels)
	if p.done = p.svc.urgent(p.request, res); p.done {
		renewed := p.answer.Renewed
		p.answer = filled(res, nil)
		p.answer.Renewed = renewed
	}
	return nil
}

// repeatOrders is how soon an answer repeats a cancellation or a drain: the previous
// answer may have been lost.
const repeatOrders = 5 * time.Second

// urgent reports whether the answer contains something that its worker does not know.
func (s *Service) urgent(r bloom.ClaimRequest, res bloom.ClaimResult) bool {
	isNew := s.hub.noteOrders(r, res)
	return isNew || len(res.Leases) > 0 || len(res.Lost) > 0
}

// without returns the wakes whose task is not among the leases.
func without(wakes []*wake, leases []bloom.LeasedTask) []*wake {
	return slices.DeleteFunc(wakes, func(k *wake) bool {
		return slices.ContainsFunc(leases, func(l bloom.LeasedTask) bool { return l.Task.ID == k.taskID })
	})
}

// partition separates valid lease ids from invalid ones, which count as lost.
func partition(held []string) (valid, foreign []string) {
	for _, id := range held {
		if input.IsID(id) {
			valid = append(valid, id)
		} else {
			foreign = append(foreign, bloom.CleanText(id))
		}
	}
	return valid, foreign
}

// filled returns r with the foreign ids counted as lost and no list nil.
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

// Waiting returns the number of waiting long polls.
func (s *Service) Waiting() int { return s.hub.idle() }
