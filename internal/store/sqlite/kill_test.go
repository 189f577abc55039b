package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// writerEnv makes the test binary a writer on the database that it names.
const writerEnv = "BLOOM_TEST_SQLITE_WRITER"

// writeUntilKilled runs lifecycles and prints what was acknowledged.
func writeUntilKilled(path string) {
	s, err := sqlite.Open(context.Background(), sqlite.Config{Path: path})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	var mu sync.Mutex
	say := func(what, id string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(what, id)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			ctx, worker := context.Background(), fmt.Sprint("w", i)
			_, _, err := s.RegisterWorker(ctx, bloom.WorkerSpec{Name: worker, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 32}}, "w")
			for n := 0; err == nil; n++ {
				task := storetest.Plain(worker)
				if _, _, err = s.CreateTask(ctx, task); err != nil {
					break
				}
				say("created", task.ID)
				var l bloom.Lease
				if l, _, err = s.LeaseTask(ctx, contract.LeaseRequest{TaskID: task.ID}); err != nil {
					break
				}
				if _, err = s.Complete(ctx, storetest.Success(task.ID, l.ID)); err != nil {
					break
				}
				say("completed", task.ID)
			}
			say("error", fmt.Sprint(err))
		})
	}
	all.Wait()
	os.Exit(1)
}

// TestKilledWriterLosesNothing repeatedly kills a writing process: every acknowledged write must be
// there, and the data must be consistent.
func TestKilledWriterLosesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bloom.db")
	acknowledged := map[string]string{}
	for range 6 {
		killAfter(t, path, 1+rand.IntN(400), acknowledged)
		s := openAt(t, path, nil)
		for id, what := range acknowledged {
			task, err := s.Task(t.Context(), id)
			if err != nil || what == "completed" && task.Status != bloom.TaskCompleted {
				t.Fatalf("task %s was %s, and is %q: %v", id, what, task.Status, err)
			}
		}
		if err := storetest.CheckInvariants(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if _, err := s.ExtendLeases(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func killAfter(t *testing.T, path string, lines int, acknowledged map[string]string) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), writerEnv+"="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for in := bufio.NewScanner(out); in.Scan(); n++ {
		what, id, _ := strings.Cut(in.Text(), " ")
		if what == "error" {
			t.Fatalf("the writer says: %s", in.Text())
		}
		acknowledged[id] = what
		if n == lines {
			_ = child.Process.Kill() // and continue to read its output
		}
	}
	_ = child.Wait()
	if n < lines {
		t.Fatalf("the writer ended by itself after %d lines", n)
	}
}
