package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// ahead is the machine's clock, moved forward by a test.
type ahead struct{ by atomic.Int64 }

func (a *ahead) Now() time.Time { return time.Now().Add(time.Duration(a.by.Load())) }

// BenchmarkWorkerSync measures one round of the sync, ten seconds after the previous one: a real
// control plane over HTTP, the real client and the real store, with a new contact of every agent.
// Tasks are created at the same time, to see how much the round delays others that use the store.
func BenchmarkWorkerSync(b *testing.B) {
	for _, agents := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprintf("agents=%d", agents), func(b *testing.B) {
			url := filled(b, agents)
			cfg := serverConfigAt(b.TempDir())
			cfg.MembridgeServerURL, cfg.MembridgeAdminKey = url, key
			plane, err := app.NewControlPlane(cfg)
			if err != nil {
				b.Fatal(err)
			}
			clock := &ahead{}
			store, err := sqlite.Open(b.Context(), sqlite.Config{Path: filepath.Join(b.TempDir(), "bloom.db"), Clock: clock, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = store.Close() })
			loop := maintenance.NewWorkerSync(maintenance.WorkerSyncConfig{Store: store, ControlPlane: plane})
			if _, err := loop.RunOnce(b.Context()); err != nil {
				b.Fatal(err)
			}
			slowest := beside(b, store)
			for b.Loop() {
				clock.by.Add(int64(10 * time.Second))
				if _, err := loop.RunOnce(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(slowest().Microseconds())/1000, "ms/slowest-create")
			workers, err := store.Workers(b.Context())
			if err != nil || len(workers) != agents {
				b.Fatalf("%d workers, %v", len(workers), err)
			}
		})
	}
}

// filled starts a control plane on a real port with so many agents.
func filled(b *testing.B, agents int) string {
	s, err := membridge.Open(b.Context(), membridge.Config{DatabasePath: filepath.Join(b.TempDir(), "m.db"), AdminKey: key, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	b.Cleanup(func() { s.Quiesce(); web.Close(); _ = s.Close() })
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 64 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(agents); i = next.Add(1) {
				body := fmt.Sprintf(`{"name":"agent-%05d","status":"online","ip_addrs":["10.0.0.1"],"capabilities":{"max_concurrency":2,"labels":["production"]}}`, i)
				r := httptest.NewRequest(http.MethodPost, "/agents", strings.NewReader(body))
				r.Header.Set(membridge.AdminHeader, key)
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				if s.Handler().ServeHTTP(w, r); w.Code != http.StatusCreated {
					b.Errorf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
	wg.Wait()
	return web.URL
}

// beside creates tasks until slowest is called, which returns how long the slowest took.
func beside(b *testing.B, store contract.Store) (slowest func() time.Duration) {
	ctx, stop := context.WithCancel(context.Background())
	most := make(chan time.Duration)
	go func() {
		var worst time.Duration
		for i := 0; ctx.Err() == nil; i++ {
			began := time.Now()
			_, _, err := store.CreateTask(context.Background(), contract.NewTask{ID: fmt.Sprintf("00000000-0000-7000-8000-%012d", i), BodyHash: "h", Spec: bloom.TaskSpec{
				ContextID: "c", AgentSlug: "a", Prompt: "p", MaxAttempts: 3, DesiredFormat: "text", Policy: bloom.Policy{TimeoutSec: 120},
			}})
			if err != nil {
				b.Error(err)
				break
			}
			worst = max(worst, time.Since(began))
		}
		most <- worst
	}()
	return func() time.Duration { stop(); return <-most }
}
