package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bloom-runtime/bloom/internal/retry"
)

// handleFailure retries or answers operations whose transaction was rolled back.
func (s *Store) handleFailure(ops []*op, err error) {
	if len(ops) == 1 {
		err = ops[0].repeated(err)
	}
	switch {
	case unreachable(err):
		for _, o := range ops {
			o.Err = err // retrying each would fail the same way
			o.Finish()
		}
	case len(ops) == 1 && errors.Is(err, ErrConflict):
		ops[0].unbatched = true
		ops[0].Err = err
		s.retryLater(ops[0])
	case len(ops) == 1 && s.withoutNext(ops[0], err):
		s.retryUnbatched(ops[0])
	case len(ops) == 1:
		ops[0].Err = err
		ops[0].Finish()
	default:
		for _, o := range ops {
			s.retryUnbatched(o)
		}
	}
}

// maxTaken is how often an operation may fail with ErrTaken. Each try can lose only to a
// transaction that was committed during it.
const maxTaken = 4

// repeated returns the error of a failed try, which is no conflict any more if the
// operation has failed with ErrTaken too often.
func (o *op) repeated(err error) error {
	if !errors.Is(err, ErrTaken) {
		return err
	}
	if o.taken++; o.taken < maxTaken {
		return err
	}
	return fmt.Errorf("store: it fails at every try: %s", err) //nolint:errorlint // it must not be taken for a conflict
}

// unreachable reports whether a transaction failed because the database did not answer.
func unreachable(err error) bool {
	return errors.Is(err, ErrUnreachable) || errors.Is(err, ErrUnknown) || errors.Is(err, context.DeadlineExceeded)
}

// retryUnbatched runs an operation again, in its own transaction.
func (s *Store) retryUnbatched(o *op) {
	o.unbatched = true
	if s.cfg.Parallel <= 1 {
		s.commit([]*op{o})
	} else {
		s.requeue(o)
	}
}

var (
	lockedBackoff      = retry.Policy{First: time.Millisecond, Max: 100 * time.Millisecond, Jitter: 2}
	unreachableBackoff = retry.Policy{First: 40 * time.Millisecond, Jitter: 0.5}
)

// retryLater requeues an operation after a back-off. Once it has waited for Patience,
// it fails with ErrConflict instead.
func (s *Store) retryLater(o *op) {
	if o.backoff == nil {
		o.backoff = lockedBackoff.Waits()
	}
	pause := o.backoff()
	if time.Since(o.at)+pause > s.cfg.Patience {
		if !errors.Is(o.Err, ErrConflict) {
			o.Err = ErrConflict
		}
		o.Finish()
		return
	}
	s.running.Go(func() {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.closing:
		}
		s.requeue(o)
	})
}

func (s *Store) requeue(o *op) {
	if err := s.queue.TrySend(o); err == nil {
		return
	}
	s.running.Go(func() {
		if err := s.queue.Send(context.Background(), o); err != nil {
			o.Err = err
			o.Finish()
		}
	})
}

// afterDue opens the delayed tasks that are due and requeues the claim that found them.
func (s *Store) afterDue(o *op) {
	if err := s.openDue(s.life); err != nil {
		s.log.Warn("opening delayed tasks failed", "error", err)
	}
	o.dueOpened = true
	s.requeue(o)
}
