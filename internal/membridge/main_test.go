package membridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom/internal/membridge"
)

const (
	adminKey = "admin-key-for-tests-only"
	agentKey = "agent-key-for-tests-only"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handClock stands still until it is moved.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// plane is a control plane on a real port.
type plane struct {
	*membridge.Server
	url   string
	clock *handClock
	cfg   membridge.Config
}

func start(t testing.TB, change ...func(*membridge.Config)) *plane {
	t.Helper()
	clock := &handClock{now: time.UnixMilli(1_772_042_245_000)}
	cfg := membridge.Config{DatabasePath: filepath.Join(t.TempDir(), "membridge.db"), AdminKey: adminKey, AgentKey: agentKey,
		RuntimeURL: "http://127.0.0.1:5000", Clock: clock, Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&cfg)
	}
	return launch(t, cfg, clock)
}

func launch(t testing.TB, cfg membridge.Config, clock *handClock) *plane {
	t.Helper()
	s, err := membridge.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() { s.Quiesce(); web.Close(); s.Close() })
	return &plane{s, web.URL, clock, cfg}
}

// answer is a response.
type answer struct {
	status int
	body   []byte
	header http.Header
}

func (a answer) json(t testing.TB) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return v
}

func (a answer) list(t testing.TB) []map[string]any {
	t.Helper()
	var v []map[string]any
	if err := json.Unmarshal(a.body, &v); err != nil || v == nil {
		t.Fatalf("not an array: %d %s: %v", a.status, a.body, err)
	}
	return v
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// do sends a request as the admin.
func (p *plane) do(t testing.TB, method, path, body string) answer {
	t.Helper()
	return p.as(t, http.Header{membridge.AdminHeader: {adminKey}}, method, path, body)
}

func (p *plane) as(t testing.TB, header http.Header, method, path, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, p.url+path, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v[0])
	}
	if body != "" && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if h := header.Get("Host"); h != "" {
		req.Host = h
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, b, res.Header}
}

// want sends a request and checks the status.
func (p *plane) want(t testing.TB, status int, method, path, body string) answer {
	t.Helper()
	a := p.do(t, method, path, body)
	if a.status != status {
		t.Fatalf("%s %s: %d %s, want %d", method, path, a.status, a.body, status)
	}
	return a
}
