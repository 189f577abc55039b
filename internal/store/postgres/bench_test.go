package postgres_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// benchURL returns an empty database on the server to measure. The tests' temporary server does not
// sync to disk: for meaningful numbers set BLOOM_BENCH_DATABASE_URL to a real one, whose user may
// create databases.
func benchURL(b *testing.B) string {
	server := os.Getenv("BLOOM_BENCH_DATABASE_URL")
	if server == "" {
		return pgtest.Start(b)
	}
	name := "bloom_bench_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	admin := connect(b, server)
	if _, err := admin.Exec(b.Context(), "CREATE DATABASE "+name); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		c, err := pgx.Connect(context.Background(), server)
		if err == nil {
			_, err = c.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)")
			_ = c.Close(context.Background())
		}
		if err != nil {
			b.Error(err)
		}
	})
	u, err := url.Parse(server)
	if err != nil {
		b.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func benchStore(b *testing.B, at string) *postgres.Store {
	b.Helper()
	s, err := postgres.Open(b.Context(), postgres.Config{URL: at, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// BenchmarkBySize calls the hot operations sequentially with more and more stored tasks: four
// tenths are queued, a third of those open to claims. BLOOM_BENCH_SIZES sets other sizes.
func BenchmarkBySize(b *testing.B) {
	sizes := "10000"
	if env := os.Getenv("BLOOM_BENCH_SIZES"); env != "" {
		sizes = env
	}
	for size := range strings.SplitSeq(sizes, ",") {
		b.Run("tasks="+size, func(b *testing.B) {
			at := benchURL(b)
			s := benchStore(b, at)
			c := connect(b, at)
			if _, err := c.Exec(b.Context(), strings.ReplaceAll(fill, "30000", size)); err != nil {
				b.Fatal(err)
			}
			if _, err := c.Exec(b.Context(), "SELECT setval('llm_tasks_seq', 1000 + "+size+")"); err != nil {
				b.Fatal(err)
			}
			if _, err := c.Exec(b.Context(), "VACUUM ANALYZE"); err != nil {
				b.Fatal(err)
			}
			storetest.AddWorkers(b, s, 4)
			bySize(b, s)
		})
	}
}

func bySize(b *testing.B, s *postgres.Store) {
	ctx := context.Background()
	run := func(name string, fn func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := fn(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("lifecycle", func() error { return storetest.Lifecycle(s, uuid.NewString()) })
	run("claim+complete", func() error {
		r, err := s.Claim(ctx, contract.ClaimRequest{WorkerID: "worker-00", Max: 1})
		if err == nil && len(r.Leases) == 1 {
			_, err = s.Complete(ctx, storetest.Success(r.Leases[0].Task.ID, r.Leases[0].Lease.ID))
		}
		return err
	})
	run("idle look", func() error {
		_, err := s.Claim(ctx, contract.ClaimRequest{WorkerID: "worker-00"})
		return err
	})
	run("stats", func() error { _, err := s.Stats(ctx); return err })
	run("list", func() error { _, _, err := s.Tasks(ctx, bloom.TaskQuery{}); return err })
	run("list failed", func() error {
		_, _, err := s.Tasks(ctx, bloom.TaskQuery{Status: bloom.TaskFailed})
		return err
	})
	run("list completed", func() error {
		_, _, err := s.Tasks(ctx, bloom.TaskQuery{Status: bloom.TaskCompleted})
		return err
	})
	run("audit", func() error { _, _, err := s.Audit(ctx, bloom.AuditQuery{}); return err })
}

// BenchmarkByWorkers runs lifecycles whose leases name no worker, with more and more online
// workers, all equally free.
func BenchmarkByWorkers(b *testing.B) {
	for _, workers := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			at := benchURL(b)
			s := benchStore(b, at)
			_, err := connect(b, at).Exec(b.Context(), `INSERT INTO workers (id, node_id, status, claude_cli, max_concurrency, labels, last_heartbeat, registered_at)
				SELECT 'w' || n, 'w' || n, 'online', true, 4, '["linux","arm64"]', (extract(epoch FROM now()) * 1000)::bigint + n, 1 FROM generate_series(1, $1::int) n`, workers)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := storetest.Lifecycle(s, uuid.NewString()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLifecycle measures create, lease, heartbeat and complete as separate calls.
func BenchmarkLifecycle(b *testing.B) {
	for _, clients := range []int{1, 16, 32} {
		b.Run(fmt.Sprintf("c=%d", clients), func(b *testing.B) {
			s := benchStore(b, benchURL(b))
			storetest.AddWorkers(b, s, 4)
			var left atomic.Int64
			left.Store(int64(b.N))
			errs := make(chan error, clients)
			took := make([][]time.Duration, clients)
			b.ReportAllocs()
			b.ResetTimer()
			for c := range clients {
				go func() {
					var err error
					for i := 0; err == nil && left.Add(-1) >= 0; i++ {
						began := time.Now()
						err = storetest.Lifecycle(s, uuid.NewString())
						took[c] = append(took[c], time.Since(began))
					}
					errs <- err
				}()
			}
			for range clients {
				if err := <-errs; err != nil {
					b.Error(err)
				}
			}
			all := slices.Concat(took...)
			slices.Sort(all)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lifecycles/s")
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// BenchmarkSearch measures a search among 100,000 tasks.
func BenchmarkSearch(b *testing.B) {
	at := benchURL(b)
	storetest.BenchSearch(b, benchStore(b, at), func() (index, others int64) {
		err := connect(b, at).QueryRow(b.Context(), `SELECT pg_total_relation_size('task_search'), sum(pg_total_relation_size(oid))::bigint - pg_total_relation_size('task_search')
			FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace`).Scan(&index, &others)
		if err != nil {
			b.Fatal(err)
		}
		return index, others
	})
}
