package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// prompt is what the Go benchmarks of our stores use.
const prompt = "Write a line about the weather in a town by the sea."

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
			// Chance keeps the inserts out of step with River's own interval.
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
