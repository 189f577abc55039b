package e2e_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// contextKills returns how many workers are killed in the middle of a turn:
// BLOOM_TEST_CONTEXT_KILLS=30 is the full intensity.
func contextKills() int {
	if n, err := strconv.Atoi(os.Getenv("BLOOM_TEST_CONTEXT_KILLS")); err == nil {
		return n
	}
	return 2
}

// TestAContextSurvivesTheDeathsOfItsWorkers repeatedly kills the worker that runs a turn of a
// context. A killed turn is repeated elsewhere, completed turns are in the conversation once, and
// at the end every context is asked about its beginning on another worker.
func TestAContextSurvivesTheDeathsOfItsWorkers(t *testing.T) {
	t.Parallel()
	for mode, warm := range map[string]string{"cold": "0", "warm": "3"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			talk := newConversations(t, warm)
			kills := contextKills()
			contexts := min(6, max(2, kills/3))
			for c := range contexts {
				talk.turn(c, "begin")
			}
			for i := range kills {
				talk.kill(i%contexts, fmt.Sprintf("turn %d", i))
			}
			for c := range contexts {
				talk.ask(c)
			}
		})
	}
}

var doomedPrompt = regexp.MustCompile(`<doomed [^>]*>`)

// conversations are contexts on three workers.
type conversations struct {
	*harness
	warm    string
	workers map[string]*proc
	said    map[int][]string // prompts of completed turns
}

func newConversations(t *testing.T, warm string) *conversations {
	t.Helper()
	h := newHarness(t)
	h.serve()
	k := &conversations{harness: h, warm: warm, workers: map[string]*proc{}, said: map[int][]string{}}
	held := make(chan struct{})
	t.Cleanup(func() { close(held) })
	seen := map[string]bool{} // under the harness's lock
	h.anything(func(r standin.Request) standin.Reply {
		if last := doomedPrompt.FindString(r.LastUser()); last != "" && !seen[last] && len(r.Tools) > 0 {
			seen[last] = true
			return standin.Reply{Text: "never said", Until: held}
		}
		return standin.Reply{Text: "noted"}
	})
	for _, name := range []string{"one", "two", "three"} {
		k.start(name)
	}
	return k
}

func (k *conversations) start(name string) {
	k.t.Helper()
	k.workers[name] = k.work(workerOptions{name: name, args: []string{"--lease-ttl", "10s", "--max-concurrency", "4", "--label", name, "--warm", k.warm}})
	k.workers[name].says("registered")
}

func contextName(c int) string { return fmt.Sprint("context ", c) }

func (k *conversations) submitTo(c int, prompt string, labels ...string) bloom.Task {
	k.t.Helper()
	s := bloom.TaskSpec{ContextID: contextName(c), AgentSlug: "nobody", Prompt: prompt, MaxAttempts: 10, Labels: labels, Policy: bloom.Policy{TimeoutSec: 600}}
	return k.submit(k.t, s)
}

// prompt returns a unique text.
func prompt(c int, what string) string { return fmt.Sprintf("<%s of %d>", what, c) }

func (k *conversations) turn(c int, what string) {
	k.t.Helper()
	text := prompt(c, what)
	o := k.await(k.t, k.submitTo(c, text).ID)
	o.succeeded("noted")
	k.said[c] = append(k.said[c], text)
}

// kill kills the worker with SIGKILL while it waits for the model's answer.
func (k *conversations) kill(c int, what string) {
	k.t.Helper()
	text := prompt(c, "doomed "+what)
	task := k.submitTo(c, text)
	k.untilAsked(text, 1)
	now, err := k.api.Task(k.t.Context(), task.ID)
	if err != nil || now.WorkerID == nil {
		k.t.Fatalf("the task is %+v, %v", now, err)
	}
	doomed := *now.WorkerID
	k.workers[doomed].kill()
	eventually(k.t, "nothing is left of the killed worker", func() bool { return len(marked(k.markOf(doomed))) == 0 })
	o := k.await(k.t, task.ID)
	o.succeeded("noted")
	if len(o.results) != 1 {
		k.t.Errorf("%d results of one turn", len(o.results))
	}
	k.said[c] = append(k.said[c], text)
	k.start(doomed)
}

// ask asks a question on a worker other than the context's last one.
func (k *conversations) ask(c int) {
	k.t.Helper()
	x, err := k.api.Context(k.t.Context(), contextName(c))
	if err != nil || x.WorkerID == nil || x.Size == 0 || x.Tasks != int64(len(k.said[c])) || x.Unfinished != 0 {
		k.t.Fatalf("the context is %+v, %v; %d turns were completed", x, err, len(k.said[c]))
	}
	others := slices.DeleteFunc([]string{"one", "two", "three"}, func(name string) bool { return name == *x.WorkerID })
	text := prompt(c, "what was the first")
	o := k.await(k.t, k.submitTo(c, text, others[c%2]).ID)
	o.succeeded("noted")
	requests := k.asked(text)
	got := requests[len(requests)-1].Conversation()
	at := -1
	for _, said := range append(slices.Clone(k.said[c]), text) {
		if n := strings.Count(got, said); n != 1 {
			k.t.Errorf("context %d: %q is %d times in the conversation on %s:\n%s", c, said, n, others[c%2], got)
		}
		if i := strings.Index(got, said); i <= at {
			k.t.Errorf("context %d: %q is out of order", c, said)
		} else {
			at = i
		}
	}
}

// TestAContextIsForgottenEverywhere deletes a context from the server and from its workers.
func TestAContextIsForgottenEverywhere(t *testing.T) {
	t.Parallel()
	k := newConversations(t, "1")
	k.turn(0, "my colour is green")
	k.bloom(t, "", "contexts", "forget", contextName(0)).want(t, 0, "is forgotten", "")
	if _, err := k.api.Context(t.Context(), contextName(0)); bloom.KindOf(err) != bloom.KindNotFound {
		t.Errorf("the context: %v", err)
	}
	text := prompt(0, "which colour")
	k.await(t, k.submitTo(0, text).ID).succeeded("noted")
	requests := k.asked(text)
	if got := requests[len(requests)-1].Conversation(); strings.Contains(got, "green") {
		t.Errorf("it is remembered:\n%s", got)
	}
}
