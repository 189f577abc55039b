package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/porttest"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// The keys of every server under test: no scenario runs without authentication.
const (
	adminKey  = "admin-key-of-the-end-to-end-tests"
	workerKey = "worker-key-of-the-end-to-end-tests"
)

// harness is a whole system: one server, some workers, and a scripted model.
type harness struct {
	program string // of its servers; "" is the one under test
	t       *testing.T
	mark    string
	dir     string // has all files
	model   *standin.Server
	apiOf   string    // the model's address
	url     string    // the server's URL, the same after restarts
	front   *balancer // before several replicas; mostly nil
	api     *client.Client

	mu      sync.Mutex
	scripts map[string]standin.Responder
	other   standin.Responder // for prompts without a scenario; may be nil
	servers []*proc
	workers []*proc
}

var harnesses atomic.Int64

// newHarness creates the model and the folders; it starts no process. When the test ends,
// everything is stopped in order, the invariants are checked against the store, and no process may
// remain.
func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{
		t: t, dir: t.TempDir(), mark: fmt.Sprintf("%s%d", markPrefix(), harnesses.Add(1)), scripts: map[string]standin.Responder{},
	}
	h.model = standin.New(h.respond)
	api := httptest.NewServer(h.model)
	h.apiOf = api.URL
	t.Cleanup(api.Close)
	t.Cleanup(h.close)
	return h
}

// script sets the model's answers for tasks whose prompts contain "scenario NAME;".
func (h *harness) script(name string, respond standin.Responder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.scripts[name] = respond
}

func (h *harness) respond(r standin.Request) standin.Reply {
	text := r.Conversation()
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, respond := range h.scripts {
		if strings.Contains(text, "scenario "+name+";") {
			return respond(r)
		}
	}
	if h.other != nil {
		return h.other(r)
	}
	return standin.Error(http.StatusBadRequest, "invalid_request_error", "no scenario has this prompt")
}

// anything sets the model's answers for prompts without a scenario.
func (h *harness) anything(respond standin.Responder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.other = respond
}

// asked returns the requests that contain the text, oldest first.
func (h *harness) asked(text string) []standin.Request {
	return slices.DeleteFunc(h.model.Requests(), func(r standin.Request) bool {
		return len(r.Tools) == 0 || !strings.Contains(r.Conversation(), text)
	})
}

// untilAsked waits until the model was asked n times about the text.
func (h *harness) untilAsked(text string, n int) {
	h.t.Helper()
	eventually(h.t, fmt.Sprintf("the model was asked %d times about %q", n, text), func() bool { return len(h.asked(text)) >= n })
}

// env returns the environment of a process, which has nothing of the machine's own.
func (h *harness) env(extra ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(h.dir, "home"), "TMPDIR=" + os.TempDir(),
		"BLOOM_WARM=0", // tests count processes; those that want warm ones pass --warm
		markName + "=" + h.mark, "BLOOM_CONFIG=/dev/null", "GORACE=halt_on_error=1",
	}, extra...)
}

// serve starts or restarts the server, on the same folder and port.
func (h *harness) serve(args ...string) *proc {
	h.t.Helper()
	return h.serveWith(nil, args...)
}

// serveWith is serve with additional environment variables.
func (h *harness) serveWith(env []string, args ...string) *proc {
	h.t.Helper()
	p := spawnAs(h.t, h.program, "server", append(h.env("RUNTIME_API_KEY="+adminKey, "RUNTIME_WORKER_KEY="+workerKey), env...), append([]string{
		"server", "--data-dir", filepath.Join(h.dir, "server"), "--listen", h.reserve(), "--reap-interval", "250ms",
	}, args...)...)
	h.servers = append(h.servers, p)
	p.says("listens at")
	return p
}

// reserve returns the server's address, which it chooses on the first call.
func (h *harness) reserve() string {
	h.t.Helper()
	if h.url == "" {
		h.url = "http://" + porttest.Address(h.t)
		api, err := client.New(h.url, client.Options{APIKey: adminKey, Retry: client.Retry{Tries: 60, Max: 500 * time.Millisecond}})
		if err != nil {
			h.t.Fatal(err)
		}
		h.api = api
		h.t.Cleanup(api.Close)
	}
	return strings.TrimPrefix(h.url, "http://")
}

// file writes a file that a worker can read.
func file(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// close stops the workers, checks the server's state, stops the server, and checks that nothing
// remains.
func (h *harness) close() {
	for _, p := range h.workers {
		h.stop(p)
	}
	if n := len(h.servers); n > 0 && !h.servers[n-1].ended() {
		if err := h.invariants(); err != nil {
			h.t.Errorf("what must never happen did:\n%v", err)
		}
	}
	for _, p := range h.servers {
		h.stop(p)
	}
	if left := append(sweep(h.mark+"."), sweep(h.mark+"\x00")...); len(left) > 0 {
		h.t.Errorf("processes are left:\n%s", strings.Join(left, "\n"))
	}
	if h.t.Failed() {
		for _, p := range slices.Concat(h.servers, h.workers) {
			h.t.Logf("--- %s said:\n%s", p.name, p.out.tail())
		}
	}
}

// stop stops a process in order, which must exit with 0 and have found no race.
func (h *harness) stop(p *proc) {
	if !p.ended() {
		if code := p.terminate(); code != 0 {
			h.t.Errorf("%s ended with code %d", p.name, code)
		}
	}
	said := p.out.String()
	if strings.Contains(said, "WARNING: DATA RACE") {
		h.t.Errorf("%s: a data race:\n%s", p.name, p.out.tail())
	}
	if strings.Contains(said, adminKey) || strings.Contains(said, workerKey) {
		h.t.Errorf("%s printed a key", p.name)
	}
}

// raw makes a request that the SDK would not make.
func (h *harness) raw(t *testing.T, method, path, body string, header ...string) (int, string) {
	t.Helper()
	return fetch(t, method, h.url+"/api/runtime"+path, body, append([]string{"X-Runtime-API-Key", adminKey}, header...)...)
}

// fetch makes a request with these headers.
func fetch(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}
