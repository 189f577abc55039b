package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/bloom-runtime/bloom/internal/group"
)

// writer commits waiting writes together: one fsync serves all of them, which lets one control
// plane accept thousands of durable heartbeats a second. Its single goroutine owns the only write
// connection.
type writer struct {
	db    *sql.DB
	queue *group.Queue[*op]
	done  chan struct{} // closed: the goroutine has ended
}

// op is one caller's write.
type op = group.Op[querier]

func startWriter(db *sql.DB) *writer {
	w := &writer{db: db, queue: group.NewQueue[*op](maxGroup), done: make(chan struct{})}
	go w.run()
	return w
}

// do queues fn and waits for its commit. ctx only bounds the wait for a place in the queue. A
// queued write always runs, and not under ctx, because cancelling it would interrupt the
// transaction of all callers.
func (w *writer) do(ctx context.Context, fn func(ctx context.Context, q querier) error) error {
	always := context.WithoutCancel(ctx)
	o := group.NewOp(func(q querier) error { return fn(always, q) })
	if err := w.queue.Send(ctx, o); err != nil {
		return err
	}
	return o.Wait(always)
}

// stop commits what was accepted before it.
func (w *writer) stop() {
	w.queue.Stop()
	<-w.done
}

func (w *writer) run() {
	defer close(w.done)
	w.queue.Serve(maxGroup, 0, w.commit)
}

// commit runs the batch in one transaction, each write in a savepoint so that its failure does not
// affect the others, and reports the outcome to every caller. It returns the number of callers.
func (w *writer) commit(batch []*op) (callers int) {
	err := w.transact(batch)
	callers = len(batch) + w.queue.Len()
	for _, o := range batch {
		// A write that failed on its own reports its own error, whatever happened to the others.
		if o.Err == nil {
			o.Err = err
		}
		o.Finish()
	}
	return callers
}

func (w *writer) transact(batch []*op) error {
	ctx := context.Background()
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for _, o := range batch {
		if err := savepoint(ctx, tx, o, len(batch) > 1); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	if len(batch) == 1 && batch[0].Err != nil {
		return tx.Rollback()
	}
	return tx.Commit()
}

// savepoint runs one write. Only a failure to roll back to the savepoint fails the whole
// transaction.
func savepoint(ctx context.Context, tx *sql.Tx, o *op, shared bool) error {
	if !shared {
		o.Err = o.Run(tx)
		return nil
	}
	if _, err := tx.ExecContext(ctx, "SAVEPOINT op"); err != nil {
		return err
	}
	if o.Err = o.Run(tx); o.Err != nil {
		if _, err := tx.ExecContext(ctx, "ROLLBACK TO op"); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, "RELEASE op")
	return err
}
