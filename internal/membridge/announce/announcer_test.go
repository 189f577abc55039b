package announce_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/membridge/announce"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t *testing.T, url string, change func(*mbclient.Options)) *mbclient.Client {
	t.Helper()
	opt := mbclient.Options{URL: url, Backoff: time.Millisecond}
	change(&opt)
	c, err := mbclient.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// plane starts a real control plane and returns clients with its admin key and its agent key.
func plane(t *testing.T) (admin, agent *mbclient.Client) {
	t.Helper()
	admin, agent, _ = planeWithOther(t)
	return admin, agent
}

// planeWithOther is plane with a second worker that has the same agent key.
func planeWithOther(t *testing.T) (admin, agent, other *mbclient.Client) {
	t.Helper()
	s, err := membridge.Open(t.Context(), membridge.Config{DatabasePath: filepath.Join(t.TempDir(), "m.db"), AdminKey: "the-admin-key-of-a-test",
		AgentKey: "the-agent-key-of-a-test", RuntimeURL: "http://10.0.0.1:5000", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() { s.Quiesce(); web.Close(); s.Close() })
	admin = dial(t, web.URL, func(o *mbclient.Options) { o.Key = "the-admin-key-of-a-test" })
	as := func(token string) *mbclient.Client {
		return dial(t, web.URL, func(o *mbclient.Options) { o.AgentKey, o.Token = "the-agent-key-of-a-test", token })
	}
	return admin, as("the-token-of-the-worker"), as("the-token-of-another")
}

func TestAnotherWorkerOfTheSameNameIsRefusedAndSaysSo(t *testing.T) {
	t.Parallel()
	admin, agent, other := planeWithOther(t)
	if err := announce.New(quiet(agent)).RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cfg := quiet(other)
	lines, written := io.Pipe()
	cfg.Log = slog.New(slog.NewTextHandler(written, nil))
	over := make(chan struct{})
	go func() {
		defer close(over)
		announce.New(cfg).Run(ctx)
	}()
	text, err := bufio.NewReader(lines).ReadString('\n')
	lines.Close() // nobody reads the rest
	stop()
	<-over
	if err != nil || !strings.Contains(text, "membridge refuses this worker") || !strings.Contains(text, "DELETE /agents/{name}") {
		t.Errorf("the log says %s", text)
	}
	if l, err := admin.Agents(t.Context()); err != nil || len(l) != 1 || l[0].Status == bloom.WorkerOffline {
		t.Errorf("agents: %+v %v", l, err)
	}
}

// TestAMembridgeForOthersIsNoWarning: a worker that nobody gave a key only tries it.
func TestAMembridgeForOthersIsNoWarning(t *testing.T) {
	t.Parallel()
	_, agent, _ := planeWithOther(t)
	cfg := quiet(dial(t, agent.URL(), func(*mbclient.Options) {}))
	cfg.Keyless = true
	var lines bytes.Buffer
	cfg.Log = slog.New(slog.NewTextHandler(&lines, nil))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	registrations := 0
	register := cfg.Registration
	cfg.Registration = func() mbclient.Registration {
		if registrations++; registrations == 3 {
			stop()
		}
		return register()
	}
	announce.New(cfg).Run(ctx)
	if said := lines.String(); strings.Contains(said, "WARN") || strings.Count(said, "level=INFO msg=\"membridge requires a key") != 1 {
		t.Errorf("the log says %s", said)
	}
}

func quiet(c *mbclient.Client) announce.Config {
	return announce.Config{Client: c, Log: slog.New(slog.DiscardHandler), Interval: 200 * time.Millisecond,
		Registration: func() mbclient.Registration {
			return mbclient.Registration{Name: "w", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 2}}
		}}
}

func TestAWorkerAnnouncesItselfAndComesBackWhenForgotten(t *testing.T) {
	t.Parallel()
	admin, agent := plane(t)
	var runtimeURL string
	cfg := quiet(agent)
	cfg.OnRuntimeURL = func(u string) { runtimeURL = u }
	a := announce.New(cfg)
	listed := func() int {
		l, err := admin.Agents(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(l)
	}
	for range 2 {
		if err := a.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if runtimeURL != "http://10.0.0.1:5000" || listed() != 1 {
		t.Errorf("runtime at %q, %d agents", runtimeURL, listed())
	}
	if status, _, err := admin.Do(t.Context(), "DELETE", "/agents/w", nil); status != 204 {
		t.Fatal(status, err)
	}
	if err := a.RunOnce(t.Context()); err != nil || listed() != 1 {
		t.Errorf("not back: %v, %d agents", err, listed())
	}
}

// run runs an Announcer until stop is called, which waits for its end.
func run(t *testing.T, cfg announce.Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		announce.New(cfg).Run(ctx)
	}()
	return func() { cancel(); <-over }
}

func TestAWorkerIsNotifiedOfItsDrainAndReportsItsStop(t *testing.T) {
	t.Parallel()
	admin, agent := plane(t)
	drained := make(chan bool, 2)
	cfg := quiet(agent)
	cfg.Interval = time.Minute // only a change can end the wait
	cfg.OnDrain = func(drain bool) { drained <- drain }
	stop := run(t, cfg)
	if <-drained { // with the first response, which does not wait
		t.Error("drained: true")
	}
	for _, drain := range []bool{true, false} {
		if status, _, err := admin.Do(t.Context(), http.MethodPost, "/agents/w/drain", fmt.Appendf(nil, `{"drain":%v}`, drain)); status != 200 {
			t.Fatal(status, err)
		}
		select {
		case got := <-drained:
			if got != drain {
				t.Errorf("drained: %v", got)
			}
		case <-time.After(30 * time.Second):
			t.Error("it does not learn of it")
		}
	}
	stop()
	if l, err := admin.Agents(t.Context()); err != nil || l[0].Status != bloom.WorkerOffline {
		t.Errorf("after the farewell: %+v %v", l, err)
	}
}

func TestTheLogNamesAMembridgeThatHangs(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 9)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the caller has left
		asked <- struct{}{}
		<-r.Context().Done()
	})
	client := dial(t, url, func(*mbclient.Options) {})
	lines, written := io.Pipe()
	cfg := quiet(client)
	cfg.Patience, cfg.Log = time.Millisecond, slog.New(slog.NewTextHandler(written, nil))
	stop := run(t, cfg)
	<-asked
	line, err := bufio.NewReader(lines).ReadString('\n')
	if err != nil || !strings.Contains(line, "still waiting for membridge to answer") || !strings.Contains(line, url) {
		t.Errorf("the log says %q, %v", line, err)
	}
	lines.Close() // nobody reads the rest
	stop()
}

func TestAnAbsentMembridgeHarmsNothing(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(503)
			return
		}
		io.WriteString(w, `{"ok":true,"name":"a"}`)
	})
	client := dial(t, url, func(*mbclient.Options) {})
	a := announce.New(quiet(client))
	if err := a.RunOnce(t.Context()); err == nil {
		t.Error("no error")
	}
	up.Store(true)
	if err := a.RunOnce(t.Context()); err != nil {
		t.Error(err)
	}
}

func until(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come to pass within 20 s")
		}
	}
}
