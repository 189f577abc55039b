package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

// refuse answers with an error in the API's form.
func refuse(w http.ResponseWriter, status int, code, sentence string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":%q,"code":%q,"request_id":"r"}`, sentence, code)
}

func TestASubmitterWhoWaitsReadsWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	p := newPerson(t, rt)
	var answered atomic.Bool
	p.stderr = func(b []byte) {
		if strings.Contains(string(b), "Still trying") {
			answered.Store(true)
		}
	}
	rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if answered.Load() || r.Method != http.MethodPost {
			return false
		}
		w.Header().Set("Retry-After", "2")
		refuse(w, http.StatusServiceUnavailable, bloom.CodeUnavailable, "The store takes no writes now")
		return true
	})
	if got := p.run("task", "submit", "x"); got.code != cli.ExitOK || !strings.HasPrefix(got.err, "The store takes no writes now (request r). Still trying") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
}

func TestAStreamThatTheServerEndsIsReported(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	p := newPerson(t, rt)
	warning := bloom.Warning{Code: "permission_denied", Text: "claude was not permitted to use Bash"}
	employ(t, rt, []bloom.WorkerEvent{event(1, "warning", warning), event(2, "artifact", map[string]any{"path": "out/chart.png"})},
		bloom.Completion{Status: bloom.OutcomeSuccess, Output: text("done"), ArtifactType: bloom.DefaultArtifactType,
			Metrics: bloom.Metrics{DurationMS: 1, Warnings: []bloom.Warning{warning, {Code: "left_behind", Text: "one process was left"}}}})
	var cut atomic.Bool
	rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/events") || r.Method != http.MethodGet || cut.Swap(true) {
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		return true
	})
	got := p.run("task", "run", "x")
	if got.code != cli.ExitOK || !strings.Contains(got.err, "the server has ended the stream; reconnecting") || strings.Contains(got.err, "nil") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	if n := strings.Count(got.err, warning.Text); n != 1 {
		t.Errorf("the warning is there %d times:\n%s", n, got.err)
	}
	if !strings.Contains(got.err, "one process was left") {
		t.Errorf("a warning that was not in the stream is missing:\n%s", got.err)
	}
	task := decode[[]bloom.Task](t, p.must("task", "list", "--json"))[0]
	wantRun(t, p.run("task", "logs", task.ID), 0, "artifact out/chart.png")
}

func TestACommandThatTheServerDoesNotSupport(t *testing.T) {
	t.Parallel()
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, bloom.CodeNotFound, "There is nothing at this address")
	}))
	defer old.Close()
	p := newPerson(t, nil)
	for _, args := range [][]string{{"audit", "verify"}, {"audit", "export"}, {"contexts", "show", "c"}} {
		wantRun(t, p.run(append(args, "--url", old.URL)...), cli.ExitFailure, "older than this program")
	}
}

func TestARefusalNamesTheRole(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	p := newPerson(t, rt)
	key := decode[bloom.CreatedKey](t, p.must("keys", "create", "--role", "viewer", "--name", "n", "--json"))
	p.env["BLOOM_API_KEY"] = key.Key
	wantRun(t, p.run("task", "submit", "x"), cli.ExitFailure, "The role viewer may not do that; it needs admin or client")
}

func TestTheParsersSentencesAreOurs(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	for want, args := range map[string][]string{
		"bloom: <role> ... is missing":                {"service", "install"},
		"bloom: <id> is missing":                      {"task", "get"},
		"bloom: --name=NAME, --role=ROLE are missing": {"keys", "create"},
		"bloom: --role=ROLE is missing":               {"keys", "create", "--name", "n"},
	} {
		if got := p.run(args...); got.code != cli.ExitUsage || !strings.HasPrefix(got.err, want+"\nSee: bloom ") {
			t.Errorf("%v: exit code %d: %s", args, got.code, got.err)
		}
	}
}

func TestAFullDiskAtTheFirstStartIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("a small disk cannot be mounted here: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	got := newPerson(t, nil).run("server", "--data-dir", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0")
	wantRun(t, got, cli.ExitFailure, "the disk of "+filepath.Join(dir, "data")+" is full (")
}
