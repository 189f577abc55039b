package sqlite

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

// readers is a bounded pool of read-only connections, which it opens when they are
// needed.
type readers struct {
	path  string
	fail  func(error) error // logs and explains a failure
	slots chan *conn        // nil: the connection is not open yet
	done  chan struct{}
	open  atomic.Int32 // open connections
	once  sync.Once
}

func newReaders(path string, n int, fail func(error) error) *readers {
	r := &readers{path: path, fail: fail, slots: make(chan *conn, n), done: make(chan struct{})}
	for range n {
		r.slots <- nil
	}
	return r
}

// Run runs fn in one snapshot of the database. Its queries end with ctx.
func (r *readers) Run(ctx context.Context, fn func(c store.Conn) error) error {
	c, err := r.take(ctx)
	if err != nil {
		return r.fail(err)
	}
	defer func() { r.slots <- c }()
	if c == nil {
		if c, err = dial(dsn(r.path, "ro"), readerPragmas...); err != nil {
			return r.fail(err)
		}
		r.open.Add(1)
	}
	if _, err := c.exec("BEGIN"); err != nil {
		return r.fail(err)
	}
	c.ctx = ctx
	err = fn(c)
	c.ctx = background
	if _, end := c.exec("COMMIT"); end != nil {
		// Drop the connection: its open transaction would keep an old snapshot.
		_ = c.close()
		c = nil
		r.open.Add(-1)
	}
	return r.fail(err)
}

func (r *readers) take(ctx context.Context) (*conn, error) {
	select {
	case <-r.done:
		return nil, bloom.ErrUnavailable
	case <-ctx.Done():
		return nil, ctx.Err()
	default:
	}
	select {
	case c := <-r.slots:
		return c, nil
	case <-r.done:
		return nil, bloom.ErrUnavailable
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Pools returns the state of the pool of readers.
func (d *database) Pools() []store.Pool {
	r := d.read
	open := int(r.open.Load())
	return []store.Pool{{Name: "read", Used: cap(r.slots) - len(r.slots), Open: open, Max: cap(r.slots)}}
}

// close waits for running reads and closes all connections.
func (r *readers) close() error {
	r.once.Do(func() { close(r.done) })
	var errs []error
	for range cap(r.slots) {
		if c := <-r.slots; c != nil {
			errs = append(errs, c.close())
		}
	}
	return errors.Join(errs...)
}
