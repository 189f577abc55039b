package mbclient_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
)

// plane is a real control plane, with the agent key's worker beside it.
func plane(t *testing.T) (admin, agent *mbclient.Client) {
	t.Helper()
	admin, agent, _ = planeWithRival(t)
	return admin, agent
}

// planeWithRival is plane with another worker that has the same agent key.
func planeWithRival(t *testing.T) (admin, agent, rival *mbclient.Client) {
	t.Helper()
	s, err := membridge.Open(t.Context(), membridge.Config{DatabasePath: filepath.Join(t.TempDir(), "m.db"), AdminKey: "the-admin-key-of-a-test",
		AgentKey: "the-agent-key-of-a-test", RuntimeURL: "http://10.0.0.1:5000", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() { s.Quiesce(); web.Close(); s.Close() })
	admin, _ = dial(t, web.URL)
	as := func(token string) *mbclient.Client {
		c, _ := dial(t, web.URL, func(o *mbclient.Options) { o.Key, o.AgentKey, o.Token = "", "the-agent-key-of-a-test", token })
		return c
	}
	return admin, as("the-token-of-the-worker"), as("the-token-of-the-rival")
}

func TestAnotherWorkerOfTheSameNameIsRefusedAndSaysSo(t *testing.T) {
	t.Parallel()
	admin, agent, rival := planeWithRival(t)
	if err := mbclient.NewAnnouncer(quiet(agent)).RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var log bytes.Buffer
	cfg := quiet(rival)
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Sleep = func(ctx context.Context, _ time.Duration) error { stop(); return ctx.Err() }
	if err := mbclient.NewAnnouncer(cfg).Run(ctx); err != nil {
		t.Error(err)
	}
	if text := log.String(); !strings.Contains(text, "membridge refuses this worker") || !strings.Contains(text, "DELETE /agents/{name}") {
		t.Errorf("the log says %s", text)
	}
	if l, err := admin.Agents(t.Context()); err != nil || len(l) != 1 || l[0].Status == bloom.WorkerOffline {
		t.Errorf("agents: %+v %v", l, err)
	}
}

func quiet(c *mbclient.Client) mbclient.AnnouncerConfig {
	return mbclient.AnnouncerConfig{Client: c, Log: slog.New(slog.DiscardHandler), Interval: 200 * time.Millisecond,
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
	a := mbclient.NewAnnouncer(cfg)
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

func TestOrdersAreCarriedOutOnceAndReported(t *testing.T) {
	t.Parallel()
	admin, agent := plane(t)
	var runs atomic.Int64
	drained := make(chan bool, 2)
	cfg := quiet(agent)
	cfg.Interval = time.Minute // only being woken can make the test end
	cfg.OnDrain = func(drain bool) { drained <- drain }
	cfg.OnCommand = func(_ context.Context, c mbclient.Command) (string, error) {
		runs.Add(1)
		return "moved " + c.Project, nil
	}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- mbclient.NewAnnouncer(cfg).Run(ctx) }()
	post := func(path, body string) (int, []byte) {
		status, answer, _ := admin.Do(t.Context(), http.MethodPost, path, []byte(body))
		return status, answer
	}
	post("/projects", `{"name":"p"}`)
	if <-drained { // by the first answer, which nothing holds back
		t.Error("drained: true")
	}
	until(t, func() bool { s, _ := post("/agents/w/drain", ""); return s == 200 })
	if !<-drained {
		t.Error("drained: false")
	}
	until(t, func() bool { s, _ := post("/sync/push", `{"project":"p","agent":"w"}`); return s == 200 })
	until(t, func() bool {
		_, jobs, _ := admin.Do(t.Context(), "GET", "/jobs", nil)
		return bytes.Contains(jobs, []byte(`"detail":"moved p"`)) && bytes.Contains(jobs, []byte(`"status":"completed"`))
	})
	// Having reported, it is there to be woken again.
	post("/agents/w/drain", `{"drain":false}`)
	select {
	case <-drained:
	case <-time.After(30 * time.Second):
		t.Error("it does not hear of the next order")
	}
	stop()
	if err := <-over; err != nil || runs.Load() != 1 {
		t.Errorf("%v, carried out %d times", err, runs.Load())
	}
	if l, err := admin.Agents(t.Context()); err != nil || l[0].Status != bloom.WorkerOffline {
		t.Errorf("after the farewell: %+v %v", l, err)
	}
}

func TestOrdersThatAWorkerCannotCarryOutFailAndSaySo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		carryOut func(context.Context, mbclient.Command) (string, error)
		says     string
	}{
		"a worker without a memory": {nil, "Nothing was pushed or pulled"},
		"an inner error":            {func(context.Context, mbclient.Command) (string, error) { return "", io.ErrUnexpectedEOF }, "the worker's log has the details"},
	} {
		admin, agent := plane(t)
		var log bytes.Buffer
		cfg := quiet(agent)
		cfg.OnCommand, cfg.Log = c.carryOut, slog.New(slog.NewTextHandler(&log, nil))
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- mbclient.NewAnnouncer(cfg).Run(ctx) }()
		ask := func(method, path, body string) (int, []byte) {
			status, answer, _ := admin.Do(t.Context(), method, path, []byte(body))
			return status, answer
		}
		ask("POST", "/projects", `{"name":"p"}`)
		var order struct {
			Status string `json:"status"`
			JobID  string `json:"job_id"`
		}
		until(t, func() bool {
			s, answer := ask("POST", "/sync/pull", `{"project":"p","agent":"w"}`)
			return s == 200 && json.Unmarshal(answer, &order) == nil && order.Status == "queued"
		})
		var job []byte
		until(t, func() bool {
			_, job = ask("GET", "/jobs/"+order.JobID, "")
			return bytes.Contains(job, []byte(`"status":"failed"`))
		})
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
		if !bytes.Contains(job, []byte(c.says)) || bytes.Contains(job, []byte("EOF")) {
			t.Errorf("%s: the job is %s", name, job)
		}
		if !strings.Contains(log.String(), "an order of membridge's was not carried out") || (c.carryOut != nil) != strings.Contains(log.String(), "EOF") {
			t.Errorf("%s: the log says %s", name, log.String())
		}
	}
}

func TestAMembridgeThatHangsIsToldOfBeforeItIsGivenUp(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 9)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // only then does the server notice a caller that leaves
		asked <- struct{}{}
		<-r.Context().Done()
	})
	client, _ := dial(t, url)
	lines, written := io.Pipe()
	cfg := quiet(client)
	cfg.Patience, cfg.Log = time.Millisecond, slog.New(slog.NewTextHandler(written, nil))
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- mbclient.NewAnnouncer(cfg).Run(ctx) }()
	<-asked
	line, err := bufio.NewReader(lines).ReadString('\n')
	if err != nil || !strings.Contains(line, "still waiting for membridge to answer") || !strings.Contains(line, url) {
		t.Errorf("the log says %q, %v", line, err)
	}
	lines.Close() // the rest is read by nobody
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
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
	client, _ := dial(t, url)
	a := mbclient.NewAnnouncer(quiet(client))
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
