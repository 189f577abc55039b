package e2e_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

// TestTheExampleWorkerOutlivesItsServer starts it before the server responds completely, and
// removes it from the server twice.
func TestTheExampleWorkerOutlivesItsServer(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("the example worker needs python3")
	}
	rt := runtimetest.Start(t)
	var cut atomic.Bool
	cut.Store(true)
	rt.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		if !cut.Load() {
			return false
		}
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("{")) // only a part, as from a server that is killed
		return true
	})
	var said lockedBuffer
	worker := exec.Command(python, "../examples/worker/worker.py", "cat")
	worker.Env, worker.Stdout, worker.Stderr = append(os.Environ(), "BLOOM_RUNTIME_URL="+rt.URL, "BLOOM_API_KEY="+runtimetest.AdminKey, "BLOOM_WORKER_NAME=py"), &said, &said
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Process.Kill(); _ = worker.Wait() })
	eventually(t, "the worker retries", func() bool { return strings.Contains(said.String(), "retrying in") })
	cut.Store(false)
	api := rt.Client()
	for _, prompt := range []string{"one", "two"} {
		task, err := api.Await(t.Context(), rt.Submit("c", prompt).ID)
		if err != nil || task.Status != bloom.TaskCompleted {
			t.Fatalf("%v: %+v\n%s", err, task, said.String())
		}
		if err := api.RemoveWorker(t.Context(), "py"); err != nil { // it registers again
			t.Fatal(err)
		}
	}
	if strings.Contains(said.String(), "Traceback") {
		t.Error(said.String())
	}
}

// TestTheExamplesRun submits with each example, and lets the worker written in another language run
// the tasks.
func TestTheExamplesRun(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t)
	url, _ := n.start(t, "server", "--no-membridge", "--listen=127.0.0.1:0")
	env := append(os.Environ(), "BLOOM_RUNTIME_URL="+url)
	dir, err := filepath.Abs("../examples")
	if err != nil {
		t.Fatal(err)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("the example worker needs python3")
	}
	var said lockedBuffer
	worker := exec.Command(python, filepath.Join(dir, "worker/worker.py"), "tr", "a-z", "A-Z")
	worker.Env, worker.Stdout, worker.Stderr = env, &said, &said
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Process.Kill(); _ = worker.Wait() })

	submit := filepath.Join(t.TempDir(), "submit")
	if out, err := exec.Command("go", "build", "-o", submit, "../examples/submit").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, program := range map[string]string{"Go": submit, "curl": filepath.Join(dir, "curl/submit.sh")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, tool := range []string{"curl", "jq"} {
				if _, err := exec.LookPath(tool); err != nil && name == "curl" {
					t.Skip("needs " + tool)
				}
			}
			cmd := exec.CommandContext(t.Context(), program, "say it louder")
			var errs bytes.Buffer
			cmd.Env, cmd.Stderr = env, &errs
			out, err := cmd.Output()
			if err != nil || strings.TrimSpace(string(out)) != "SAY IT LOUDER" {
				t.Errorf("%v: %q\n%s\nthe worker: %s", err, out, errs.String(), said.String())
			}
		})
	}
	lines, err := os.ReadFile(filepath.Join(dir, "worker/worker.py"))
	if err != nil || bytes.Count(lines, []byte("\n")) >= 100 {
		t.Errorf("the example worker has %d lines, %v", bytes.Count(lines, []byte("\n")), err)
	}
}
