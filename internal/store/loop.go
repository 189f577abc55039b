package store

import (
	"context"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/group"
)

// op is one caller's operation. It may run several times; only its last result
// counts.
type op struct {
	*group.Op[*Unit]
	reads      func(*Rows)
	caller     audit.Caller
	at         time.Time            // when it was submitted
	unbatched  bool                 // it runs in its own transaction
	dueOpened  bool                 // delayed tasks that were due have been opened for it
	backoff    func() time.Duration // the next wait for a locked row; nil before the first
	outcome    outcome              // of its last run
	excluded   bool                 // it failed after changing something, so this unit omits it
	openedNext string               // the ordered task whose gate it opened, "" for none
	triedNext  bool                 // it failed once, alone, after opening that gate
	skipNext   bool                 // it must not open that gate: doing so failed twice
	suggested  string               // the worker that the cache suggested, "" for none
	taken      int                  // how often it failed with ErrTaken in its own transaction
}

// do runs an operation in the next group and returns its result once the group is
// committed.
func do[T any](ctx context.Context, s *Store, reads func(*Rows), fn func(*Unit) (T, error)) (T, error) {
	return submit(ctx, s, reads, fn, false)
}

// doUnbatched runs an operation in its own transaction. It is for operations that
// touch many rows.
func doUnbatched[T any](ctx context.Context, s *Store, reads func(*Rows), fn func(*Unit) (T, error)) (T, error) {
	return submit(ctx, s, reads, fn, true)
}

func submit[T any](ctx context.Context, s *Store, reads func(*Rows), fn func(*Unit) (T, error), unbatched bool) (T, error) {
	caller := audit.CallerOf(ctx)
	v, err := group.Do(ctx, fn, func(ctx context.Context, o *group.Op[*Unit]) error {
		return s.queue.Send(ctx, &op{Op: o, reads: reads, caller: caller, at: time.Now(), unbatched: unbatched})
	})
	return v, s.explain(err)
}

// serve is the commit loop: it takes the waiting operations and commits them as a
// group. If the database runs transactions in parallel, the next group waits for the
// previous one for at most Overlap, so a blocked group delays nobody else.
func (s *Store) serve() {
	s.queue.Serve(s.cfg.MaxGroup, s.cfg.Gather, func(waiting []*op) (callers int) {
		batch := make([]*op, 0, len(waiting))
		for _, o := range waiting {
			switch {
			case time.Since(o.at) >= s.cfg.Patience:
				o.Err = bloom.ErrUnavailable
				o.Finish()
			case o.unbatched:
				s.launch([]*op{o})
			default:
				batch = append(batch, o)
			}
		}
		if len(batch) == 0 {
			return 0
		}
		s.callers.Store(int64(len(batch)))
		done := s.launch(batch)
		if s.cfg.Parallel > 1 {
			timer := time.NewTimer(s.cfg.Overlap)
			defer timer.Stop()
			select {
			case <-done:
			case <-timer.C:
			}
		}
		return int(s.callers.Load())
	})
}

// launch runs operations in one transaction, in a goroutine of its own if
// transactions run in parallel. done is closed when every operation was answered or
// requeued.
func (s *Store) launch(ops []*op) (done chan struct{}) {
	done = make(chan struct{})
	if s.cfg.Parallel <= 1 {
		s.commit(ops)
		close(done)
		return done
	}
	s.slots <- struct{}{}
	s.running.Go(func() {
		defer close(done)
		defer func() { <-s.slots }()
		s.commit(ops)
	})
	return done
}

// commit runs operations in one transaction and answers them. If the transaction
// fails, each operation is retried in its own, so one cannot fail the others.
func (s *Store) commit(ops []*op) {
	began := time.Now()
	u, err := s.persist(ops)
	if err != nil {
		s.candidates.clear()
		s.handleFailure(ops, err)
		return
	}
	if s.cfg.Committed != nil && !u.c.Empty() {
		s.cfg.Committed(len(ops), time.Since(began))
	}
	// Both before the callers are answered: they may submit again at once, and must not
	// be woken by their own changes.
	s.callers.Store(int64(len(ops) + s.queue.Len()))
	s.publish(u)
	for _, o := range ops {
		switch o.outcome {
		case findsLocked:
			s.retryLater(o)
		case findsDue:
			s.running.Go(func() { s.afterDue(o) })
		case finished, lacksRows:
			o.Finish()
		}
	}
}
