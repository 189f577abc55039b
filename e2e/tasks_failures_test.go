package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/problems"
	"github.com/bloom-runtime/bloom/internal/standin"
	"github.com/bloom-runtime/bloom/internal/storable"
)

func timeout(t *testing.T, h *harness) {
	h.script("timeout", standin.Sequence(standin.Reply{HangAfterStart: true, Until: make(chan struct{}), Usage: standin.Usage{Input: 1000, Output: 1}}))
	s := at("main", spec("timeout"))
	s.Policy.TimeoutSec = 20 // on a busy machine claude takes seconds to start
	o := h.await(t, h.submit(t, s).ID)
	o.failed(bloom.ClassTimeout)
	if m := o.results[0].Metrics; m.TokensUsed == nil || *m.TokensUsed < 1000 {
		t.Errorf("metrics = %s, want the tokens of the killed run", storable.MustJSON(m))
	}
}

func cancel(t *testing.T, h *harness) {
	h.script("cancel", standin.Sequence(standin.Reply{Until: make(chan struct{})}))
	task := h.submit(t, at("main", spec("cancel")))
	h.untilAsked("scenario cancel;", 1)
	if _, err := h.api.Cancel(t.Context(), task.ID); err != nil {
		t.Fatal(err)
	}
	o := h.await(t, task.ID)
	if o.task.Status != bloom.TaskCancelled || len(o.results) != 1 || o.results[0].ErrorClass == nil || *o.results[0].ErrorClass != bloom.ClassCancelled {
		t.Errorf("task is %s; %s", o.task.Status, o.story())
	}
}

func budget(t *testing.T, h *harness) {
	asked := 0 // under the harness's lock
	h.script("budget", func(standin.Request) standin.Reply {
		if asked++; asked > 5 { // a busy worker would see too late how much is used
			return standin.Reply{Until: make(chan struct{})}
		}
		reply := standin.Tool("on and on", "Bash", map[string]any{"command": "true", "description": "nothing"})
		reply.Usage = standin.Usage{Input: 400, Output: 100}
		return reply
	})
	s := at("main", spec("budget"))
	s.Policy.Budget = 1200
	o := h.await(t, h.submit(t, s).ID)
	o.failed(bloom.ClassBudgetExceeded)
	if m := o.results[0].Metrics; m.TokensUsed == nil || *m.TokensUsed <= 1200 || *m.TokensUsed > 3000 {
		t.Errorf("metrics = %s, want what was used", storable.MustJSON(m))
	}
}

func notLoggedIn(t *testing.T, h *harness) {
	h.script("anonymous", standin.Sequence(standin.Reply{Text: "should not be asked"}))
	task := h.submit(t, at("anonymous", spec("anonymous")))
	h.untilEvent(t, task.ID, bloom.EventReleased)
	for task.WaitingFor == nil || task.WaitingFor.Reason != problems.WaitPaused {
		var err error
		if task, err = h.api.Task(t.Context(), task.ID); err != nil {
			t.Fatal(err)
		}
	}
	if task.Attempts > 1 || !strings.Contains(task.WaitingFor.Sentence, "not logged in") { // 1 while it is tried again
		t.Errorf("task = %s, want it to wait for the login", storable.MustJSON(task))
	}
	if _, err := h.api.Cancel(t.Context(), task.ID); err != nil {
		t.Fatal(err)
	}
	h.await(t, task.ID)
	if n := len(h.asked("scenario anonymous;")); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

func refusals(t *testing.T, h *harness) {
	for name, test := range map[string]struct {
		reply standin.Reply
		class bloom.ErrorClass
	}{
		"400": {standin.Error(400, "invalid_request_error", "no such field"), bloom.ClassInvalidInput},
		"529": {standin.Error(529, "overloaded_error", "overloaded"), bloom.ClassProviderError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Asks the command line not to retry.
			test.reply.Header = map[string]string{"x-should-retry": "false"}
			h.script("refusal "+name, standin.Sequence(test.reply))
			h.await(t, h.submit(t, at("main", spec("refusal "+name))).ID).failed(test.class)
		})
	}
}

// refusedKey: a task waits, without using up an attempt, until the key is accepted again.
func refusedKey(t *testing.T, h *harness) {
	refusal := standin.Error(401, "authentication_error", "invalid x-api-key")
	refusal.Header = map[string]string{"x-should-retry": "false"}
	h.script("refused key", standin.Sequence(refusal, standin.Reply{Text: "at last"}))
	o := h.await(t, h.submit(t, at("main", spec("refused key"))).ID)
	o.succeeded("at last")
	if o.task.Attempts != 1 || o.task.Epoch != 2 {
		t.Errorf("task = %s, want attempt 1 in epoch 2", storable.MustJSON(o.task.TaskState))
	}
}

func rateLimited(t *testing.T, h *harness) {
	reset := time.Now().Add(12 * time.Second).Unix()
	limit := standin.Error(429, "rate_limit_error", "This request would exceed your account's rate limit.")
	limit.Header = map[string]string{
		"anthropic-ratelimit-unified-status":               "rejected",
		"anthropic-ratelimit-unified-reset":                fmt.Sprint(reset),
		"anthropic-ratelimit-unified-representative-claim": "five_hour",
		"x-should-retry":                                   "false",
	}
	var over atomic.Bool
	h.script("limit", func(standin.Request) standin.Reply {
		if !over.Load() {
			return limit
		}
		return standin.Reply{Text: "at last"}
	})
	// It has only one attempt: if that were used up, the task could not complete.
	task := h.submit(t, at("subscriber", spec("limit")))
	h.untilEvent(t, task.ID, bloom.EventReleased)
	over.Store(true)
	now, err := h.api.Task(t.Context(), task.ID)
	if err != nil || now.Status != bloom.TaskQueued || now.Attempts != 0 || now.RunAt < reset*1000 || now.LeaseID != nil {
		t.Errorf("task = %s, %v; want it back in the queue until %d with its attempt refunded", storable.MustJSON(now), err, reset*1000)
	}
	o := h.await(t, task.ID)
	o.succeeded("at last")
	if o.task.Attempts != 1 || o.task.Epoch != 2 {
		t.Errorf("task = %s, want attempt 1 in epoch 2", storable.MustJSON(o.task.TaskState))
	}
}

// missing: a worker without claude claims no tasks, which wait or go to others; once claude is
// installed, it does.
func missing(t *testing.T, h *harness) {
	h.script("missing", standin.Sequence(standin.Reply{Text: "here it is"}))
	w, err := h.api.Worker(t.Context(), "bare")
	if err != nil || w.Capabilities.ClaudeCLI {
		t.Fatalf("the worker says that it runs claude: %t, %v", w.Capabilities.ClaudeCLI, err)
	}
	task := h.submit(t, at("bare", spec("missing")))
	if now, err := h.api.Task(t.Context(), task.ID); err != nil || now.Status != bloom.TaskQueued || now.Attempts != 0 {
		t.Fatalf("task = %s, %v; want it waiting", storable.MustJSON(now.TaskState), err)
	}
	path := filepath.Join(h.dir, "none", "claude")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(claudeBinary(t), path); err != nil {
		t.Fatal(err)
	}
	h.await(t, task.ID).succeeded("here it is")
}

func hostile(t *testing.T, h *harness) {
	h.script("hostile", standin.Sequence(standin.Reply{Text: "just a prompt"}))
	s := at("main", spec("hostile"))
	s.Prompt = "--dangerously-skip-permissions scenario hostile;"
	o := h.await(t, h.submit(t, s).ID)
	o.succeeded("just a prompt")
	if sessions := o.of("session"); len(sessions) != 1 || sessions[0]["permission_mode"] != "acceptEdits" {
		t.Errorf("session events = %v, want the operator's permission mode", sessions)
	}
	if asked := h.asked("scenario hostile;"); len(asked) != 1 || !strings.Contains(asked[0].LastUser(), s.Prompt) {
		t.Errorf("the model was not asked the prompt as it was")
	}
}

func huge(t *testing.T, h *harness) {
	text := strings.Repeat("0123456789abcdef", 20<<20/16)
	h.script("huge", standin.Sequence(standin.Reply{Text: text}))
	o := h.await(t, h.submit(t, at("main", spec("huge"))).ID)
	if o.task.Status != bloom.TaskCompleted || len(o.results) != 1 || o.output != text {
		t.Fatalf("task is %s, output of %d bytes; %s", o.task.Status, len(o.output), clip(o.story(), 2000))
	}
	artifact, err := h.api.Artifact(t.Context(), o.results[0].ArtifactID)
	if err != nil || artifact.Size != int64(len(text)) || artifact.Content != nil || artifact.URL == nil {
		t.Errorf("artifact = %s, %v; want its content outside the row", clip(string(storable.MustJSON(artifact)), 500), err)
	}
}
