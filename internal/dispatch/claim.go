package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// MaxClaimWait is the longest time that a claim may wait.
const MaxClaimWait = 60 * time.Second

// repeatOrders is how soon an answer repeats a cancellation or a drain: the previous
// answer may have been lost.
const repeatOrders = 5 * time.Second

// Claim is a worker's long poll. It renews the worker's leases, then waits up to wait
// for new work, a lost lease, a task to cancel, or a drain. If ctx ends or the
// service closes, it returns what it has.
func (s *Service) Claim(ctx context.Context, r contract.ClaimRequest, wait time.Duration) (answer bloom.ClaimResult, err error) {
	r.WorkerID, r.InstanceID, r.Renew = storable.Text(r.WorkerID), storable.Text(r.InstanceID), true
	held, foreign := partition(r.Held)
	r.Held = held
	if wait <= 0 {
		answer, err = s.store.Claim(ctx, r)
		return filled(answer, foreign), err
	}
	p := s.hub.join(r) // before the first claim, so that no later change is missed
	defer s.hub.leave(p)
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	regular := time.NewTimer(jittered(s.poll))
	defer regular.Stop()
	for {
		offers, ended := s.hub.take(p)
		if ended {
			return answer, nil
		}
		res, err := s.store.Claim(ctx, r)
		ordered := s.hub.claimed(p, offers, res, err)
		switch {
		case errors.Is(err, context.Canceled) && !r.Renew:
			return answer, nil
		case err != nil:
			return answer, err
		}
		if !r.Renew {
			res.Renewed, foreign = answer.Renewed, nil
		}
		res = filled(res, foreign)
		if ordered || len(res.Leases) > 0 || len(res.Lost) > 0 {
			return res, nil
		}
		if r.Renew {
			answer, r.Renew = res, false
			if res.Urgent() {
				deadline.Reset(min(wait, repeatOrders))
			}
		}
		select {
		case <-p.signal:
		case <-regular.C:
		case <-deadline.C:
			return answer, nil
		case <-s.closing:
			return answer, nil
		case <-ctx.Done():
			return answer, nil
		}
		regular.Reset(jittered(s.poll))
	}
}

// partition separates valid lease ids from invalid ones, which count as lost.
func partition(held []string) (valid, foreign []string) {
	for _, id := range held {
		if storable.IsID(id) {
			valid = append(valid, id)
		} else {
			foreign = append(foreign, storable.Text(id))
		}
	}
	return valid, foreign
}

// filled returns r with the foreign ids counted as lost and no list nil.
func filled(r bloom.ClaimResult, foreign []string) bloom.ClaimResult {
	r.Leases = append([]bloom.LeasedTask{}, r.Leases...)
	r.Renewed = append([]bloom.Renewal{}, r.Renewed...)
	r.Lost = append(append([]string{}, r.Lost...), foreign...)
	r.Cancel = append([]string{}, r.Cancel...)
	return r
}

// Waiting returns the number of waiting long polls.
func (s *Service) Waiting() int {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return len(s.hub.waiting(""))
}
