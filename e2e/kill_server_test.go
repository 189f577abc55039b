package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// serverKills returns how often the server is killed while it works.
func serverKills() int {
	if os.Getenv("E2E_CAMPAIGN") == "full" {
		return 100
	}
	return 9 // three of each kind
}

// seeded returns a source of random moments; E2E_SEED repeats a failing run.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("E2E_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("E2E_SEED: %v", err)
		}
	}
	t.Logf("E2E_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// TestTheServerIsKilledAgainAndAgain posts a task, kills the server at a random moment, and
// restarts it on the same folder, many times. Every task must end once, run by one claude, whether
// the kill hit its creation, its claim, its events or its completion.
func TestTheServerIsKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	random, kills := seeded(t), serverKills()
	h := newHarness(t)
	server := h.serve()
	h.work(workerOptions{name: "steady", args: []string{"--max-concurrency", "2", "--lease-ttl", "60s", "--allowed-tool", "Bash"}})
	type created struct {
		task bloom.Task
		err  error
	}
	var posted []chan created
	for i := range kills {
		name := fmt.Sprintf("kill %d", i)
		h.script(name, func(r standin.Request) standin.Reply {
			if r.HasToolResult() {
				return standin.Reply{Text: name}
			}
			return standin.Tool("a tool first", "Bash", map[string]any{"command": "echo " + name, "description": "say it"})
		})
		post := make(chan created, 1)
		posted = append(posted, post)
		go func() {
			task, err := h.api.Submit(t.Context(), spec(name))
			post <- created{task, err}
		}()
		// A third while the task is created, claimed and started, a third at any time, a third
		// around its completion.
		within := []time.Duration{40 * time.Millisecond, 1500 * time.Millisecond, 150 * time.Millisecond}[i%3]
		if i%3 == 2 {
			h.untilAsked("scenario "+name+";", 2)
		}
		time.Sleep(time.Duration(random.Int64N(int64(within)))) // the fault's moment, not a wait for something
		server.kill()
		server = h.serve()
	}
	for i, post := range posted {
		got := <-post
		if got.err != nil {
			t.Fatalf("task %d was not taken: %v", i, got.err)
		}
		name := fmt.Sprintf("kill %d", i)
		o := h.await(t, got.task.ID)
		o.succeeded(name)
		if o.task.Attempts != 1 || o.task.Epoch != 1 {
			t.Errorf("task %d took %d attempts in %d epochs; the worker held its lease through it all", i, o.task.Attempts, o.task.Epoch)
		}
		if n := len(h.asked("scenario " + name + ";")); n != 2 {
			t.Errorf("task %d asked the model %d times, want 2 of one run", i, n)
		}
		if uses := o.of("tool_use"); len(uses) != 1 {
			t.Errorf("task %d has %d tool uses in its stream, want each event once: %s", i, len(uses), kinds(o.events))
		}
	}
	stats, err := h.api.Stats(t.Context())
	if err != nil || stats.Tasks.Total != int64(kills) {
		t.Errorf("stats = %+v, %v; want %d tasks, none double", stats, err, kills)
	}
}
