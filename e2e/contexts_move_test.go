package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// TestAContextMovesOnlyWhenItsWorkerIsAwayFullOrDrained lets a context with its working
// folder go from worker to worker, each time for another reason. Conversation and folder
// come along whole, and without a reason it stays.
func TestAContextMovesOnlyWhenItsWorkerIsAwayFullOrDrained(t *testing.T) {
	t.Parallel()
	j := newJourney(t)
	j.turn()
	home := j.home
	for range 2 {
		if j.turn(); j.home != home {
			t.Fatalf("the context moved from %s to %s without a reason", home, j.home)
		}
	}

	var filler bloom.Task
	j.moves("full", func() {
		filler = j.submit(t, bloom.TaskSpec{ContextID: "filler", AgentSlug: "nobody", Prompt: "hold", Labels: []string{j.home}, MaxAttempts: 1, Policy: bloom.Policy{TimeoutSec: 600}})
		j.untilAsked("hold", 1)
	})
	close(j.held)
	j.await(t, filler.ID).succeeded("held")
	drained := j.home
	j.moves("drained", func() { j.bloom(t, "", "workers", "drain", drained).want(t, 0, "", "") })
	j.bloom(t, "", "workers", "undrain", drained).want(t, 0, "", "")
	j.moves("away", func() {
		j.procs[j.home].kill()
		eventually(t, "nothing is left of the killed worker", func() bool { return len(marked(j.markOf(j.home))) == 0 })
	})
}

// journey is a context on three workers, each with room for one task.
type journey struct {
	*house
	procs map[string]*proc
	held  chan struct{} // closed when the task that fills a worker may end
	turns []string      // prompts
	home  string        // the worker of the last turn
}

func newJourney(t *testing.T) *journey {
	t.Helper()
	j := &journey{house: newHouse(t), procs: map[string]*proc{}, held: make(chan struct{})}
	j.serve()
	j.anything(func(r standin.Request) standin.Reply {
		last := r.LastUser()
		_, command, ok := strings.Cut(last, "sh: ")
		switch {
		case strings.Contains(last, "hold"):
			return standin.Reply{Text: "held", Until: j.held}
		case ok && !r.HasToolResult():
			return standin.Tool("", "Bash", map[string]any{"command": command, "description": "work"})
		}
		return standin.Reply{Text: "noted"}
	})
	for _, name := range []string{"one", "two", "three"} {
		j.procs[name] = j.work(workerOptions{name: name, args: []string{"--max-concurrency", "1", "--label", name, "--allowed-tool", "Bash", "--lease-ttl", "4s"}})
		j.procs[name].says("registered")
	}
	return j
}

// turn is one more task of the context, which adds a line to a file of its folder. It
// sees to it that nothing of the turns before is missing.
func (j *journey) turn() outcome {
	j.t.Helper()
	n := len(j.turns)
	text := fmt.Sprintf("<turn %d> sh: echo %d >> list; mkdir -p d; ln -sf ../list d/link", n, n)
	s := bloom.TaskSpec{ContextID: "journey", AgentSlug: "nobody", Prompt: text, MaxAttempts: 3, Policy: bloom.Policy{TimeoutSec: 600, Workspace: bloom.WorkspaceContext}}
	o := j.await(j.t, j.submit(j.t, s).ID)
	o.succeeded("noted")
	j.turns, j.home = append(j.turns, text), *o.task.WorkerID

	requests := j.asked(fmt.Sprintf("<turn %d>", n))
	got := requests[len(requests)-1].Conversation()
	for i := range j.turns {
		if times := strings.Count(got, fmt.Sprintf("<turn %d>", i)); times != 1 {
			j.t.Errorf("turn %d is %d times in the conversation of turn %d on %s:\n%s", i, times, n, j.home, got)
		}
	}
	want := ""
	for i := range j.turns {
		want += fmt.Sprintln(i)
	}
	sum := sha256.Sum256([]byte("journey"))
	list, err := os.ReadFile(filepath.Join(j.workdir(j.home), "ctx-"+hex.EncodeToString(sum[:8]), "d", "link"))
	if err != nil || string(list) != want {
		j.t.Errorf("after turn %d the list on %s is %q, %v", n, j.home, list, err)
	}
	return o
}

// moves takes a turn after something has happened to the context's worker, and wants it
// on another one, with all that belongs to the context.
func (j *journey) moves(why string, happens func()) {
	j.t.Helper()
	was := j.home
	happens()
	o := j.turn()
	if j.home == was {
		j.t.Errorf("the context stays on %s, which is %s", was, why)
	}
	for _, typ := range []string{"session_restored", "workspace_restored"} {
		if len(o.of(typ)) != 1 {
			j.t.Errorf("%s: %d events %s: %s", why, len(o.of(typ)), typ, kinds(o.events))
		}
	}
	here := j.home
	if o := j.turn(); j.home != here || slices.ContainsFunc(o.events, func(e bloom.Event) bool { return strings.HasSuffix(e.Type, "_restored") }) {
		j.t.Errorf("having moved to %s, the next turn ran on %s with %s", here, j.home, kinds(o.events))
	}
}
