package sqlite_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

func benchStore(b *testing.B) *sqlite.Store {
	b.Helper()
	s, err := sqlite.Open(b.Context(), sqlite.Config{Path: filepath.Join(b.TempDir(), "bloom.db"), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func addWorkers(b *testing.B, s bloom.Store, n int) {
	b.Helper()
	for i := range n {
		if _, _, err := s.RegisterWorker(context.Background(), bloom.WorkerSpec{
			Name: fmt.Sprintf("worker-%02d", i), Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 32},
		}, "bench"); err != nil {
			b.Fatal(err)
		}
	}
}

func spec(contextID string) bloom.NewTask {
	return bloom.NewTask{ID: uuid.Must(uuid.NewV7()).String(), Actor: "bench", BodyHash: "0123456789abcdef0123456789abcdef", Spec: bloom.TaskSpec{
		ContextID: contextID, AgentSlug: "writer", Prompt: "Write a line about the weather in a town by the sea.", MaxAttempts: 3,
	}}
}

func completion(taskID, leaseID string) bloom.CompleteRequest {
	out := "The wind turned at noon and the gulls came in with it."
	return bloom.CompleteRequest{
		TaskID: taskID, ArtifactID: uuid.Must(uuid.NewV7()).String(), ResultID: uuid.Must(uuid.NewV7()).String(), BodyHash: "h", Actor: "bench",
		Content: &out, Size: int64(len(out)), SHA256: "s", MediaType: "text/plain",
		Completion: bloom.Completion{LeaseID: leaseID, Status: bloom.OutcomeSuccess, Output: &out},
	}
}

// BenchmarkLifecycle is create, lease, heartbeat, complete, each its own call.
func BenchmarkLifecycle(b *testing.B) {
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprintf("c=%d", clients), func(b *testing.B) {
			s := benchStore(b)
			addWorkers(b, s, 4)
			var left atomic.Int64
			left.Store(int64(b.N))
			errs := make(chan error, clients)
			b.ReportAllocs()
			b.ResetTimer()
			for c := range clients {
				go func() {
					var err error
					for i := 0; err == nil && left.Add(-1) >= 0; i++ {
						err = lifecycle(s, fmt.Sprintf("context-%d-%d", c, i))
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

func lifecycle(s bloom.Store, contextID string) error {
	ctx := context.Background()
	n := spec(contextID)
	if _, _, err := s.CreateTask(ctx, n); err != nil {
		return err
	}
	l, _, err := s.LeaseTask(ctx, bloom.LeaseRequest{TaskID: n.ID, Actor: "bench"})
	if err != nil {
		return err
	}
	if _, err := s.Heartbeat(ctx, n.ID, l.ID); err != nil {
		return err
	}
	_, err = s.Complete(ctx, completion(n.ID, l.ID))
	return err
}

// BenchmarkCrowd leases among thousands of workers.
func BenchmarkCrowd(b *testing.B) {
	for _, workers := range []int{10, 3000} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			s := benchStore(b)
			addWorkers(b, s, workers)
			for i := 0; b.Loop(); i++ {
				if err := lifecycle(s, fmt.Sprint("context-", i)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPrompt shows what the length of a prompt costs beyond its writing.
func BenchmarkPrompt(b *testing.B) {
	for _, size := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			s := benchStore(b)
			addWorkers(b, s, 4)
			prompt := strings.Repeat("x", size)
			ctx := context.Background()
			for b.Loop() {
				n := spec("c")
				n.Spec.Prompt = prompt
				if _, _, err := s.CreateTask(ctx, n); err != nil {
					b.Fatal(err)
				}
				l, _, err := s.LeaseTask(ctx, bloom.LeaseRequest{TaskID: n.ID, Actor: "bench"})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := s.Heartbeat(ctx, n.ID, l.ID); err != nil {
					b.Fatal(err)
				}
				if _, err := s.Complete(ctx, completion(n.ID, l.ID)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
