package webui_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/bloom-runtime/bloom/internal/webui"
)

func request(method, path, accept string) *http.Request {
	r := httptest.NewRequest(method, path, http.NoBody)
	r.Header.Set("Accept", accept)
	return r
}

func TestTheApplicationAnswersOnlyItsOwnAddresses(t *testing.T) {
	t.Parallel()
	h := webui.New()
	for _, c := range []struct {
		method, path, accept string
		want                 bool
	}{
		{"GET", "/", "", true},
		{"GET", "/tasks/01a1fc81-7b04-7788-9c0d-f7a5cf6011f3", "", true},
		{"HEAD", "/workers", "", true},
		{"GET", "/no/such/page", "text/html", true},
		{"GET", "/no/such/file", "*/*", false},
		{"POST", "/tasks", "text/html", false},
		{"GET", "/api/runtime/nothing", "text/html", false},
		{"GET", "/api", "text/html", false},
		{"GET", "/docs/nothing", "text/html", false},
		{"GET", "/metrics", "text/html", false},
		{"GET", "/healthz", "text/html", false},
		{"GET", "/readyz", "text/html", false},
		{"GET", "/dist/.gitignore", "", false},
	} {
		if got := h.Serves(request(c.method, c.path, c.accept)); got != c.want {
			t.Errorf("%s %s (Accept %q): served by the application: %v, want %v", c.method, c.path, c.accept, got, c.want)
		}
	}
}

func TestADeepLinkGetsThePageUnderAStrictPolicy(t *testing.T) {
	t.Parallel()
	h := webui.New()
	for path, want := range map[string]int{"/": 200, "/tasks/abc": 200, "/nothing/here": 404} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request("GET", path, "text/html"))
		if w.Code != want {
			t.Errorf("GET %s: %d, want %d", path, w.Code, want)
		}
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(policy, "script-src 'self';") || strings.Contains(policy, "unsafe-eval") ||
			webui.New().Built() && strings.Contains(policy, "unsafe-inline") {
			t.Errorf("GET %s: policy %q", path, policy)
		}
		if cache := w.Header().Get("Cache-Control"); cache != "no-cache" {
			t.Errorf("GET %s: Cache-Control %q, a new version must be seen at once", path, cache)
		}
	}
}

// Not parallel: it counts the process's allocations.
func TestRequestsShareTheContentOfAFile(t *testing.T) {
	const size = 4 << 20
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err := w.Write(make([]byte, size))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	h := webui.From(fstest.MapFS{"assets/a.js.gz": {Data: zipped.Bytes()}, "assets/b.woff2": {Data: make([]byte, size)}})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, path := range []string{"/assets/a.js", "/assets/b.woff2"} {
		for range 50 {
			w := &counter{header: http.Header{}}
			h.ServeHTTP(w, request("GET", path, "*/*"))
			if w.n != size {
				t.Fatalf("%s: %d bytes", path, w.n)
			}
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 8*size {
		t.Errorf("100 requests for two files of %d bytes allocated %d bytes", size, took)
	}
}

// counter is a response of which only the length is kept.
type counter struct {
	header http.Header
	n      int
}

func (c *counter) Header() http.Header { return c.header }
func (c *counter) WriteHeader(int)     {}
func (c *counter) Write(p []byte) (int, error) {
	c.n += len(p)
	return len(p), nil
}
