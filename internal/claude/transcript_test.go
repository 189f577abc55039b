package claude_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/claude"
)

// replayWarm is replay for a warm process: it reads a turn, where the other reads to
// the end of its input.
func replayWarm(t *testing.T, transcript, then string) claude.Config {
	t.Helper()
	config := replay(t, transcript, then)
	text, err := os.ReadFile(config.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config.Path, []byte(strings.Replace(string(text), "cat >/dev/null", "read -r turn", 1)), 0o755); err != nil {
		t.Fatal(err)
	}
	config.Warm = 1
	return config
}

// replay is a worker whose claude prints a transcript and ends as told.
func replay(t *testing.T, transcript, then string) claude.Config {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("testdata", "transcripts", transcript+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "claude")
	// --help is asked first; the prompt is read to its end like claude does.
	content := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --help ] && exit 0\ncat >/dev/null\ncat '%s'\n%s\n", file, then)
	if err := os.WriteFile(script, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	return claude.Config{
		Path: script, Workdir: t.TempDir(), StateDir: t.TempDir(),
		Log:     slog.New(slog.DiscardHandler),
		Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()},
	}
}

func runConfig(t *testing.T, config claude.Config) (attempt.Run, *journal) {
	t.Helper()
	runner, err := claude.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	j := &journal{}
	return runner.Run(t.Context(), task("replay"), j.emit), j
}

func TestVerdictsOfTranscripts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		transcript, then string
		class            bloom.ErrorClass // empty means success
		release          bool
	}{
		{"success-with-tool", "exit 0", "", false},
		{"success-with-tool", "exit 1", bloom.ClassCrashed, false},
		{"success-with-tool", "kill -SEGV $$", bloom.ClassCrashed, false},
		{"older-version", "exit 0", "", false},
		{"success-but-is-error-not-logged-in", "exit 1", bloom.ClassAuth, true},
		{"success-but-is-error-not-logged-in", "exit 0", bloom.ClassAuth, true},
		{"success-but-connection-refused", "exit 1", bloom.ClassProviderError, false},
		{"prompt-too-long-without-is-error", "exit 0", bloom.ClassContextTooLong, false},
		{"api-error-400", "exit 1", bloom.ClassInvalidInput, false},
		{"error-during-execution", "exit 1", bloom.ClassCrashed, false},
		{"max-budget", "exit 1", bloom.ClassBudgetExceeded, false},
		{"hopeless-retry", "sleep 600", bloom.ClassAuth, true},
		{"usage-limit", "exit 1", bloom.ClassRateLimited, true},
		{"limit-allowed-is-no-limit", "exit 0", "", false},
		{"cut-off-mid-line", "exit 0", bloom.ClassCrashed, false},
		{"cut-off-mid-line", "kill -9 $$", bloom.ClassCrashed, false},
		{"noise-and-unknown-types", "exit 0", "", false},
		{"no-output", "exit 0", bloom.ClassCrashed, false},
		{"no-output", "echo 'Invalid API key' >&2; exit 1", bloom.ClassAuth, true},
		{"permission-denied", "exit 1", bloom.ClassPermissionDenied, false},
		{"last-line-without-newline", "exit 0", "", false},
	}
	// A warm process answers with its result: how it ends after that is no matter of the
	// turn, and what it did not end with a line is no answer.
	warmProcess := map[string]bloom.ErrorClass{
		"success-with-tool, then exit 1": "", "success-with-tool, then kill -SEGV $$": "", "last-line-without-newline, then exit 0": bloom.ClassCrashed,
	}
	verdict := func(t *testing.T, config claude.Config, class bloom.ErrorClass, release bool) {
		run, _ := runConfig(t, config)
		if class == "" {
			if run.Completion.Status != bloom.OutcomeSuccess || run.Release != nil {
				t.Fatalf("run = %s, want success", show(run))
			}
			return
		}
		wantError(t, run, class)
		if (run.Release != nil) != release {
			t.Errorf("run = %s, want release %v", show(run), release)
		}
		if class == bloom.ClassRateLimited && run.Release.NotBefore != 1900000000000 {
			t.Errorf("not before = %d", run.Release.NotBefore)
		}
	}
	for _, test := range tests {
		name := test.transcript + ", then " + test.then
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verdict(t, replay(t, test.transcript, test.then), test.class, test.release)
		})
		t.Run("living "+name, func(t *testing.T) {
			t.Parallel()
			class, differs := warmProcess[name]
			if !differs {
				class = test.class
			}
			verdict(t, replayWarm(t, test.transcript, test.then), class, test.release)
		})
	}
}

// The process is ended because of its first result, in the middle of the answer.
func TestAnAnswerAfterTheResultOfAnotherTurnIsRepeated(t *testing.T) {
	t.Parallel()
	const result = `{"type": "result", "subtype": "success", "is_error": false, "result": "done", "terminal_reason": "completed"}`
	run, j := runConfig(t, replayWarm(t, "result-of-an-interrupted-turn-first", `[ "$1" = --input-format ] && sleep 600; echo '`+result+`'`))
	wantSuccess(t, run, "done")
	if !j.warned("process_replaced") {
		t.Errorf("events: %v", j.events)
	}
}

func TestAClaudeThatStaysAfterItsResultIsEnded(t *testing.T) {
	t.Parallel()
	config := replay(t, "older-version", "sleep 600")
	config.AfterResult = 50 * time.Millisecond
	run, _ := runConfig(t, config)
	wantSuccess(t, run, "done")
}

func TestProcessesLeftBehindAreEndedAndLogged(t *testing.T) {
	t.Parallel()
	run, j := runConfig(t, replay(t, "older-version", "sleep 601 >/dev/null 2>&1 & exit 0"))
	wantSuccess(t, run, "done")
	if !j.warned("left_behind") {
		t.Error("nothing says that processes were left behind")
	}
}

func TestUsageOfAKilledRunIsCountedOnceAMessage(t *testing.T) {
	t.Parallel()
	config := replay(t, "cut-off-mid-line", "kill -9 $$")
	run, _ := runConfig(t, config)
	m := run.Completion.Metrics
	if m.TokensUsed == nil || *m.TokensUsed != 115 || m.CostUSD == nil || *m.CostUSD <= 0 || m.CostKind != "subscription_estimate" {
		t.Errorf("metrics = %s, want 115 tokens and an estimated cost", show(run))
	}
}

func TestALineLongerThanWhatIsKeptIsSkippedAndSaid(t *testing.T) {
	t.Parallel()
	config := replay(t, "older-version", "head -c 200000 /dev/zero | tr '\\0' x; echo; exit 0")
	config.MaxLine = 100_000
	run, j := runConfig(t, config)
	wantSuccess(t, run, "done")
	if !j.warned("line_too_long") {
		t.Error("nothing says that a line was skipped")
	}
}

func TestTheSessionIsKeptAtInit(t *testing.T) {
	t.Parallel()
	config := replay(t, "cut-off-mid-line", "kill -9 $$")
	runConfig(t, config)
	files, err := filepath.Glob(filepath.Join(config.StateDir, "sessions", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("session files = %v, %v", files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil || !strings.Contains(string(content), "11111111-1111-4111-8111-111111111111") {
		t.Errorf("session file = %s, %v", content, err)
	}
}

func TestConfigIsValidated(t *testing.T) {
	t.Parallel()
	good := claude.Config{Workdir: "w", StateDir: "s"}
	if err := good.Validate(); err != nil {
		t.Errorf("the least configuration is refused: %v", err)
	}
	for name, change := range map[string]func(*claude.Config){
		"no workdir":           func(c *claude.Config) { c.Workdir = "" },
		"no state dir":         func(c *claude.Config) { c.StateDir = "" },
		"unknown mode":         func(c *claude.Config) { c.PermissionMode = "yolo" },
		"unknown source":       func(c *claude.Config) { c.SettingSources = []string{"world"} },
		"our secret passed on": func(c *claude.Config) { c.PassEnv = []string{"BLOOM_API_KEY"} },
		"negative silence":     func(c *claude.Config) { c.Silence = -1 },
	} {
		config := good
		change(&config)
		if config.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
