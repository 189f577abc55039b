package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"golang.org/x/sync/errgroup"
)

// prompt is what the Go benchmarks of our stores use.
const prompt = "Write a line about the weather in a town by the sea."

// job is what is inserted.
type job struct {
	Prompt string `json:"prompt"`
}

// Kind names the job for River.
func (job) Kind() string { return "bench" }

// worker does nothing but tell that it was called.
type worker struct {
	river.WorkerDefaults[job]
	started func()
}

// Work is called by River.
func (w *worker) Work(context.Context, *river.Job[job]) error {
	w.started()
	return nil
}

// bench is a database with River's tables.
type bench struct {
	options
	pool *pgxpool.Pool
}

func measure(ctx context.Context, o options) (*report, error) {
	b, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer b.pool.Close()
	r := &report{Clients: o.clients, MaxWorkers: o.maxWorkers, Connections: o.connections}
	if err := b.pool.QueryRow(ctx, "SHOW server_version").Scan(&r.PostgreSQL); err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() (err error) { r.Inserted, err = b.inserts(ctx); return },
		func() (err error) { r.WorkedDefault, err = b.works(ctx, defaults); return },
		func() (err error) { r.WorkedTuned, err = b.works(ctx, tuned); return },
		func() (err error) { r.AloneDefault, err = b.waits(ctx, defaults, b.pause); return },
		func() (err error) { r.AloneTuned, err = b.waits(ctx, tuned, b.pause); return },
		func() (err error) { r.AfterDefault, err = b.waits(ctx, defaults, 0); return },
		func() (err error) { r.AfterTuned, err = b.waits(ctx, tuned, 0); return },
	} {
		if err := b.clear(ctx); err != nil {
			return nil, err
		}
		if err := step(); err != nil {
			return nil, err
		}
	}
	return r, nil
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

func (b *bench) inserts(ctx context.Context) (rate, error) {
	c, err := b.client(defaults, func() {})
	if err != nil {
		return rate{}, err
	}
	began := time.Now()
	n, err := b.insert(ctx, c)
	return newRate(n, time.Since(began)), err
}

// works counts from the first insert until no job is left that is not completed.
func (b *bench) works(ctx context.Context, p pace) (_ rate, err error) {
	var worked atomic.Int64
	c, err := b.client(p, func() { worked.Add(1) })
	if err != nil {
		return rate{}, err
	}
	if err := c.Start(ctx); err != nil {
		return rate{}, err
	}
	defer func() { err = errors.Join(err, b.stop(c)) }()
	began := time.Now()
	n, err := b.insert(ctx, c)
	if err != nil {
		return rate{}, err
	}
	for left := true; left; {
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return rate{}, err
		}
		if worked.Load() < n {
			continue // the table need not be read to know
		}
		if err := b.pool.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM river_job WHERE state <> 'completed')").Scan(&left); err != nil {
			return rate{}, err
		}
	}
	took := time.Since(began)
	var completed int64
	if err := b.pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = 'completed'").Scan(&completed); err != nil {
		return rate{}, err
	}
	if completed != n {
		return rate{}, fmt.Errorf("%d jobs were inserted, %d are completed", n, completed)
	}
	return newRate(n, took), nil
}

// waits measures from the call that inserts a job until its work starts, while
// nothing else is to be done: after a pause, or right after the job before.
func (b *bench) waits(ctx context.Context, p pace, pause time.Duration) (_ latencies, err error) {
	started := make(chan time.Time, 1)
	c, err := b.client(p, func() { started <- time.Now() })
	if err != nil {
		return latencies{}, err
	}
	if err := c.Start(ctx); err != nil {
		return latencies{}, err
	}
	defer func() { err = errors.Join(err, b.stop(c)) }()
	took := make([]time.Duration, 0, b.samples)
	for range b.samples {
		if pause > 0 {
			// Chance keeps the inserts out of step with River's own beat.
			if err := sleep(ctx, pause/2+rand.N(pause)); err != nil {
				return latencies{}, err
			}
		}
		began := time.Now()
		if _, err := c.Insert(ctx, job{Prompt: prompt}, nil); err != nil {
			return latencies{}, err
		}
		select {
		case at := <-started:
			took = append(took, at.Sub(began))
		case <-time.After(time.Minute):
			return latencies{}, errors.New("a job was not worked within a minute")
		case <-ctx.Done():
			return latencies{}, ctx.Err()
		}
	}
	return newLatencies(took), nil
}

// stop lets the client finish, also after an interrupt.
func (b *bench) stop(c *river.Client[pgx.Tx]) error {
	ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	return c.StopAndCancel(ctx)
}

func newRate(n int64, took time.Duration) rate {
	return rate{Jobs: n, Seconds: took.Seconds(), PerSecond: float64(n) / took.Seconds()}
}

func newLatencies(took []time.Duration) latencies {
	slices.Sort(took)
	at := func(percent int) float64 {
		return float64(took[(len(took)-1)*percent/100].Microseconds()) / 1000
	}
	return latencies{Samples: len(took), P50: at(50), P99: at(99), Max: at(100)}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// quiet drops River's log: what goes wrong is returned.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
