package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/cli"
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

func TestBenchNamesTheNumberThatIsWrong(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--clients: 0 is less than 1":            {"run", "-c", "0"},
		"--samples: -1 is less than 1":           {"run", "--samples=-1"},
		"--duration: 0s is not greater than 0":   {"run", "-d", "0s"},
		"--slots: 99 is not between 1 and 32":    {"fleet", "--slots", "99"},
		"--settle: -1s is less than 0":           {"polls", "--settle=-1s"},
		"--events: 0 is less than 1":             {"costs", "--events", "0", "--pid", "1"},
		"--queued: 101 is not between 0 and 100": {"fill", "--queued", "101"},
		"--polls: 0 is less than 1":              {"polls", "--polls", "0", "--duration", "0s"},
		"--duration: -5s is not greater than 0":  {"fleet", "--duration=-5s"},
		"--count: 0 is less than 1":              {"fill", "-n", "0"},
	} {
		got := newPerson(t, nil).run(append([]string{"bench"}, args...)...)
		if lines := strings.Split(strings.TrimSpace(got.err), "\n"); got.code != cli.ExitUsage || lines[0] != "bloom: "+want {
			t.Errorf("bench %v: exit code %d: %s", args, got.code, got.err)
		}
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
