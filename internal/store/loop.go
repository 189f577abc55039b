package store

import (
	"context"
	"errors"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/group"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// op is one caller's operation. It may run several times; what it returned last
// counts.
type op struct {
	*group.Op[*Unit]
	want   func(*ReadSet)
	caller bloom.Caller         // who asked for it
	at     time.Time            // when it was asked for
	opened bool                 // due tasks were opened for it
	alone  bool                 // it shares no transaction: one that it was in failed
	pause  func() time.Duration // the next wait for a row that others have locked; nil before the first
	out    bool                 // it failed after it had changed something, and is left out
	opens  string               // the ordered task that it opens besides, "" for none
	leaves bool                 // it leaves such a task closed: with it the operation failed
}

// do runs an operation in the next group and returns what it returned once that is
// committed.
func do[T any](ctx context.Context, s *Store, want func(*ReadSet), fn func(*Unit) (T, error)) (T, error) {
	return submit(ctx, s, want, fn, false)
}

// apart runs an operation that touches a lot in a transaction of its own.
func apart[T any](ctx context.Context, s *Store, want func(*ReadSet), fn func(*Unit) (T, error)) (T, error) {
	return submit(ctx, s, want, fn, true)
}

func submit[T any](ctx context.Context, s *Store, want func(*ReadSet), fn func(*Unit) (T, error), alone bool) (T, error) {
	caller := bloom.CallerOf(ctx)
	v, err := group.Do(ctx, fn, func(ctx context.Context, o *group.Op[*Unit]) error {
		return s.queue.Send(ctx, &op{Op: o, want: want, caller: caller, at: time.Now(), alone: alone})
	})
	return v, s.fail(err)
}

// serve takes operations that wait and commits them together. Where the database
// takes several transactions at once the next group waits for the one before only
// for a moment, so that one that is held up holds up nobody else.
func (s *Store) serve() {
	s.queue.Serve(s.cfg.MaxGroup, s.cfg.Gather, func(waiting []*op) (callers int) {
		together := make([]*op, 0, len(waiting))
		for _, o := range waiting {
			switch {
			case time.Since(o.at) >= s.cfg.Patience:
				o.Err = bloom.ErrUnavailable // it has waited in vain for the server
				o.Finish()
			case o.alone:
				s.launch([]*op{o})
			default:
				together = append(together, o)
			}
		}
		if len(together) == 0 {
			return 0
		}
		s.callers.Store(int64(len(together)))
		done := s.launch(together)
		if s.cfg.Parallel > 1 {
			moment := time.NewTimer(s.cfg.Overlap)
			defer moment.Stop()
			select {
			case <-done:
			case <-moment.C:
			}
		}
		return int(s.callers.Load())
	})
}

// launch runs operations in one transaction; by itself where several may run at
// once. done is closed when they were answered or put back.
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

// commit runs operations in one transaction and answers them. When it fails, each
// is run again alone, so that no neighbour suffers.
func (s *Store) commit(ops []*op) {
	began := time.Now()
	u, err := s.persist(ops)
	s.noteWrite(u, err)
	if err != nil {
		s.failed(ops, err)
		return
	}
	if s.cfg.Committed != nil && !u.c.Empty() {
		s.cfg.Committed(len(ops), time.Since(began))
	}
	s.callers.Store(int64(len(ops) + s.queue.Len())) // before those who are answered ask again
	s.publish(u)                                     // before, too: else they would be woken for what they did themselves
	for _, o := range ops {
		switch {
		case errors.Is(o.Err, errBusy):
			s.later(o)
		case errors.Is(o.Err, errDue):
			s.running.Go(func() { s.afterDue(o) })
		default:
			o.Finish()
		}
	}
}

// failed deals with operations whose transaction was undone.
func (s *Store) failed(ops []*op, err error) {
	switch {
	case errors.Is(err, ErrUnknown), errors.Is(err, ErrAway), errors.Is(err, context.DeadlineExceeded):
		for _, o := range ops {
			o.Err = err // it would be so for each
			o.Finish()
		}
	case len(ops) == 1 && errors.Is(err, ErrConflict):
		ops[0].alone = true
		ops[0].Err = err
		s.later(ops[0])
	case len(ops) == 1 && s.withoutNext(ops[0], err):
		s.again(ops[0])
	case len(ops) == 1:
		ops[0].Err = err
		ops[0].Finish()
	default:
		for _, o := range ops {
			s.again(o)
		}
	}
}

// again runs an operation in a transaction of its own.
func (s *Store) again(o *op) {
	o.alone = true
	if s.cfg.Parallel <= 1 {
		s.commit([]*op{o})
	} else {
		s.requeue(o)
	}
}

// Waits before an operation that met a locked row, or a server that is away, is tried
// again.
var (
	locked = retry.Policy{First: time.Millisecond, Max: 100 * time.Millisecond, Jitter: 2}
	away   = retry.Policy{First: 40 * time.Millisecond, Jitter: 0.5}
)

// later puts an operation back for a moment, as long as its caller's patience
// lasts.
func (s *Store) later(o *op) {
	if o.pause == nil {
		o.pause = locked.Waits()
	}
	pause := o.pause()
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

// afterDue puts a claim back once the delayed tasks that were due are open.
func (s *Store) afterDue(o *op) {
	if err := s.openDue(s.life); err != nil {
		s.log.Warn("delayed tasks could not be opened", "error", err)
	}
	o.opened = true
	s.requeue(o)
}

// persist runs operations in one transaction. A nil error means that it was
// committed and that every op's own Err says how it went; an error that all of it
// was undone, or that nobody can tell. While the server is away it is tried again,
// as long as the patience of who has waited longest lasts.
func (s *Store) persist(ops []*op) (*Unit, error) {
	ctx, cancel := context.WithTimeout(s.life, 2*s.cfg.Patience)
	defer cancel()
	deadline := ops[0].at.Add(s.cfg.Patience)
	for {
		u, err := s.attempt(ctx, ops)
		if errors.Is(err, ErrUnknown) {
			// However long the operations had waited before: nobody else can tell.
			stands, asked := s.stands(ctx, u, time.Now().Add(s.cfg.Patience))
			if asked != nil {
				return nil, errors.Join(err, asked)
			}
			if stands {
				return u, nil
			}
		}
		if err == nil || !errors.Is(err, ErrAway) && !errors.Is(err, ErrUnknown) || !wait(ctx, deadline) {
			return u, err
		}
	}
}

// stands finds out whether a transaction whose commit was cut off was committed, by
// its last entry in the audit. One that left none has done only what may be done
// again. See docs/adr/0007.
func (s *Store) stands(ctx context.Context, u *Unit, deadline time.Time) (bool, error) {
	if len(u.c.Audits) == 0 {
		return false, nil
	}
	for {
		stands, err := u.tx.Stands(ctx, u.c.Audits[len(u.c.Audits)-1])
		switch {
		case err == nil:
			return stands, nil
		case !errors.Is(err, ErrAway) && !errors.Is(err, ErrConflict):
			return false, err
		case !wait(ctx, deadline):
			return false, errors.Join(err, context.DeadlineExceeded)
		}
	}
}

// wait lets a moment pass before the server is asked again; false when there is no
// time left.
func wait(ctx context.Context, deadline time.Time) bool {
	pause := away.Waits()()
	return time.Until(deadline) >= pause && retry.Sleep(ctx, pause) == nil
}

// rounds is how often a unit may find that it needs more. What an operation needs many
// of it asks for at once.
const rounds = 16

// errEndless is an operation's that asks for more and more: an error of the program,
// which says nothing of what is stored.
var errEndless = errors.New("store: an operation needs more and more")

// attempt runs operations in one transaction, once: what they need is read and
// locked, they decide, what they then find missing is read, they decide again on
// all of it, and the changes are written.
func (s *Store) attempt(ctx context.Context, ops []*op) (*Unit, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience)
	defer cancel()
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return nil, err
	}
	var want ReadSet
	for _, o := range ops {
		o.want(&want)
	}
	rows := newRows()
	for range rounds {
		if err := tx.Load(ctx, &want, rows); err != nil {
			tx.Rollback()
			return nil, err
		}
		u := s.decide(rows, ops)
		u.tx = tx
		switch {
		case !u.need.Empty():
			want = u.need
			continue
		case u.c.Empty():
			tx.Rollback()
			return u, nil
		}
		return u, tx.Commit(ctx, &u.c)
	}
	tx.Rollback()
	return nil, errEndless
}

// decide runs the operations on the rows. One that fails after it changed something
// is left out and the others are run again.
func (s *Store) decide(rows *Rows, ops []*op) *Unit {
	for _, o := range ops {
		o.out = false
	}
	for {
		u := newUnit(s, rows)
		again := false
		for _, o := range ops {
			if o.out {
				continue
			}
			u.op, u.dirt, o.opens = o, false, ""
			o.Err = o.Run(u)
			if o.Err != nil && u.dirt && !errors.Is(o.Err, errNeed) {
				o.out, again = true, u.need.Empty()
				if again {
					break
				}
			}
		}
		if !again {
			return u
		}
	}
}

// publish notifies those who wait of what was committed, and caches what spares reads.
func (s *Store) publish(u *Unit) {
	for _, w := range u.rows.Workers {
		if w != nil {
			s.contacts.note(w)
		}
	}
	for _, w := range u.c.Workers {
		s.contacts.note(w)
	}
	for _, w := range u.walked {
		s.usual.walk(w.worker, w.to)
	}
	if len(u.c.Audits) > 0 && !u.c.Sealed {
		s.wakeSealing()
	}
	if len(u.news) == 0 {
		return
	}
	s.feed.Publish(u.news)
	s.db.Tell(u.news)
}
