package worker_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
	"github.com/bloom-runtime/bloom/internal/timing"
	"github.com/bloom-runtime/bloom/internal/worker"
)

// endlessRunner is the child process's runner: it prints that it has begun, and runs
// until it is cancelled.
type endlessRunner struct{}

func (endlessRunner) Run(ctx context.Context, task bloom.Task, emit func(string, any)) attempt.Run {
	emit("text", "begun")
	fmt.Println("begun", *task.LeaseID)
	<-ctx.Done()
	return attempt.Run{}
}

// TestChildWorker is the process that TestAWorkerKilledInTheMiddle kills.
func TestChildWorker(t *testing.T) {
	url, dir, ok := strings.Cut(os.Getenv("BLOOM_TEST_CHILD_WORKER"), "|")
	if !ok {
		t.Skip("only as a child process")
	}
	c, err := client.New(url, client.Options{APIKey: runtimetest.AdminKey})
	if err != nil {
		t.Fatal(err)
	}
	w, err := worker.New(worker.Config{
		Client: c, Name: "node", StateDir: dir, Runner: endlessRunner{},
		Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Run(context.Background())
}

// TestAWorkerKilledInTheMiddle kills a worker's process. The next process under the same
// name is accepted at once, reports the attempt as lost, and does not begin work again
// under the same lease.
func TestAWorkerKilledInTheMiddle(t *testing.T) {
	h := newHarness(t)
	task := h.rt.Submit("ctx", "do it")
	child := exec.Command(os.Args[0], "-test.run=^TestChildWorker$")
	child.Env = append(os.Environ(), "BLOOM_TEST_CHILD_WORKER="+h.rt.URL+"|"+h.dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	lease, begun := strings.CutPrefix(strings.TrimSpace(line), "begun ")
	if err != nil || !begun {
		t.Fatalf("the child said %q, %v", line, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()

	h.start(nil)
	got := h.until(task.ID, bloom.TaskQueued)
	if got.Attempts != 1 || got.ErrorClass == nil || *got.ErrorClass != bloom.ClassWorkerLost {
		t.Fatalf("%+v", got.TaskState)
	}
	if wait := got.RunAt - timing.Millis(time.Now()); wait > lifecycle.RetryDelay(1).Milliseconds() {
		t.Fatalf("the next attempt waits %d ms", wait)
	}
	select {
	case r := <-h.runner.runs:
		t.Fatalf("work was begun under lease %s, the killed one had %s", *r.task.LeaseID, lease)
	default:
	}
}
