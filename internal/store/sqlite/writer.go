package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/group"
)

// writer owns the only connection that writes, and runs under no caller's
// context: a cancelled one would interrupt everybody's transaction.
type writer struct {
	s     *Store
	c     *conn
	mem   *memory
	clock *follower
	queue *group.Queue[*op]
	done  chan struct{} // closed when the goroutine has ended
}

// op is one caller's operation.
type op = group.Op[*tx]

func startWriter(c *conn, s *Store) *writer {
	w := &writer{s: s, c: c, mem: newMemory(), clock: newFollower(s.cfg.Clock, s.log), queue: group.NewQueue[*op](s.cfg.Queue), done: make(chan struct{})}
	go w.loop()
	return w
}

// write runs fn in the writer's next transaction and returns what it returned
// once that is on disk.
func write[T any](ctx context.Context, s *Store, fn func(*tx) (T, error)) (T, error) {
	v, err := group.Do(ctx, fn, s.w.queue.Send)
	return v, s.fail(err)
}

// stop lets what is queued be written, then closes the connection.
func (w *writer) stop() error {
	w.queue.Stop()
	<-w.done
	return w.c.close()
}

func (w *writer) loop() {
	defer close(w.done)
	w.queue.Serve(w.s.cfg.MaxGroup, 0, w.commit)
}

// commit runs a group in one transaction. When one of them fails after it wrote
// something, or SQLite itself fails, none of the group is kept and each is run
// again alone, so that no neighbour suffers. The answer is how many callers there are.
func (w *writer) commit(ops []*op) (callers int) {
	changes, ok := w.together(ops)
	if !ok {
		changes = nil
		for _, o := range ops {
			more, err := w.attempt([]*op{o})
			if err != nil {
				o.Err = err
			}
			changes = append(changes, more...)
		}
	}
	callers = len(ops) + w.queue.Len()
	for _, o := range ops {
		o.Finish()
	}
	w.s.feed.Publish(changes)
	return callers
}

// together reports whether the group was committed as it is.
func (w *writer) together(ops []*op) ([]bloom.Change, bool) {
	changes, err := w.attempt(ops)
	if err != nil && len(ops) == 1 {
		ops[0].Err = err
		return nil, true
	}
	return changes, err == nil
}

// attempt runs ops in one transaction. A nil error means that it was committed
// and that every op's own err says how it went; an error that all was undone.
func (w *writer) attempt(ops []*op) (changes []bloom.Change, err error) {
	now, jumped, err := w.clock.follow(w.c)
	if err != nil {
		return nil, err
	}
	if jumped {
		w.mem.forget()
	}
	if _, err := w.c.exec("BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	t := newTx(w.c, w.mem, now)
	for _, o := range ops {
		t.wrote = false
		if o.Err = o.Run(t); o.Err != nil && !harmless(t, o.Err) {
			return nil, w.rollback(o.Err)
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
