package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/problems"
)

// webStub is a web application whose file /assets/slow is sent until release is closed.
type webStub struct{ begun, release chan struct{} }

func (webStub) Serves(r *http.Request) bool { return r.Method == http.MethodGet }

func (s webStub) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/assets/slow" {
		s.begun <- struct{}{}
		<-s.release
	}
}

func withWeb(web httpapi.WebApp, files int) fixtureOption {
	return func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) { h.Web, h.Limits.Files = web, files }
}

func TestFilesWithoutAKeyAreLimited(t *testing.T) {
	t.Parallel()
	const limit = 3
	r := newFixture(t, withWeb(webStub{}, limit))
	r.key = ""
	for range limit {
		if a := r.do("GET", "/assets/a.js", ""); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if a := r.do("GET", "/assets/a.js", ""); a.status != 429 || a.header.Get("Retry-After") == "" {
		t.Errorf("beyond the limit: %d %s", a.status, a.body)
	}
	r.key = adminKey
	if a := r.do("GET", "/assets/a.js", ""); a.status != 200 {
		t.Errorf("with a key: %d %s", a.status, a.body)
	}
}

func TestSlowReadersOfFilesLeaveRoomForKeys(t *testing.T) {
	t.Parallel()
	const shareOfANetwork = 64
	web := webStub{make(chan struct{}), make(chan struct{})}
	r := newFixture(t, withWeb(web, 0))
	r.key = ""
	ended := make(chan int, shareOfANetwork)
	for range shareOfANetwork {
		go func() { ended <- r.do("GET", "/assets/slow", "").status }()
		<-web.begun
	}
	if a := r.do("GET", "/assets/a.js", ""); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("without a key: %d %s", a.status, a.body)
	}
	r.key = adminKey
	if a := r.do("GET", "/assets/a.js", ""); a.status != 200 {
		t.Errorf("with a key: %d %s", a.status, a.body)
	}
	close(web.release)
	for range shareOfANetwork {
		if status := <-ended; status != 200 {
			t.Errorf("a slow reader got %d", status)
		}
	}
}

func TestPagesKeepTheHeaderThatRequiresTLS(t *testing.T) {
	t.Parallel()
	r := newFixture(t, withWeb(webStub{}, 0))
	for _, path := range []string{"/", "/api/runtime/stats"} {
		w := httptest.NewRecorder()
		w.Header().Set("Strict-Transport-Security", "max-age=31536000") // as the listener does
		r.api.ServeHTTP(w, r.request("GET", path, ""))
		if w.Header().Get("Strict-Transport-Security") == "" {
			t.Errorf("%s: %v", path, w.Header())
		}
	}
}

func TestAServerThatRefusesWritesIsNotReady(t *testing.T) {
	t.Parallel()
	var fails atomic.Bool
	r := newFixture(t, func(dc *dispatch.Config, _ *auth.Config, _ *httpapi.Config) {
		dc.Machine = func() problems.Machine {
			if fails.Load() {
				return problems.Machine{WritesFail: "The disk is full"}
			}
			return problems.Machine{}
		}
	})
	for _, refused := range []bool{false, true, false} {
		fails.Store(refused)
		r.clock.by.Add(int64(time.Minute)) // the answer is cached for a moment
		if a := r.do("GET", "/readyz", ""); (a.status == 503) != refused {
			t.Errorf("writes fail: %t: /readyz is %d %s", refused, a.status, a.body)
		}
		if a := r.do("GET", "/healthz", ""); a.status != 200 {
			t.Errorf("writes fail: %t: /healthz is %d", refused, a.status)
		}
	}
}
