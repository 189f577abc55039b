package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/group"
)

// op is one caller's operation, and what it needs to have read. Both may be asked
// for more than once: again when the transaction they were in was undone.
type op struct {
	*group.Op[*tx]
	need   func(*want)
	at     time.Time // when it was asked for
	opened bool      // due tasks were opened for it
}

// errAlone is what an operation says, before it has changed anything, when it
// touches more than it has named and needs a transaction of its own.
var errAlone = errors.New("postgresql: runs alone")

// errDue says that delayed tasks are due and must be opened first.
var errDue = errors.New("postgresql: delayed tasks are due")

// lane takes operations that wait and commits them together, one group at a time:
// two at once would be half as large, and cost more than they gain. It runs under no caller's context: a cancelled one
// would cut everybody's connection.
type lane struct {
	s     *Store
	queue *group.Queue[*op]
	known *memory
	wg    sync.WaitGroup
}

func startLane(s *Store) *lane {
	l := &lane{s: s, queue: group.NewQueue[*op](s.cfg.Queue), known: newMemory()}
	l.wg.Go(l.loop)
	return l
}

// together runs an operation in the lane's next group and returns what it
// returned once that is committed.
func together[T any](ctx context.Context, l *lane, need func(*want), fn func(*tx) (T, error)) (T, error) {
	v, err := group.Do(ctx, fn, func(ctx context.Context, o *group.Op[*tx]) error {
		return l.queue.Send(ctx, &op{Op: o, need: need, at: time.Now()})
	})
	return v, l.s.fail(err)
}

// stop lets what is queued be written.
func (l *lane) stop() {
	l.queue.Stop()
	l.wg.Wait()
}

func (l *lane) loop() {
	l.queue.Serve(l.s.cfg.MaxGroup, gatherFor, func(waiting []*op) (callers int) {
		if patient := l.dismiss(waiting); len(patient) > 0 {
			return l.commit(patient)
		}
		return 0
	})
}

// gatherFor is how long a group waits at least for callers who have just been answered
// and are about to ask again. Two halves of the callers taking turns would cost twice
// the transactions.
const gatherFor = 500 * time.Microsecond

// dismiss answers those who have waited in the queue for as long as the store is
// patient, while the server was away for others, and leaves the rest.
func (l *lane) dismiss(ops []*op) []*op {
	late := 0
	for late < len(ops) && time.Since(ops[late].at) >= l.s.cfg.Patience {
		ops[late].Err = bloom.ErrUnavailable
		ops[late].Finish()
		late++
	}
	return ops[late:]
}

// commit runs a group in one transaction. When one of them fails, none of the
// group is kept and each is run again alone, so that no neighbour suffers.
// The answer is how many callers the lane has.
func (l *lane) commit(ops []*op) (callers int) {
	changes, err := l.s.persist(ops, l.known)
	callers = len(ops) + l.queue.Len()
	if err != nil {
		changes = nil
	}
	for _, o := range ops {
		switch {
		case err != nil && isGone(err):
			o.Err = err // it would be so for each
		case err != nil, errors.Is(o.Err, errAlone), errors.Is(o.Err, errDue):
			l.s.spawn(o)
			continue
		}
		o.Finish()
	}
	l.s.publish(changes)
	return callers
}

// spawn runs an operation of a group in a transaction of its own.
func (s *Store) spawn(o *op) {
	s.alone.Go(func() {
		changes := s.single(o)
		s.lane.known.heard(changes)
		o.Finish()
		s.publish(changes)
	})
}

// single runs one operation in a transaction of its own, again when it met
// another.
func (s *Store) single(o *op) []bloom.Change {
	for tries := 1; ; tries++ {
		changes, err := s.persist([]*op{o}, nil)
		if err == nil && errors.Is(o.Err, errDue) {
			if err = s.openDue(); err == nil {
				o.opened = true
				continue
			}
		}
		switch {
		case err == nil:
			return changes
		case isRace(err) && tries < singleTries:
			continue
		}
		o.Err = err
		return nil
	}
}

const singleTries = 10

// separately runs an operation in a transaction of its own.
func separately[T any](ctx context.Context, s *Store, need func(*want), fn func(*tx) (T, error)) (T, error) {
	v, err := group.Do(ctx, fn, func(_ context.Context, o *group.Op[*tx]) error {
		s.mu.RLock()
		defer s.mu.RUnlock()
		if s.stopped {
			return bloom.ErrUnavailable
		}
		s.spawn(&op{Op: o, need: need, at: time.Now()})
		return nil
	})
	return v, s.fail(err)
}

func (s *Store) publish(changes []bloom.Change) {
	s.feed.Publish(changes)
	s.notify.tell(changes)
}

// harmless reports that an operation was refused before it wrote anything.
func harmless(t *tx, err error) bool {
	var ours *bloom.Error
	return !t.wrote && (errors.As(err, &ours) || errors.Is(err, errAlone) || errors.Is(err, errDue))
}
