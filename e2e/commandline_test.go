package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/porttest"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// call is the result of one command.
type call struct {
	code     int
	out, err string
}

// bloom runs the command line against the harness's server.
func (h *harness) bloom(t *testing.T, stdin string, args ...string) call {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), programs.bloom, args...)
	cmd.Env = h.env("BLOOM_RUNTIME_URL="+h.url, "BLOOM_API_KEY="+adminKey)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return call{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// want checks the exit code and the content of both streams.
func (c call) want(t *testing.T, code int, out, errs string) {
	t.Helper()
	if c.code != code || !strings.Contains(c.out, out) || !strings.Contains(c.err, errs) {
		t.Errorf("code %d, want %d\nout: %s\n(want %q)\nerr: %s\n(want %q)", c.code, code, c.out, out, c.err, errs)
	}
	if strings.Contains(c.out+c.err, "\x1b[") {
		t.Errorf("colour in a pipe: %q %q", c.out, c.err)
	}
}

func TestTheCommandLineRunsTasks(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	h.work(workerOptions{name: "hand", args: []string{"--max-concurrency", "2", "--allowed-tool", "Bash"}})
	h.script("words", standin.Sequence(standin.Reply{Text: "four"}))
	h.script("refuse", standin.Sequence(standin.Error(400, "invalid_request_error", "no such field")))
	for name, use := range map[string]func(*testing.T){
		"the output alone is on standard output": func(t *testing.T) {
			c := h.bloom(t, "", "task", "run", "scenario words;")
			c.want(t, 0, "four\n", "completed")
			if c.out != "four\n" {
				t.Errorf("out = %q", c.out)
			}
		},
		"a prompt like an option, from standard input": func(t *testing.T) {
			h.bloom(t, "--dangerously-skip-permissions scenario words;\n", "task", "run", "-").want(t, 0, "four\n", "completed")
		},
		"a prompt like an option, as an argument": func(t *testing.T) {
			h.bloom(t, "", "task", "run", "--", "--dangerously-skip-permissions scenario words;").want(t, 0, "four\n", "completed")
		},
		"JSON for programs": func(t *testing.T) {
			c := h.bloom(t, "", "task", "run", "--json", "scenario words;")
			var got struct {
				Task   bloom.Task
				Result bloom.Result
				Output string
			}
			if err := json.Unmarshal([]byte(c.out), &got); err != nil || c.code != 0 || got.Task.Status != bloom.TaskCompleted || got.Output != "four" {
				t.Errorf("code %d, %v: %s", c.code, err, c.out)
			}
		},
		"a failure ends with 1 and says why": func(t *testing.T) {
			h.bloom(t, "", "task", "run", "--max-attempts", "1", "scenario refuse;").want(t, 1, "", "failed (invalid_input)")
		},
		"wrong usage ends with 2": func(t *testing.T) {
			h.bloom(t, "", "task", "run", "--timeout", "99h", "scenario words;").want(t, 2, "", "--timeout")
			h.bloom(t, "", "task", "run", "--no-such-flag", "scenario words;").want(t, 2, "", "--no-such-flag")
			h.bloom(t, "", "task", "run", "").want(t, 2, "", "the value is empty")
		},
		"submit, wait, logs, list": func(t *testing.T) {
			c := h.bloom(t, "", "task", "submit", "--context", "cli", "scenario words;")
			id := strings.TrimSpace(c.out)
			h.bloom(t, "", "task", "wait", id).want(t, 0, "", "")
			h.bloom(t, "", "task", "logs", "-f", id).want(t, 0, "four", "")
			h.bloom(t, "", "task", "list").want(t, 0, id, "")
			h.bloom(t, "", "workers").want(t, 0, "hand", "")
			h.bloom(t, "", "audit").want(t, 0, "task_completed", "")
		},
		"an unknown task": func(t *testing.T) {
			h.bloom(t, "", "task", "get", "01890000-0000-7000-8000-000000000000").want(t, 1, "", "not found")
		},
		"a server that is not there": func(t *testing.T) {
			h.bloom(t, "", "stats", "--url", "http://"+porttest.Address(t)).want(t, 1, "", "no runtime answers at")
		},
		"an interrupt leaves the task": func(t *testing.T) { h.interrupted(t, bloom.TaskCompleted) },
		"an interrupt cancels when asked to": func(t *testing.T) {
			h.interrupted(t, bloom.TaskCancelled, "--cancel-on-interrupt")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			use(t)
		})
	}
}

// interrupted presses Ctrl-C while a task is followed, and checks how the task ends.
func (h *harness) interrupted(t *testing.T, end bloom.TaskStatus, args ...string) {
	t.Helper()
	name := "interrupt " + string(end)
	finish := make(chan struct{})
	h.script(name, standin.Sequence(standin.Reply{Text: "went on", Until: finish}))
	p := spawn(t, "task run", h.env("BLOOM_RUNTIME_URL="+h.url, "BLOOM_API_KEY="+adminKey),
		append([]string{"task", "run", "--context", name, "scenario " + name + ";"}, args...)...)
	h.untilAsked("scenario "+name+";", 1)
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 130 {
		t.Errorf("it ended with code %d, want 130:\n%s", code, p.out)
	}
	if end == bloom.TaskCompleted {
		close(finish)
	}
	tasks, _, err := h.api.Tasks(t.Context(), bloom.TaskQuery{ContextID: name})
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	if o := h.await(t, tasks[0].ID); o.task.Status != end {
		t.Errorf("the task is %s, want %s; it said:\n%s", o.task.Status, end, p.out)
	}
}

// shell runs a line as a person who copied it would.
func (h *harness) shell(t *testing.T, line string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Env = h.env()
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// TestTheDemonstration runs scripts/demo.sh as `make demo` does after building.
func TestTheDemonstration(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	demo, err := os.ReadFile("../scripts/demo.sh")
	if err != nil {
		t.Fatal(err)
	}
	file(t, filepath.Join(root, "scripts", "demo.sh"), string(demo))
	for _, dir := range []string{"bin", "path", "tmp"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"bin/bloom": programs.bloom, "bin/bloom-standin": programs.standin, "path/claude": claudeBinary(t),
	} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(root, "scripts", "demo.sh"))
	cmd.Env = []string{"PATH=" + filepath.Join(root, "path") + ":" + os.Getenv("PATH"), "TMPDIR=" + filepath.Join(root, "tmp"),
		"HOME=" + root, "RUNTIME_API_KEY=nothing-of-the-users-own", "ANTHROPIC_API_KEY=canary-of-the-users-own"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"DEMO: no model is asked", standin.CannedLabel, "The task completed"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the demonstration never said %q:\n%s", want, out)
		}
	}
	if left := naming(root); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if entries, err := os.ReadDir(filepath.Join(root, "tmp")); err != nil || strings.Contains(listing(entries), "bloom-demo") {
		t.Errorf("files are left: %v, %v", entries, err)
	}
}

func listing(entries []os.DirEntry) string {
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// naming lists the processes whose arguments or working folder contain a path: the demonstration
// clears its environment, and with it the mark.
func naming(path string) []string {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	for _, dir := range dirs {
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
		if strings.Contains(string(line), path) || strings.HasPrefix(cwd, path) {
			found = append(found, filepath.Base(dir)+": "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
