package cli_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

// TestAnInterruptEndsACommandThatWaits for the server, or for what its user types.
func TestAnInterruptEndsACommandThatWaits(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	rt.Submit("c", "p")
	for name, c := range map[string]struct {
		args []string
		at   string // the request, or what is said, at which the user interrupts
	}{
		"a list":         {[]string{"task", "list"}, "/api/runtime/llm-tasks"},
		"the counts":     {[]string{"stats", "--json"}, "/api/runtime/stats"},
		"the prompt":     {[]string{"task", "run"}, "Type the prompt"},
		"a confirmation": {[]string{"task", "cancel", "--context", "c"}, "[y/N]"},
	} {
		p := newPerson(t, rt)
		typed, end := io.Pipe()
		p.terminal, p.typed = true, typed
		interrupt := func(said string) bool {
			if !strings.Contains(said, c.at) {
				return false
			}
			p.signals <- os.Interrupt
			return true
		}
		p.stderr = func(b []byte) { interrupt(string(b)) }
		rt.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			if !interrupt(r.URL.Path) {
				return false
			}
			<-r.Context().Done()
			return true
		})
		if got := p.run(c.args...); got.code != cli.ExitInterrupted || strings.Contains(got.err, "context canceled") || strings.Contains(got.err, "no runtime") {
			t.Errorf("%s: exit code %d: %s", name, got.code, got.err)
		}
		_ = end.Close()
	}
}

var errFull = errors.New("no space left on device")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestAnOutputThatWasNotWrittenIsAFailure: who redirected it to a full disk has nothing.
func TestAnOutputThatWasNotWrittenIsAFailure(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	employ(t, rt, nil, succeeding("the answer"))
	p := newPerson(t, rt)
	id := decode[struct{ Task bloom.Task }](t, p.must("task", "run", "x", "--json")).Task.ID
	p.out = full{}
	for _, args := range [][]string{{"task", "run", "x"}, {"task", "logs", id}, {"task", "logs", id, "--json"}, {"task", "wait", id}, {"task", "submit", "x"}} {
		wantRun(t, p.run(args...), cli.ExitFailure, errFull.Error())
	}
}

// TestProgressLeavesAPipeAlone where standard error is a terminal.
func TestProgressLeavesAPipeAlone(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/artifacts/move") {
			return false
		}
		_, _ = io.WriteString(w, `{"moved":{"examined":1,"moved":1}}`+"\n"+`{"moved":{"examined":2,"moved":2},"done":true}`+"\n")
		return true
	})
	p := newPerson(t, rt)
	p.terminal, p.piped = true, true
	got := p.run("artifacts", "move", "--json")
	if report := decode[bloom.MoveReport](t, got.out); report.Moved != 2 || !strings.Contains(got.err, "1 examined, 1 moved") {
		t.Errorf("%+v: %s", report, got.err)
	}
}

// TestAnIdempotencyKeySubmitsOnce also where no context is named.
func TestAnIdempotencyKeySubmitsOnce(t *testing.T) {
	t.Parallel()
	p := newPerson(t, runtimetest.Start(t))
	submit := func(key string) string {
		return strings.TrimSpace(p.must("task", "submit", "x", "--idempotency-key", key))
	}
	if first := submit("nightly-1"); submit("nightly-1") != first || submit("nightly-2") == first {
		t.Error("not one task for each key")
	}
	tasks := decode[[]bloom.Task](t, p.must("task", "list", "--json"))
	if len(tasks) != 2 || tasks[0].ContextID == tasks[1].ContextID {
		t.Errorf("%+v", tasks)
	}
}

// TestADelayedTaskIsSubmittedOnce although it would start later with each call.
func TestADelayedTaskIsSubmittedOnce(t *testing.T) {
	t.Parallel()
	p := newPerson(t, runtimetest.Start(t))
	submit := func() bloom.Task {
		return decode[bloom.Task](t, p.must("task", "submit", "x", "--json", "--idempotency-key", "nightly", "--delay", "1h"))
	}
	first := submit()
	if again := submit(); again.ID != first.ID || first.RunAt != first.CreatedAt+time.Hour.Milliseconds() {
		t.Errorf("%+v, then %+v", first, again)
	}
}

// TestAnInterruptedSubmissionLeavesNoTask where it is to be cancelled: the server may have it
// already.
func TestAnInterruptedSubmissionLeavesNoTask(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	p := newPerson(t, rt)
	rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/llm-tasks") {
			p.signals <- os.Interrupt
		}
		return false
	})
	wantRun(t, p.run("task", "run", "x", "--cancel-on-interrupt"), cli.ExitInterrupted, "is being cancelled")
	tasks := decode[[]bloom.Task](t, p.must("task", "list", "--json"))
	if len(tasks) != 1 || tasks[0].Status != bloom.TaskCancelled {
		t.Errorf("tasks afterwards: %+v", tasks)
	}
}

// TestWhatIsFollowedOutlastsAnOutage that is longer than the tries of one call.
func TestWhatIsFollowedOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		path string // its end, of the requests that fail
		from int32  // the first one that fails
		code int
	}{
		"the result of a run": {[]string{"task", "run", "x"}, "/results", 1, cli.ExitOK},
		"a worker's log":      {[]string{"workers", "logs", "-f", "w1"}, "/w1/logs", 2, cli.ExitInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := runtimetest.Start(t)
			employ(t, rt, nil, succeeding("the answer"))
			p := newPerson(t, rt)
			delete(p.env, "BLOOM_API_KEY")
			p.env["BLOOM_API_KEY_FILE"] = filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(p.env["BLOOM_API_KEY_FILE"], []byte(runtimetest.AdminKey), 0o600); err != nil {
				t.Fatal(err)
			}
			var requests atomic.Int32
			rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, c.path) {
					return false
				}
				switch n := requests.Add(1); {
				case n < c.from:
					return false
				case n < c.from+5:
					w.WriteHeader(http.StatusBadGateway)
					return true
				case c.code == cli.ExitInterrupted:
					p.signals <- os.Interrupt
				}
				return false
			})
			if got := p.run(c.args...); got.code != c.code {
				t.Errorf("exit code %d: %s", got.code, got.err)
			}
		})
	}
}

// A printed command works when it is copied: it reaches the same server with the same credentials.
func TestPrintedCommandsHaveTheOptionsOfTheServer(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	for _, secret := range []bool{false, true} {
		p := newPerson(t, nil)
		key := filepath.Join(t.TempDir(), "the key")
		if err := os.WriteFile(key, []byte(runtimetest.AdminKey), 0o600); err != nil {
			t.Fatal(err)
		}
		p.terminal = true
		p.stderr = func(b []byte) {
			if strings.Contains(string(b), "task ") {
				p.signals <- os.Interrupt
			}
		}
		credentials, printed := "--key-file="+key, "--key-file '"+key+"'"
		if secret {
			credentials, printed = "--api-key="+runtimetest.AdminKey, "--key-file FILE"
		}
		got := p.run("task", "run", "do it", "--url", rt.URL, credentials)
		if got.code != cli.ExitInterrupted || strings.Count(got.err, " --url "+rt.URL+" "+printed+"\n") != 2 {
			t.Errorf("%+v", got)
		}
	}
}
