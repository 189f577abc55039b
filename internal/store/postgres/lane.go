package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// op is one caller's operation. need and run may be called more than once: again
// when the transaction they were in was undone.
type op struct {
	need   func(*want)
	run    func(*tx) error
	opened bool // due tasks were opened for it
	err    error
	done   chan struct{}
}

// errAlone is what an operation says, before it has changed anything, when it
// touches more than it has named and needs a transaction of its own.
var errAlone = errors.New("postgresql: runs alone")

// errDue says that delayed tasks are due and must be opened first.
var errDue = errors.New("postgresql: delayed tasks are due")

// lane takes operations that wait and commits them together, one group at a time
// for each of its goroutines. It runs under no caller's context: a cancelled one
// would cut everybody's connection.
type lane struct {
	s   *Store
	ops chan *op
	wg  sync.WaitGroup

	mu      sync.RWMutex // guards stopped against sends on a closed channel
	stopped bool
}

func startLane(s *Store, n int) *lane {
	l := &lane{s: s, ops: make(chan *op, s.cfg.Queue)}
	for range n {
		l.wg.Go(l.loop)
	}
	return l
}

// together runs an operation in the lane's next group and returns what it
// returned once that is committed. A caller that stops waiting leaves its
// operation to its fate: it may be committed or not, as with any answer that is
// lost.
func together[T any](ctx context.Context, l *lane, need func(*want), fn func(*tx) (T, error)) (T, error) {
	var result, zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	o := &op{need: need, done: make(chan struct{})}
	o.run = func(t *tx) (err error) {
		result, err = fn(t)
		return err
	}
	if err := l.send(ctx, o); err != nil {
		return zero, err
	}
	select {
	case <-o.done:
	case <-ctx.Done():
		return zero, ctx.Err()
	}
	if o.err != nil {
		return zero, l.s.fail(o.err)
	}
	return result, nil
}

func (l *lane) send(ctx context.Context, o *op) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.stopped {
		return bloom.ErrUnavailable
	}
	select {
	case l.ops <- o:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop lets what is queued be written.
func (l *lane) stop() {
	l.mu.Lock()
	if !l.stopped {
		l.stopped = true
		close(l.ops)
	}
	l.mu.Unlock()
	l.wg.Wait()
}

func (l *lane) loop() {
	group, callers := make([]*op, 0, l.s.cfg.MaxGroup), 0
	gather := time.NewTimer(gatherFor)
	defer gather.Stop()
	for first := range l.ops {
		group = l.collect(append(group[:0], first), callers, gather)
		callers = l.commit(group)
		clear(group)
	}
}

// gatherFor is how long a group waits for callers who have just been answered and
// are about to ask again. Two halves of the callers taking turns would cost twice
// the transactions.
const gatherFor = 200 * time.Microsecond

// collect takes what waits, and waits a moment for as many callers as were there
// when the last group ended. A single caller never waits.
func (l *lane) collect(group []*op, callers int, gather *time.Timer) []*op {
	for len(group) < cap(group) {
		select {
		case o, open := <-l.ops:
			if !open {
				return group
			}
			group = append(group, o)
			continue
		default:
		}
		break
	}
	gather.Reset(gatherFor)
	for len(group) < min(callers, cap(group)) {
		select {
		case o, open := <-l.ops:
			if !open {
				return group
			}
			group = append(group, o)
		case <-gather.C:
			return group
		}
	}
	return group
}

// commit runs a group in one transaction. When one of them fails, none of the
// group is kept and each is run again alone, so that no neighbour suffers.
// The answer is how many callers the lane has.
func (l *lane) commit(group []*op) (callers int) {
	changes, err := l.s.persist(group, false)
	callers = len(group) + len(l.ops)
	if err != nil {
		changes = nil
	}
	for _, o := range group {
		switch {
		case err != nil && isGone(err):
			o.err = err // it would be so for each
		case err != nil, errors.Is(o.err, errAlone), errors.Is(o.err, errDue):
			l.s.spawn(o)
			continue
		}
		close(o.done)
	}
	l.s.publish(changes)
	return callers
}

// spawn runs an operation of a group in a transaction of its own.
func (s *Store) spawn(o *op) {
	s.alone.Go(func() {
		changes := s.single(o)
		close(o.done)
		s.publish(changes)
	})
}

// single runs one operation in a transaction of its own, again when it met
// another.
func (s *Store) single(o *op) []bloom.Change {
	for tries := 1; ; tries++ {
		changes, err := s.persist([]*op{o}, true)
		if err == nil && errors.Is(o.err, errDue) {
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
		o.err = err
		return nil
	}
}

const singleTries = 10

// separately runs an operation in a transaction of its own.
func separately[T any](ctx context.Context, s *Store, need func(*want), fn func(*tx) (T, error)) (T, error) {
	var result, zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	o := &op{need: need, done: make(chan struct{})}
	o.run = func(t *tx) (err error) {
		result, err = fn(t)
		return err
	}
	s.mu.RLock()
	if s.stopped {
		s.mu.RUnlock()
		return zero, bloom.ErrUnavailable
	}
	s.spawn(o)
	s.mu.RUnlock()
	select {
	case <-o.done:
	case <-ctx.Done():
		return zero, ctx.Err()
	}
	if o.err != nil {
		return zero, s.fail(o.err)
	}
	return result, nil
}

func (s *Store) publish(changes []bloom.Change) {
	s.subs.publish(changes)
	s.notify.tell(changes)
}

// do runs one operation; a panic in it is that operation's failure alone.
func (t *tx) do(o *op) (err error) {
	defer func() {
		if p := recover(); p != nil {
			t.wrote, err = true, fmt.Errorf("panic in a write: %v", p)
		}
	}()
	t.wrote = false
	return o.run(t)
}

// harmless reports that an operation was refused before it wrote anything.
func harmless(t *tx, err error) bool {
	var ours *bloom.Error
	return !t.wrote && (errors.As(err, &ours) || errors.Is(err, errAlone) || errors.Is(err, errDue))
}
