package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/bloom-runtime/bloom"
)

// writer owns the only connection that writes, and runs under no caller's
// context: a cancelled one would interrupt everybody's transaction.
type writer struct {
	s    *Store
	c    *conn
	mem  *memory
	ops  chan *op
	done chan struct{} // closed when the goroutine has ended

	mu      sync.RWMutex // guards stopped against sends on a closed channel
	stopped bool
}

// op is one caller's operation. run may be called more than once: again when
// the group it was in had to be rolled back.
type op struct {
	run  func(*tx) error
	err  error
	done chan struct{}
}

func startWriter(c *conn, s *Store) *writer {
	w := &writer{s: s, c: c, mem: newMemory(), ops: make(chan *op, s.cfg.Queue), done: make(chan struct{})}
	go w.loop()
	return w
}

// write runs fn in the writer's next transaction and returns what it returned
// once that is on disk. A caller that stops waiting leaves its operation to its
// fate: it may be committed or not, as with any answer that is lost.
func write[T any](ctx context.Context, s *Store, fn func(*tx) (T, error)) (T, error) {
	var result, zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	o := &op{done: make(chan struct{})}
	o.run = func(t *tx) (err error) {
		result, err = fn(t)
		return err
	}
	if err := s.w.send(ctx, o); err != nil {
		return zero, err
	}
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

func (w *writer) send(ctx context.Context, o *op) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.stopped {
		return bloom.ErrUnavailable
	}
	select {
	case w.ops <- o:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop lets what is queued be written, then closes the connection.
func (w *writer) stop() error {
	w.mu.Lock()
	w.stopped = true
	close(w.ops)
	w.mu.Unlock()
	<-w.done
	return w.c.close()
}

func (w *writer) loop() {
	defer close(w.done)
	group := make([]*op, 0, w.s.cfg.MaxGroup)
	for first := range w.ops {
		group = append(group[:0], first)
		for len(group) < cap(group) {
			select {
			case o, open := <-w.ops:
				if open {
					group = append(group, o)
					continue
				}
			default:
			}
			break
		}
		w.commit(group)
		clear(group)
	}
}

// commit runs a group in one transaction. When one of them fails after it wrote
// something, or SQLite itself fails, none of the group is kept and each is run
// again alone, so that no neighbour suffers.
func (w *writer) commit(group []*op) {
	changes, ok := w.together(group)
	if !ok {
		changes = nil
		for _, o := range group {
			more, err := w.attempt([]*op{o})
			if err != nil {
				o.err = err
			}
			changes = append(changes, more...)
		}
	}
	for _, o := range group {
		close(o.done)
	}
	w.s.subs.publish(changes)
}

// together reports whether the group was committed as it is.
func (w *writer) together(group []*op) ([]bloom.Change, bool) {
	changes, err := w.attempt(group)
	if err != nil && len(group) == 1 {
		group[0].err = err
		return nil, true
	}
	return changes, err == nil
}

// attempt runs ops in one transaction. A nil error means that it was committed
// and that every op's own err says how it went; an error that all was undone.
func (w *writer) attempt(ops []*op) (changes []bloom.Change, err error) {
	if _, err := w.c.exec("BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	t := newTx(w.c, w.mem, w.s.cfg.Clock)
	for _, o := range ops {
		if o.err = t.do(o); o.err != nil && !harmless(t, o.err) {
			return nil, w.rollback(o.err)
		}
	}
	if err := errors.Join(t.flushAudits(), t.flushCounts()); err != nil {
		return nil, w.rollback(err)
	}
	if _, err := w.c.exec("COMMIT"); err != nil {
		return nil, w.rollback(fmt.Errorf("commit: %w", err))
	}
	return t.changes, nil
}

// harmless reports that an operation was refused before it wrote anything.
func harmless(t *tx, err error) bool {
	var ours *bloom.Error
	return !t.wrote && errors.As(err, &ours)
}

// rollback undoes the transaction. SQLite has often done so already; an error
// of the rollback then says only that.
func (w *writer) rollback(cause error) error {
	w.mem.forget()
	_, _ = w.c.exec("ROLLBACK")
	return cause
}

// do runs one operation; a panic in it is that operation's failure alone.
func (t *tx) do(o *op) (err error) {
	defer func() {
		if p := recover(); p != nil {
			t.wrote, err = true, fmt.Errorf("panic in a write: %v", p)
		}
	}()
	t.begin()
	return o.run(t)
}
