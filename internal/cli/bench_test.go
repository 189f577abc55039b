package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The key goes where it was to go and nowhere else.
func TestBenchFollowsNoRedirectWithTheKey(t *testing.T) {
	t.Parallel()
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s with %v", r.URL, r.Header) }))
	defer thief.Close()
	moved := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer moved.Close()
	got := newPerson(t, nil).run("bench", "run", "-n", "1", "--url", moved.URL, "--api-key", serverKey)
	if got.code == 0 || !strings.Contains(got.err, "redirects") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
}

func TestBenchRefusesToMeasureALimit(t *testing.T) {
	t.Parallel()
	s := newStage(t, "server")
	s.start("--data-dir={dir}/data", "--listen=127.0.0.1:0", "--no-membridge", "--runtime-api-key="+serverKey)
	for _, args := range [][]string{{"run", "-n", "1"}, {"fleet", "-d", "1s", "--samples", "0"}, {"fill", "-n", "1"}} {
		out, code := s.run(append([]string{"bench"}, append(args, "--url", s.url(), "--api-key", serverKey)...)...)
		if code != 1 || !strings.Contains(out, `"key";q=6000;w=60`) || !strings.Contains(out, "--rate-limit-key=0") {
			t.Errorf("bench %v: exit code %d: %s", args, code, out)
		}
	}
}
