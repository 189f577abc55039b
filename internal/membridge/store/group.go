package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// errClosed answers writes that come after Close.
var errClosed = errors.New("the store is closed")

// group commits waiting writes together: one fsync serves everybody who waits
// for it, which is what lets one control plane take thousands of durable
// heartbeats a second. Its one goroutine owns the only write connection.
type group struct {
	db      *sql.DB
	ops     chan *op
	stopped chan struct{} // closed: take no more
	done    chan struct{} // closed: the goroutine has ended
	once    sync.Once
}

// op is one caller's write. Its error is sent exactly once.
type op struct {
	fn     func(ctx context.Context, q querier) error
	err    error
	result chan error
}

func startGroup(db *sql.DB) *group {
	g := &group{db: db, ops: make(chan *op, maxGroup), stopped: make(chan struct{}), done: make(chan struct{})}
	go g.run()
	return g
}

// do queues fn and waits for its commit. ctx only bounds the wait for a place in
// the queue: once there, the write happens and its outcome is told, and it does
// not run under ctx, because a cancelled one would interrupt everybody's
// transaction.
func (g *group) do(ctx context.Context, fn func(ctx context.Context, q querier) error) error {
	o := &op{fn: fn, result: make(chan error, 1)}
	select {
	case <-g.stopped:
		return errClosed
	default:
	}
	select {
	case g.ops <- o:
	case <-g.stopped:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-o.result:
		return err
	case <-g.done:
		// The last round may have answered while the goroutine ended.
		select {
		case err := <-o.result:
			return err
		default:
			return errClosed
		}
	}
}

func (g *group) stop() {
	g.once.Do(func() { close(g.stopped) })
	<-g.done
}

func (g *group) run() {
	defer close(g.done)
	for {
		select {
		case first := <-g.ops:
			g.commit(g.gather(first))
		case <-g.stopped:
			g.drain()
			return
		}
	}
}

// drain commits what was accepted before the stop.
func (g *group) drain() {
	for {
		select {
		case first := <-g.ops:
			g.commit(g.gather(first))
		default:
			return
		}
	}
}

// gather takes what waits already; it never waits for more.
func (g *group) gather(first *op) []*op {
	batch := []*op{first}
	for len(batch) < maxGroup {
		select {
		case o := <-g.ops:
			batch = append(batch, o)
		default:
			return batch
		}
	}
	return batch
}

// commit runs the batch in one transaction, each write in a savepoint so that
// one's failure does not touch its neighbours, and answers everybody.
func (g *group) commit(batch []*op) {
	err := g.transact(batch)
	for _, o := range batch {
		// A write that failed by itself says why, whatever became of the rest.
		if o.err == nil {
			o.err = err
		}
		o.result <- o.err
	}
}

func (g *group) transact(batch []*op) error {
	ctx := context.Background()
	tx, err := g.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for _, o := range batch {
		if err := savepoint(ctx, tx, o, len(batch) > 1); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	if len(batch) == 1 && batch[0].err != nil {
		return tx.Rollback()
	}
	return tx.Commit()
}

// savepoint runs one write. Only a failure to go back to before it is an error
// of the whole transaction.
func savepoint(ctx context.Context, tx *sql.Tx, o *op, shared bool) error {
	if !shared {
		o.err = o.fn(ctx, tx)
		return nil
	}
	if _, err := tx.ExecContext(ctx, "SAVEPOINT op"); err != nil {
		return err
	}
	if o.err = o.fn(ctx, tx); o.err != nil {
		if _, err := tx.ExecContext(ctx, "ROLLBACK TO op"); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, "RELEASE op")
	return err
}
