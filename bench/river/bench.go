package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"golang.org/x/sync/errgroup"
)

// bench is a database with River's tables.
type bench struct {
	options
	pool *pgxpool.Pool
}

// open installs River's tables in an empty database.
func open(ctx context.Context, o options) (*bench, error) {
	config, err := pgxpool.ParseConfig(o.databaseURL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(o.connections)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, pool: pool}
	if err := b.install(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return b, nil
}

func (b *bench) install(ctx context.Context) error {
	var tables int
	if err := b.pool.QueryRow(ctx, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").Scan(&tables); err != nil {
		return err
	}
	if tables > 0 {
		return errors.New("the database is not empty")
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(b.pool), &rivermigrate.Config{Logger: quiet()})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// clear forgets all jobs, and has nothing left to write that the next
// measurement would pay for.
func (b *bench) clear(ctx context.Context) error {
	if _, err := b.pool.Exec(ctx, "TRUNCATE river_job"); err != nil {
		return err
	}
	_, err := b.pool.Exec(ctx, "CHECKPOINT")
	return err
}

// client inserts, and works as well when it is started.
func (b *bench) client(p pace, started func()) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{started: started})
	return river.NewClient(riverpgxv5.New(b.pool), &river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: b.maxWorkers}},
		Workers:           workers,
		FetchCooldown:     p.cooldown,
		FetchPollInterval: p.poll,
		Logger:            quiet(),
	})
}

// insert fills the queue for the duration, each client one job after the other,
// and returns how many there are.
func (b *bench) insert(ctx context.Context, c *river.Client[pgx.Tx]) (int64, error) {
	var inserted atomic.Int64
	end := time.Now().Add(b.duration)
	group, inserting := errgroup.WithContext(ctx)
	for range b.clients {
		group.Go(func() error {
			for time.Now().Before(end) {
				if _, err := c.Insert(inserting, job{Prompt: prompt}, nil); err != nil {
					return err
				}
				inserted.Add(1)
			}
			return nil
		})
	}
	err := group.Wait()
	return inserted.Load(), err
}

// stop lets the client finish, also after an interrupt.
func (b *bench) stop(c *river.Client[pgx.Tx]) error {
	ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	return c.StopAndCancel(ctx)
}

// job is what is inserted.
type job struct {
	Prompt string `json:"prompt"`
}

// Kind names the job for River.
func (job) Kind() string { return "bench" }

// worker only records that it was called.
type worker struct {
	river.WorkerDefaults[job]
	started func()
}

// Work is called by River.
func (w *worker) Work(context.Context, *river.Job[job]) error {
	w.started()
	return nil
}

// quiet drops River's log: what goes wrong is returned.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
