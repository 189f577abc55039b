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

// TestManyTurnsOfAContextTakeBoundedMemory gives one context turn after turn:
// BLOOM_TEST_CONTEXT_TURNS=500 is the full number, and also shows how claude grows when it
// is not replaced. The worker does not grow, and claude stays within its limits.
func TestManyTurnsOfAContextTakeBoundedMemory(t *testing.T) {
	turns, err := strconv.Atoi(os.Getenv("BLOOM_TEST_CONTEXT_TURNS"))
	if err == nil {
		t.Run("not replaced", func(t *testing.T) { manyTurns(t, turns, false) })
	} else {
		turns = 10
	}
	t.Run("replaced", func(t *testing.T) { manyTurns(t, turns, true) })
}

// slack is what claude may use beyond its limit while it serves the turn after which it
// is replaced, and how exact memory is, in bytes.
const slack = 32 << 20

func manyTurns(t *testing.T, turns int, replaced bool) {
	const settled = 5
	h := newWarmHarness(t, 1, standin.Sequence(standin.Reply{Text: "ok"}))
	growth := claude.LimitGrowth(h.runner(), 1<<40)
	if replaced {
		claude.LimitGrowth(h.runner(), growth)
	}
	var began, most int64 // of the present process, of all
	processes, goroutines, files := 0, 0, 0
	for i := range turns {
		run, j := h.run(task(fmt.Sprint("turn ", i)))
		wantSuccess(t, run, "ok")
		rss := residentIn(t, h.config.Workdir)
		if kinds(j) == "new" {
			processes++
			began = rss
		}
		if most = max(most, rss); replaced && rss > 0 && rss > began+growth+slack {
			t.Errorf("after %d turns claude has %d MB, and had %d MB after the first", i+1, rss/1e6, began/1e6)
		}
		if i == settled {
			goroutines, files = runtime.NumGoroutine(), openFiles(t)
		}
		if i == settled || i%100 == 99 || i == turns-1 {
			t.Logf("after %d turns claude has %d MB, the worker %d goroutines and %d files", i+1, rss/1e6, runtime.NumGoroutine(), openFiles(t))
		}
	}
	t.Logf("%d turns took %d processes of at most %d MB", turns, processes, most/1e6)
	if !replaced && processes != 1 {
		t.Errorf("%d turns took %d processes", turns, processes)
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
