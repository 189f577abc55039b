package sqlite_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

func benchStore(b *testing.B) *sqlite.Store {
	b.Helper()
	return benchStoreAt(b, filepath.Join(b.TempDir(), "bloom.db"))
}

func benchStoreAt(b *testing.B, path string) *sqlite.Store {
	b.Helper()
	s, err := sqlite.Open(b.Context(), sqlite.Config{Path: path, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// BenchmarkLifecycle measures create, lease, heartbeat and complete as separate calls.
func BenchmarkLifecycle(b *testing.B) {
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprintf("c=%d", clients), func(b *testing.B) {
			s := benchStore(b)
			storetest.AddWorkers(b, s, 4)
			var left atomic.Int64
			left.Store(int64(b.N))
			errs := make(chan error, clients)
			b.ReportAllocs()
			b.ResetTimer()
			for c := range clients {
				go func() {
					var err error
					for i := 0; err == nil && left.Add(-1) >= 0; i++ {
						err = storetest.Lifecycle(s, fmt.Sprintf("context-%d-%d", c, i))
					}
					errs <- err
				}()
			}
			for range clients {
				if err := <-errs; err != nil {
					b.Error(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lifecycles/s")
		})
	}
}

// BenchmarkCrowd measures leases among thousands of workers.
func BenchmarkCrowd(b *testing.B) {
	for _, workers := range []int{10, 3000} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			s := benchStore(b)
			storetest.AddWorkers(b, s, workers)
			for i := 0; b.Loop(); i++ {
				if err := storetest.Lifecycle(s, fmt.Sprint("context-", i)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPrompt measures the cost of a long prompt beyond writing it.
func BenchmarkPrompt(b *testing.B) {
	for _, size := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			s := benchStore(b)
			storetest.AddWorkers(b, s, 4)
			prompt := strings.Repeat("x", size)
			ctx := context.Background()
			for b.Loop() {
				n := storetest.Plain("c")
				n.Spec.Prompt = prompt
				if _, _, err := s.CreateTask(ctx, n); err != nil {
					b.Fatal(err)
				}
				l, _, err := s.LeaseTask(ctx, contract.LeaseRequest{TaskID: n.ID, Actor: "bench"})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := s.Heartbeat(ctx, n.ID, l.ID, nil); err != nil {
					b.Fatal(err)
				}
				if _, err := s.Complete(ctx, storetest.Success(n.ID, l.ID)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSearch measures a search among 100,000 tasks.
func BenchmarkSearch(b *testing.B) {
	path := filepath.Join(b.TempDir(), "bloom.db")
	storetest.BenchSearch(b, benchStoreAt(b, path), func() (index, others int64) { return fileSize(b, path+".search"), fileSize(b, path) })
}

func fileSize(b *testing.B, path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}
