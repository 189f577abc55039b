package sqlite

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

// readers is a bounded pool of read-only connections, opened when first needed.
type readers struct {
	path  string
	slots chan *conn // nil: a slot whose connection is not open yet
	done  chan struct{}
	open  atomic.Int32 // connections
	once  sync.Once
}

func newReaders(path string, n int) *readers {
	r := &readers{path: path, slots: make(chan *conn, n), done: make(chan struct{})}
	for range n {
		r.slots <- nil
	}
	return r
}

// read runs fn in one snapshot of the database. ctx only bounds the wait for a
// connection: what one call reads is bounded.
func read[T any](ctx context.Context, d *database, fn func(c *conn) (T, error)) (T, error) {
	return readFrom(ctx, d, d.read, fn)
}

func readFrom[T any](ctx context.Context, d *database, from *readers, fn func(c *conn) (T, error)) (T, error) {
	var zero T
	c, err := from.take(ctx)
	if err != nil {
		return zero, d.fail(err)
	}
	defer func() { from.slots <- c }()
	if c == nil {
		if c, err = dial(dsn(from.path, "ro"), readerPragmas...); err != nil {
			return zero, d.fail(err)
		}
		d.read.open.Add(1)
	}
	if _, err := c.exec("BEGIN"); err != nil {
		return zero, d.fail(err)
	}
	v, err := fn(c)
	if _, end := c.exec("COMMIT"); end != nil {
		// A connection that cannot end its transaction would pin an old
		// snapshot for ever: begin again with a new one.
		_ = c.close()
		c = nil
		d.read.open.Add(-1)
	}
	if err != nil {
		return zero, d.fail(err)
	}
	return v, nil
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

// Pools are the connections that read; one more writes.
func (d *database) Pools() []store.Pool {
	r := d.read
	open := int(r.open.Load())
	return []store.Pool{{Name: "read", Used: cap(r.slots) - len(r.slots), Open: open, Max: cap(r.slots)}}
}

// close waits for the reads under way.
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
