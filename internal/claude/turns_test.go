package claude_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// TestManyTurnsInOneProcess has one living process serve turn after turn:
// BLOOM_TEST_CONTEXT_TURNS=500 is the full number. Neither the worker nor claude grows
// beyond what a process may use.
func TestManyTurnsInOneProcess(t *testing.T) {
	turns, settled := 25, 5
	if n, err := strconv.Atoi(os.Getenv("BLOOM_TEST_CONTEXT_TURNS")); err == nil {
		turns = n
	}
	h := newWarmHouse(t, 1, standin.Sequence(standin.Reply{Text: "ok"}))
	claude.LimitTurns(h.runner(), turns+1)
	goroutines, files := 0, 0
	for i := range turns {
		run, j := h.run(task(fmt.Sprint("turn ", i)))
		wantSuccess(t, run, "ok")
		if got := kinds(j); i > 0 && got != "living" {
			t.Fatalf("turn %d had the process %q", i, got)
		}
		if i == settled {
			goroutines, files = runtime.NumGoroutine(), openFiles(t)
		}
		if i == settled || i%100 == 99 || i == turns-1 {
			rss := residentIn(t, h.config.Workdir)
			t.Logf("after %d turns claude has %d MB, the worker %d goroutines and %d files", i+1, rss>>20, runtime.NumGoroutine(), openFiles(t))
			if rss > 600<<20 {
				t.Errorf("claude has %d MB after %d turns", rss>>20, i+1)
			}
		}
	}
	// A connection that is about to close may still be there.
	eventually(t, "the worker has no more goroutines and open files than in the beginning", func() bool {
		return runtime.NumGoroutine() <= goroutines+4 && openFiles(t) <= files+4
	})
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// residentIn is how much memory the claudes have that work in the folder, in bytes.
func residentIn(t *testing.T, dir string) (sum int64) {
	t.Helper()
	for _, link := range processesIn(t, dir) {
		name, err := os.ReadFile(filepath.Join(filepath.Dir(link), "comm"))
		if err != nil || strings.TrimSpace(string(name)) != "claude" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(filepath.Dir(link), "statm"))
		if err != nil {
			t.Fatal(err)
		}
		pages, err := strconv.ParseInt(strings.Fields(string(raw))[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += pages * int64(os.Getpagesize())
	}
	return sum
}
