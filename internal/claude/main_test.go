package claude_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"encoding/json"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/process"
	"github.com/bloom-runtime/bloom/internal/standin"
)

func TestMain(m *testing.M) {
	process.MaybeSupervise()
	if len(os.Args) > 1 && os.Args[1] == "__worker" {
		doomedWorker()
	}
	goleak.VerifyTestMain(m)
}

// claudeBinary is the real command line: BLOOM_TEST_CLAUDE, else what
// make tools installed, else the one on the PATH. Without one the test fails:
// a skipped test would prove nothing.
func claudeBinary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("BLOOM_TEST_CLAUDE"); path != "" {
		return path
	}
	installed, err := filepath.Glob("../../.tools/claude/node_modules/@anthropic-ai/claude-code-*/claude")
	if err == nil && len(installed) > 0 {
		path, err := filepath.Abs(installed[0])
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	if path, err := exec.LookPath("claude"); err == nil {
		return path
	}
	t.Fatal("these tests run the real claude command line, which is not installed: run make tools")
	return ""
}

// harness is one worker's surroundings with a scripted model.
type harness struct {
	t      *testing.T
	model  *standin.Server
	config claude.Config
	home   string
	real   string // the real claude

	made   *claude.Runner
	madeOf claude.Config
}

func newHarness(t *testing.T, respond standin.Responder) *harness {
	t.Helper()
	model := standin.New(respond)
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	home := t.TempDir()
	h := &harness{t: t, model: model, home: home, real: claudeBinary(t)}
	h.config = claude.Config{
		Path: h.real, Workdir: t.TempDir(), StateDir: t.TempDir(),
		Log: slog.New(slog.DiscardHandler), Warm: warmIn(t),
		Environ: []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + home, "ANTHROPIC_BASE_URL=" + server.URL, "ANTHROPIC_API_KEY=dummy",
			"DISABLE_TELEMETRY=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		},
	}
	return h
}

// setEnv replaces a variable of the worker's environment.
func (h *harness) setEnv(name, value string) {
	kept := []string{}
	for _, pair := range h.config.Environ {
		if !strings.HasPrefix(pair, name+"=") {
			kept = append(kept, pair)
		}
	}
	if value != "" {
		kept = append(kept, name+"="+value)
	}
	h.config.Environ = kept
}

// runner is a new one with the present configuration, or the last one when that
// has not changed: only so do processes that are kept alive serve later tasks.
func (h *harness) runner() *claude.Runner {
	h.t.Helper()
	if h.made != nil && reflect.DeepEqual(h.madeOf, h.config) {
		return h.made
	}
	if h.made != nil {
		h.made.Close()
	}
	h.madeOf = h.config
	h.madeOf.Environ = slices.Clone(h.config.Environ)
	r, err := claude.New(h.config)
	if err != nil {
		h.t.Fatal(err)
	}
	if h.config.Path == h.real {
		if err := claude.ShareAnswers(h.t.Context(), r); err != nil {
			h.t.Fatal(err)
		}
	}
	h.t.Cleanup(r.Close)
	h.made = r
	return r
}

func (h *harness) file(name, content string) {
	h.t.Helper()
	path := filepath.Join(h.config.Workdir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// journal collects a run's events.
type journal struct {
	mu     sync.Mutex
	events []event
	watch  map[string]chan struct{}
}

type event struct {
	typ  string
	data map[string]any
}

func (j *journal) emit(typ string, data any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	e := event{typ: typ}
	if err := json.Unmarshal(raw, &e.data); err != nil {
		panic(err)
	}
	j.events = append(j.events, e)
	if ch, ok := j.watch[typ]; ok {
		close(ch)
		delete(j.watch, typ)
	}
}

// on returns a channel that is closed at the next event of the type.
func (j *journal) on(typ string) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.watch == nil {
		j.watch = map[string]chan struct{}{}
	}
	ch := make(chan struct{})
	j.watch[typ] = ch
	return ch
}

func (j *journal) of(typ string) []map[string]any {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []map[string]any
	for _, e := range j.events {
		if e.typ == typ {
			found = append(found, e.data)
		}
	}
	return found
}

// warned reports whether there was a warning of the code.
func (j *journal) warned(code string) bool { return j.warnings(code) > 0 }

// warnings counts the warnings of the code.
func (j *journal) warnings(code string) (n int) {
	for _, d := range j.of(claude.EventWarning) {
		if d["code"] == code {
			n++
		}
	}
	return n
}

var tasks atomic.Int64

func task(prompt string) bloom.Task {
	n := tasks.Add(1)
	return bloom.Task{
		ID: fmt.Sprint("t", n), TaskState: bloom.TaskState{LeaseID: new(fmt.Sprint("lease", n))}, ContextID: "ctx", AgentSlug: "nobody", Prompt: prompt,
		Policy: bloom.Policy{TimeoutSec: 600}, DesiredFormat: bloom.FormatText,
	}
}

func (h *harness) run(task bloom.Task) (attempt.Run, *journal) {
	h.t.Helper()
	j := &journal{}
	return h.runner().Run(h.t.Context(), task, j.emit), j
}

func wantSuccess(t *testing.T, run attempt.Run, output string) {
	t.Helper()
	c := run.Completion
	if run.Release != nil || c.Status != bloom.OutcomeSuccess || c.Output == nil || *c.Output != output {
		t.Fatalf("run = %s, want success with output %q", show(run), output)
	}
}

func wantError(t *testing.T, run attempt.Run, class bloom.ErrorClass) {
	t.Helper()
	c := run.Completion
	if c.Status != bloom.OutcomeError || c.ErrorClass != class || c.ErrorMessage == nil || *c.ErrorMessage == "" {
		t.Fatalf("run = %s, want error class %s", show(run), class)
	}
	if c.Retryable != claude.Retryable(class) && class != bloom.ClassInternal && class != bloom.ClassTimeout {
		t.Errorf("retryable = %v for class %s", c.Retryable, class)
	}
}

func show(run attempt.Run) string {
	raw, _ := json.Marshal(run) // plain data always marshals
	return string(raw[:min(len(raw), 2000)])
}
