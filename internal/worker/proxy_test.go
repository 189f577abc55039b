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
	"github.com/bloom-runtime/bloom/internal/proxytest"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
	"github.com/bloom-runtime/bloom/internal/worker"
)

// stepOf names what a worker asks for: register, claim, heartbeat, events, complete
// or release.
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

// TestAProxysAnswerIsNotTheServersWord has a proxy answer each step of a worker's
// work in the server's stead, in each way that it might: the work goes on, nothing
// is lost, nothing is set aside.
func TestAProxysAnswerIsNotTheServersWord(t *testing.T) {
	t.Parallel()
	for name, answer := range proxytest.Answers {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			proxy := proxytest.New(t, b.rt.URL)
			api, err := client.New(proxy.URL, client.Options{APIKey: runtimetest.AdminKey})
			if err != nil {
				t.Fatal(err)
			}
			defer api.Close()
			proxy.Answer(answer, stepOf, 1, "register", "claim", "heartbeat", "events", "complete", "release")
			l := b.start(func(c *worker.Config) {
				c.Client, c.Capabilities.MaxConcurrency = api, 1
				c.LeaseTTL = 10 * time.Minute // nothing expires while the machine is slow
			})

			back := b.rt.Submit("first", "to be given back")
			b.runner.next(t).end <- bloom.Run{Release: &bloom.ReleaseSpec{Reason: "not now"}}
			again := b.runner.next(t)
			if again.task.ID != back.ID {
				t.Fatalf("ran %s, want %s again", again.task.ID, back.ID)
			}
			again.emit("text", "a word")
			again.end <- success("kept")
			done := b.until(back.ID, bloom.TaskCompleted)
			if done.Attempts != 1 {
				t.Errorf("it took %d attempts", done.Attempts)
			}
			results, err := b.api.Results(t.Context(), back.ID)
			if err != nil || len(results) != 1 || *results[0].Output != "kept" {
				t.Errorf("results %+v, %v", results, err)
			}
			if left := proxy.Left(); len(left) != 0 {
				t.Errorf("the proxy was not asked for %v", left)
			}
			if set, _ := os.ReadDir(filepath.Join(b.dir, "outbox", "refused")); len(set) != 0 {
				t.Errorf("set aside: %v", set)
			}
			words := 0
			for _, e := range b.events(back.ID) {
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

// stubborn ends only when its lease is gone, and with a success.
type stubborn struct{ began chan struct{} }

func (s stubborn) Run(ctx context.Context, _ bloom.Task, _ func(string, any)) bloom.Run {
	close(s.began)
	<-ctx.Done()
	return success("late")
}

// TestAnOutcomeIsDeliveredLateWhenAProxyAnsweredUntilTheLeaseWasGone: what came of
// the work is welcome for as long as nobody else was given the task.
func TestAnOutcomeIsDeliveredLateWhenAProxyAnsweredUntilTheLeaseWasGone(t *testing.T) {
	b := newBench(t)
	proxy := proxytest.New(t, b.rt.URL)
	api, err := client.New(proxy.URL, client.Options{APIKey: runtimetest.AdminKey})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	runner := stubborn{began: make(chan struct{})}
	b.start(func(c *worker.Config) { c.Client, c.Runner, c.LeaseTTL = api, runner, 2*time.Second })
	task := b.rt.Submit("ctx", "do it")
	receive(t, runner.began, "the run to begin")
	proxy.Answer(proxytest.Answers["404 plain text"], stepOf, math.MaxInt, "register", "claim", "heartbeat", "events", "complete")
	b.logs.await(t, "an outcome could not be delivered yet; it is kept and tried again")
	proxy.Answer(nil, stepOf, 0)
	if got := b.until(task.ID, bloom.TaskCompleted); got.Attempts != 1 {
		t.Errorf("attempts: %d", got.Attempts)
	}
}

// TestAKeyThatIsReplacedEndsNoWorker lets the server forget a worker and refuse its
// key for a while, in its own words.
func TestAKeyThatIsReplacedEndsNoWorker(t *testing.T) {
	b := newBench(t)
	l := b.start(nil)
	b.logs.await(t, "registered")
	proxy := make(chan struct{}, 1)
	b.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
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
	if err := b.api.RemoveWorker(t.Context(), "node"); err != nil {
		t.Fatal(err)
	}
	b.logs.await(t, "the server is back")
	b.rt.Submit("ctx", "do it")
	b.runner.next(t).end <- success("done")
	if s := l.w.Status(); !s.Connected {
		t.Errorf("%+v", s)
	}
}

// TestASetAsideOutcomeIsDeliveredAgain moves a refused outcome back into the outbox,
// as the documentation says.
func TestASetAsideOutcomeIsDeliveredAgain(t *testing.T) {
	b := newBench(t)
	l := b.start(nil)
	task := b.rt.Submit("ctx", "do it")
	run := b.runner.next(t)
	b.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		code, status := "unavailable", http.StatusServiceUnavailable
		if stepOf(r) == "complete" {
			code, status = "lease_lost", http.StatusConflict
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":"No","code":%q,"request_id":"1"}`, code)
		return true
	})
	run.end <- success("kept")
	b.logs.await(t, "the server refused an outcome; it is set aside")
	l.w.Cut()
	if err := l.result(); err != nil {
		t.Fatal(err)
	}
	refused, _ := filepath.Glob(filepath.Join(b.dir, "outbox", "refused", "*.json"))
	if len(refused) != 1 {
		t.Fatalf("set aside: %v", refused)
	}
	if err := os.Rename(refused[0], filepath.Join(b.dir, "outbox", filepath.Base(refused[0]))); err != nil {
		t.Fatal(err)
	}
	b.rt.Intercept(nil)
	b.start(nil)
	b.until(task.ID, bloom.TaskCompleted)
	waitGone(t, filepath.Join(b.dir, "outbox", "*.json"))
}

// waitGone waits until no file matches.
func waitGone(t *testing.T, pattern string) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if left, _ := filepath.Glob(pattern); len(left) == 0 {
			return
		}
	}
	t.Errorf("%s is still there", pattern)
}
