package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/config"
)

// TestAnOrderBeforeTheRuntimeIsKnownIsHeardByTheNextLife stops a worker that was
// ordered to rest while membridge did not know where the runtime is.
func TestAnOrderBeforeTheRuntimeIsKnownIsHeardByTheNextLife(t *testing.T) {
	t.Parallel()
	answer := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
	ended := make(chan struct{})
	told := make(chan int64, 1)
	runtime := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var spec struct {
			Draining   bool  `json:"draining"`
			DrainOrder int64 `json:"drain_order"`
			Wait       int   `json:"wait_sec"`
		}
		if _ = json.NewDecoder(r.Body).Decode(&spec); spec.Draining {
			select {
			case told <- spec.DrainOrder:
			default:
			}
		}
		if spec.Wait > 0 { // a poll, which an order interrupts
			select {
			case <-r.Context().Done():
			case <-ended:
			}
		}
		answer(w, map[string]any{"id": "w", "draining": spec.Draining})
	}))
	defer runtime.Close()
	defer close(ended)
	dir, claude := t.TempDir(), fakeClaude(t)
	// during runs the worker while membridge says where the runtime is, and calls f
	// with the orders that the worker's heartbeats say it has heard of.
	during := func(address string, f func(heard <-chan int64)) {
		heard := make(chan int64, 1)
		bridge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var beat struct {
				DrainOrder int64 `json:"drain_order"`
			}
			if _ = json.NewDecoder(r.Body).Decode(&beat); beat.DrainOrder == 3 {
				select {
				case heard <- beat.DrainOrder:
				default:
				}
			}
			answer(w, map[string]any{"name": "w", "drain": true, "drain_order": 3, "runtime_url": address})
		}))
		defer bridge.Close()
		w, err := app.OpenWorker(app.WorkerConfig{DataDir: dir, Membridge: app.MembridgeAccount{URL: bridge.URL, AgentKey: key},
			Run: config.Run{Name: "w", MaxConcurrency: 1, Claude: claude, Workdir: filepath.Join(dir, "work"), LeaseTTL: time.Minute,
				DrainGrace: time.Second, AnnounceEvery: 50 * time.Millisecond}}, build())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		over := make(chan error, 1)
		go func() { over <- w.Run(ctx, context.Background()) }()
		f(heard)
		stop()
		if err := <-over; err != nil {
			t.Errorf("it ended with %v", err)
		}
	}
	within := func(c <-chan int64, what string) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(20 * time.Second):
			t.Error(what)
		}
	}
	during("", func(heard <-chan int64) { within(heard, "the order is not heard of") })
	during(runtime.URL, func(<-chan int64) { within(told, "the runtime is not told of the order") })
}
