package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/config"
)

// TestAStartingWorkerReadsItsDrainStateBeforeItClaims starts a worker that membridge drained while
// it was down, which its runtime does not know.
func TestAStartingWorkerReadsItsDrainStateBeforeItClaims(t *testing.T) {
	t.Parallel()
	answer := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
	ended, polled := make(chan struct{}), make(chan struct{}, 1)
	var said atomic.Bool // membridge has responded
	start := time.Now()
	waits := func() bool { return time.Since(start) < 3*time.Second } // afterwards it starts by itself
	runtime := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sent struct {
			Draining *bool `json:"draining"`
			Max      int   `json:"max"`
			Wait     int   `json:"wait_sec"`
		}
		_ = json.NewDecoder(r.Body).Decode(&sent)
		claim := strings.HasSuffix(r.URL.Path, "/claim")
		switch {
		case !said.Load():
			if waits() {
				t.Error("the worker sends a request before membridge has responded")
			}
		case claim && sent.Max != 0:
			t.Errorf("it claims %d tasks", sent.Max)
		case !claim && r.Method == http.MethodPost && (sent.Draining == nil || !*sent.Draining):
			select {
			case <-ended: // the last heartbeat does not contain it
			default:
				t.Error("it registers without saying that membridge drains it")
			}
		}
		if sent.Wait > 0 {
			select {
			case polled <- struct{}{}:
			default:
			}
			select {
			case <-r.Context().Done():
			case <-ended:
			}
		}
		answer(w, map[string]any{"id": "w"})
	}))
	defer runtime.Close()
	bridge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/heartbeat") && !said.Load() {
			select { // long enough for a worker that does not wait
			case <-time.After(300 * time.Millisecond):
			case <-r.Context().Done():
			}
			said.Store(true)
		}
		answer(w, map[string]any{"name": "w", "drain": true})
	}))
	defer bridge.Close()
	dir := t.TempDir()
	w, err := app.OpenWorker(app.WorkerConfig{DataDir: dir, URL: runtime.URL, Membridge: app.MembridgeAccount{URL: bridge.URL, AgentKey: key},
		Run: config.Run{Name: "w", MaxConcurrency: 1, Claude: fakeClaude(t), Workdir: filepath.Join(dir, "work"), LeaseTTL: time.Minute,
			DrainGrace: time.Second, AnnounceEvery: 50 * time.Millisecond}}, build())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx, context.Background()) }()
	select {
	case <-polled:
	case <-time.After(2 * time.Minute):
		t.Error("it does not ask the runtime for anything")
	}
	close(ended)
	stop()
	if err := <-over; err != nil {
		t.Errorf("it ended with %v", err)
	}
}
