package httpapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/blob/local"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// programs is the folder of programs that tests build; empty when they built none.
var programs string

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if programs != "" {
			_ = os.RemoveAll(programs)
		}
		os.Exit(code)
	}))
}

const (
	adminKey  = "admin-key-0123456789"
	workerKey = "worker-key-0123456789"
)

// fixture is a complete server on a real store.
type fixture struct {
	t       testing.TB
	url     string
	dir     string
	key     string
	log     *logBuffer
	store   *sqlite.Store
	service *dispatch.Service
	api     *httpapi.Server
	client  *http.Client
	auth    *auth.Authenticator
	clock   *movedClock // of the store and of the keys
}

// movedClock is the machine's clock with an offset.
type movedClock struct{ by atomic.Int64 }

func (c *movedClock) Now() time.Time { return time.Now().Add(time.Duration(c.by.Load())) }

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type fixtureOption func(*dispatch.Config, *auth.Config, *httpapi.Config)

func newFixture(t testing.TB, options ...fixtureOption) *fixture {
	t.Helper()
	r := &fixture{t: t, dir: t.TempDir(), key: adminKey, log: &logBuffer{}, clock: &movedClock{}}
	logger := slog.New(slog.NewTextHandler(r.log, nil))
	var err error
	r.store, err = sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(r.dir, "bloom.db"), Logger: logger, Clock: r.clock})
	must(t, err)
	t.Cleanup(func() { r.store.Close() })
	blobs, err := local.Open(filepath.Join(r.dir, "artifacts"), "")
	must(t, err)
	t.Cleanup(func() { blobs.Close() })
	sealer, err := auth.OpenSealer(filepath.Join(r.dir, auth.SealKeyFile))
	must(t, err)
	dc := dispatch.Config{Store: r.store, Blobs: blobs, Seal: sealer, Logger: logger, Poll: time.Hour, Clock: r.clock}
	ac := auth.Config{AdminKey: adminKey, WorkerKey: workerKey, LoopbackOnly: true}
	hc := httpapi.Config{Logger: logger, Version: "test", Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "up 1\n")
	})}
	for _, o := range options {
		o(&dc, &ac, &hc)
	}
	r.service, err = dispatch.New(t.Context(), dc)
	must(t, err)
	hc.Service, hc.Store = r.service, dc.Store
	hc.Auth, err = auth.New(ac)
	must(t, err)
	must(t, hc.Auth.Open(t.Context(), r.store, sealer, r.clock))
	t.Cleanup(hc.Auth.Close)
	r.auth = hc.Auth
	if hc.Clock == nil {
		hc.Clock = r.clock
	}
	r.api = httpapi.New(hc)
	server := httptest.NewServer(r.api)
	r.url, r.client = server.URL, server.Client()
	t.Cleanup(func() {
		r.service.Close()
		r.client.CloseIdleConnections()
		server.Close()
	})
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func (r *fixture) request(method, path string, body string, headers ...string) *http.Request {
	r.t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, content)
	must(r.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		req.Header.Set(auth.HeaderKey, r.key)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		} else {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	return req
}

func (r *fixture) do(method, path, body string, headers ...string) answer {
	r.t.Helper()
	res, err := r.client.Do(r.request(method, path, body, headers...))
	must(r.t, err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	must(r.t, err)
	return answer{res.StatusCode, res.Header, raw}
}

// call sends a request below /api/runtime, checks the status and decodes the body.
func (r *fixture) call(want int, out any, method, path, body string, headers ...string) answer {
	r.t.Helper()
	a := r.do(method, "/api/runtime"+path, body, headers...)
	if a.status != want {
		r.t.Fatalf("%s %s: status %d, want %d: %s", method, path, a.status, want, a.body)
	}
	if out != nil {
		if err := json.Unmarshal(a.body, out); err != nil {
			r.t.Fatalf("%s %s: %v: %s", method, path, err, a.body)
		}
	}
	return a
}

// fails sends a request that must fail, and checks the form of the error.
func (r *fixture) fails(want int, code, method, path, body string, headers ...string) httpapi.Failure {
	r.t.Helper()
	var f httpapi.Failure
	a := r.call(want, &f, method, path, body, headers...)
	if f.Message == "" || f.Code == "" || f.RequestID == "" || (code != "" && f.Code != code) {
		r.t.Fatalf("%s %s: failure without its parts, or not %q: %s", method, path, code, a.body)
	}
	if ct := a.header.Get("Content-Type"); ct != "application/json" {
		r.t.Fatalf("%s %s: failure as %q", method, path, ct)
	}
	return f
}

func (r *fixture) worker(name string, slots int, labels ...string) bloom.Worker {
	r.t.Helper()
	spec := bloom.WorkerSpec{Name: name, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: slots, Labels: labels}}
	var w bloom.Worker
	r.call(http.StatusCreated, &w, "POST", "/workers", string(storable.MustJSON(spec)))
	return w
}

func (r *fixture) task(extra string) bloom.Task {
	r.t.Helper()
	var task bloom.Task
	r.call(http.StatusCreated, &task, "POST", "/llm-tasks", `{"context_id":"ctx","agent_slug":"coder","prompt":"say hello"`+extra+`}`)
	return task
}

type leased struct {
	Lease  bloom.Lease  `json:"lease"`
	Worker bloom.Worker `json:"worker"`
}

func (r *fixture) lease(taskID string) leased {
	r.t.Helper()
	var l leased
	r.call(http.StatusCreated, &l, "POST", "/llm-tasks/"+taskID+"/lease", "{}")
	return l
}
