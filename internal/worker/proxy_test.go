package worker_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/proxytest"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
	"github.com/bloom-runtime/bloom/internal/worker"
)

// stepOf names a worker's request: register, claim, heartbeat, events, complete or
// release.
func stepOf(r *http.Request) string {
	switch path := strings.TrimPrefix(r.URL.Path, "/api/runtime"); {
	case r.Method != http.MethodPost:
		return ""
	case path == "/workers":
		return "register"
	default:
		return path[strings.LastIndexByte(path, '/')+1:]
	}
}

// TestAProxysResponseIsNotTheServers has a proxy answer each of a worker's requests
// instead of the server, in every way that a proxy might. Nothing is lost or refused.
func TestAProxysResponseIsNotTheServers(t *testing.T) {
	t.Parallel()
	for name, answer := range proxytest.Answers {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			proxy := proxytest.New(t, h.rt.URL)
			api, err := client.New(proxy.URL, client.Options{APIKey: runtimetest.AdminKey})
			if err != nil {
				t.Fatal(err)
			}
			defer api.Close()
			proxy.Answer(answer, stepOf, 1, "register", "claim", "heartbeat", "events", "complete", "release")
			l := h.start(func(c *worker.Config) {
				c.Client, c.Capabilities.MaxConcurrency = api, 1
				c.LeaseTTL = 10 * time.Minute // nothing expires while the machine is slow
			})

			back := h.rt.Submit("first", "to be given back")
			h.runner.next(t).end <- attempt.Run{Release: &bloom.ReleaseSpec{Reason: "not now"}}
			again := h.runner.next(t)
			if again.task.ID != back.ID {
				t.Fatalf("ran %s, want %s again", again.task.ID, back.ID)
			}
			again.emit("text", "a word")
			again.end <- success("kept")
			done := h.until(back.ID, bloom.TaskCompleted)
			if done.Attempts != 1 {
				t.Errorf("it took %d attempts", done.Attempts)
			}
			results, err := h.api.Results(t.Context(), back.ID)
			if err != nil || len(results) != 1 || *results[0].Output != "kept" {
				t.Errorf("results %+v, %v", results, err)
			}
			if left := proxy.Left(); len(left) != 0 {
				t.Errorf("the proxy was not asked for %v", left)
			}
			if set, _ := os.ReadDir(filepath.Join(h.dir, "outbox", "refused")); len(set) != 0 {
				t.Errorf("set aside: %v", set)
			}
			words := 0
			for _, e := range h.events(back.ID) {
				if e.Type == "text" {
					words++
				}
			}
			if words != 1 {
				t.Errorf("%d of 1 events arrived", words)
			}
			if s := l.w.Status(); s.Lost != 0 || s.Refused != 0 {
				t.Errorf("%d leases lost, %d outcomes refused", s.Lost, s.Refused)
			}
		})
	}
}

// runnerEndingLate succeeds, but only after its lease was lost.
type runnerEndingLate struct{ began chan struct{} }

func (s runnerEndingLate) Run(ctx context.Context, _ bloom.Task, _ func(string, any)) attempt.Run {
	close(s.began)
	<-ctx.Done()
	return success("late")
}

// TestAnOutcomeIsDeliveredLateWhenAProxyAnsweredUntilTheLeaseWasGone: the server takes an
// outcome while no other worker has the task.
func TestAnOutcomeIsDeliveredLateWhenAProxyAnsweredUntilTheLeaseWasGone(t *testing.T) {
	h := newHarness(t)
	proxy := proxytest.New(t, h.rt.URL)
	api, err := client.New(proxy.URL, client.Options{APIKey: runtimetest.AdminKey})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	runner := runnerEndingLate{began: make(chan struct{})}
	h.start(func(c *worker.Config) { c.Client, c.Runner, c.LeaseTTL = api, runner, 2*time.Second })
	task := h.rt.Submit("ctx", "do it")
	receive(t, runner.began, "the run to begin")
	proxy.Answer(proxytest.Answers["404 plain text"], stepOf, math.MaxInt, "register", "claim", "heartbeat", "events", "complete")
	h.logs.await(t, "an outcome could not be delivered; it is kept and retried")
	proxy.Answer(nil, stepOf, 0)
	if got := h.until(task.ID, bloom.TaskCompleted); got.Attempts != 1 {
		t.Errorf("attempts: %d", got.Attempts)
	}
}

// TestAKeyThatIsReplacedEndsNoWorker removes a worker from the server, which then refuses
// its key for a while.
func TestAKeyThatIsReplacedEndsNoWorker(t *testing.T) {
	h := newHarness(t)
	l := h.start(nil)
	h.logs.await(t, "registered")
	proxy := make(chan struct{}, 1)
	h.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if stepOf(r) == "register" {
			select {
			case proxy <- struct{}{}:
			default:
				return false
			}
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"The key is wrong","code":"unauthorized","request_id":"1"}`)
			return true
		}
		return false
	})
	if err := h.api.RemoveWorker(t.Context(), "node"); err != nil {
		t.Fatal(err)
	}
	h.logs.await(t, "the server is available again")
	h.rt.Submit("ctx", "do it")
	h.runner.next(t).end <- success("done")
	if s := l.w.Status(); !s.Connected {
		t.Errorf("%+v", s)
	}
}

// TestASetAsideOutcomeIsDeliveredAgain moves a refused outcome back into the outbox,
// as the documentation says.
func TestASetAsideOutcomeIsDeliveredAgain(t *testing.T) {
	h := newHarness(t)
	l := h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	h.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		code, status := "unavailable", http.StatusServiceUnavailable
		if stepOf(r) == "complete" {
			code, status = "lease_lost", http.StatusConflict
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":"No","code":%q,"request_id":"1"}`, code)
		return true
	})
	run.end <- success("kept")
	h.logs.await(t, "the server refused an outcome; it is moved aside")
	l.w.StopNow()
	if err := l.result(); err != nil {
		t.Fatal(err)
	}
	refused, _ := filepath.Glob(filepath.Join(h.dir, "outbox", "refused", "*.json"))
	if len(refused) != 1 {
		t.Fatalf("set aside: %v", refused)
	}
	if err := os.Rename(refused[0], filepath.Join(h.dir, "outbox", filepath.Base(refused[0]))); err != nil {
		t.Fatal(err)
	}
	h.rt.Intercept(nil)
	h.start(nil)
	h.until(task.ID, bloom.TaskCompleted)
	waitGone(t, filepath.Join(h.dir, "outbox", "*.json"))
}

// waitGone waits until no file matches the pattern.
func waitGone(t *testing.T, pattern string) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if left, _ := filepath.Glob(pattern); len(left) == 0 {
			return
		}
	}
	t.Errorf("%s is still there", pattern)
}
