package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/porttest"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// faultyServer answers like a broken membridge.
func faultyServer(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	gone := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-gone:
		default:
			answer(w, r)
		}
	}))
	t.Cleanup(func() { close(gone); s.CloseClientConnections(); s.Close() })
	return s
}

// TestAFaultyMembridgeDoesNotAffectTheServer points a server, with POST /config, to one faulty
// membridge after another, and uses the proxy and health in the meantime. It counts goroutines, and
// therefore runs in a separate process.
func TestAFaultyMembridgeDoesNotAffectTheServer(t *testing.T) {
	t.Parallel()
	if os.Getenv(aloneEnv) == "" {
		alone(t)
		return
	}
	const patience = 250 * time.Millisecond
	faulty := []struct {
		name string
		*httptest.Server
		want string
	}{
		{"hangs", faultyServer(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), "did not answer within"},
		{"answers 500", faultyServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }), "answered 500"},
		{"answers garbage", faultyServer(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>\x00") }), "may not be membridge"},
		{"answers another question", faultyServer(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"ok":true}`) }), "may not be membridge"},
		{"lists no agents", faultyServer(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `[1,2]`) }), "may not be membridge"},
		{"begins and drips", faultyServer(t, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, " "); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(10 * time.Millisecond):
				case <-r.Context().Done():
				}
			}
		}), "did not answer within"},
		{"refuses the key", faultyServer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"detail":"Invalid admin key"}`)
		}), "refused the key"},
		{"is a proxy that wants a password", faultyServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }), "may not be membridge"},
		{"is gone", &httptest.Server{URL: "http://" + porttest.Address(t)}, "refused"},
	}
	cfg := serverConfig(t)
	cfg.SyncInterval, cfg.BridgeTimeout = 5*time.Millisecond, patience
	s, err := app.OpenServer(t.Context(), cfg, build())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, context.Background()) }()
	api, err := client.New(s.URL(), client.Options{Retry: client.NoRetry})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		api.Close()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("it closed with %v", err)
		}
	}()
	most := 0
	for round := range 2 {
		for _, m := range faulty {
			if _, err := api.SaveConfig(t.Context(), m.URL, fmt.Sprint("a-key-of-round-", round)); err != nil {
				t.Fatal(err)
			}
			state := health(t, api, func(h *client.MembridgeHealth) bool {
				return !h.Connected && h.ConsecutiveFailures >= 2 && h.LastError != nil && strings.Contains(*h.LastError, m.want)
			})
			if strings.Contains(*state.LastError, "127.0.0.1") {
				t.Errorf("%s: an address in %q", m.name, *state.LastError)
			}
			if found, err := api.TestConnection(t.Context()); err != nil || found.Connected || found.Error == "" {
				t.Errorf("%s: test-connection: %+v, %v", m.name, found, err)
			}
			works(t, api)
		}
		// What one round leaves may stay, and what each round adds is a leak. Idle connections are
		// neither: their number is random.
		api.Close()
		for _, m := range faulty {
			if m.Config != nil {
				m.CloseClientConnections()
			}
		}
		n := settled()
		if round > 0 && n > most+5 {
			t.Fatalf("%d goroutines after round %d, %d before", n, round, most)
		}
		most = max(most, n)
	}
	// A slow membridge that answers in time is not a failure.
	slow := faultyServer(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(patience / 8):
			io.WriteString(w, `{"agents":[{"name":"slow-but-sure","status":"online"}]}`)
		case <-r.Context().Done():
		}
	})
	if _, err := api.SaveConfig(t.Context(), slow.URL, "a-key"); err != nil {
		t.Fatal(err)
	}
	health(t, api, func(h *client.MembridgeHealth) bool { return h.Connected && h.ConsecutiveFailures == 0 })
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if w, err := api.Worker(t.Context(), "slow-but-sure"); err == nil && w.Status == bloom.WorkerOnline {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("its agent never became a worker")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// aloneEnv marks the separate process of a test.
const aloneEnv = "BLOOM_TEST_ALONE"

// alone runs the test in another process, where no other test runs.
func alone(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), aloneEnv+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v:\n%s", err, out)
	}
}

// TestInvalidAgentEntriesAreCountedAndLoggedOnce has a membridge list two valid agents and two
// invalid entries.
func TestInvalidAgentEntriesAreCountedAndLoggedOnce(t *testing.T) {
	t.Parallel()
	var rounds atomic.Int64
	odd := faultyServer(t, func(w http.ResponseWriter, _ *http.Request) {
		rounds.Add(1)
		io.WriteString(w, `[{"name":"one","status":"online"},{"name":7},{"no":"name"},{"name":"two","status":"online"}]`)
	})
	cfg := serverConfig(t)
	cfg.SyncInterval, cfg.BridgeTimeout, cfg.MembridgeServerURL = 5*time.Millisecond, time.Minute, odd.URL
	var log safeLog
	s, err := app.OpenServer(t.Context(), cfg, app.Build{Version: "test", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, context.Background()) }()
	api, err := client.New(s.URL(), client.Options{Retry: client.NoRetry})
	if err != nil {
		t.Fatal(err)
	}
	state := health(t, api, func(h *client.MembridgeHealth) bool { return h.Connected && h.SkippedAgents > 0 && rounds.Load() > 5 })
	if state.SkippedAgents != 2 || state.SkippedWhy != "entry 2 is not an agent" {
		t.Errorf("health: %s", storable.MustJSON(state))
	}
	for _, name := range []string{"one", "two"} {
		if _, err := api.Worker(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	api.Close()
	stop()
	if err := errors.Join(<-ended, s.Close()); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "ignoring invalid agent entries of membridge"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}

// works creates a task, which a faulty membridge must not delay.
func works(t *testing.T, api *client.Client) {
	t.Helper()
	if _, err := api.Submit(t.Context(), bloom.TaskSpec{ContextID: "c", AgentSlug: "a", Prompt: "p"}); err != nil {
		t.Error(err)
	}
}

// health waits until the connection to membridge is as wanted, and returns it.
func health(t *testing.T, api *client.Client, want func(*client.MembridgeHealth) bool) *client.MembridgeHealth {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		h, err := api.Health(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if h.Disk == nil || h.Disk.Free == 0 || h.Disk.Total < h.Disk.Free {
			t.Fatalf("the space of the data directory is %+v", h.Disk)
		}
		if h.Membridge != nil && want(h.Membridge) {
			return h.Membridge
		}
		if time.Now().After(deadline) {
			t.Fatalf("health never said so: %s", storable.MustJSON(h))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// settled returns the number of goroutines once it stops falling.
func settled() int {
	n := runtime.NumGoroutine()
	for range 50 {
		runtime.Gosched()
		time.Sleep(10 * time.Millisecond)
		n = min(n, runtime.NumGoroutine())
	}
	return n
}
