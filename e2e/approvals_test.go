package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// waits returns the request of a task that is suspended: it holds no lease, and no claude runs.
func (h *harness) waits(taskID string, not ...string) bloom.Approval {
	h.t.Helper()
	var task bloom.Task
	eventually(h.t, "the task is suspended", func() bool {
		var err error
		task, err = h.api.Task(h.t.Context(), taskID)
		return err == nil && task.Status == bloom.TaskQueued && task.WaitingFor != nil && task.WaitingFor.Reason == "approval" && (len(not) == 0 || task.WaitingFor.Approval != not[0])
	})
	a, err := h.api.Approval(h.t.Context(), task.WaitingFor.Approval)
	if err != nil {
		h.t.Fatal(err)
	}
	active, _, err := h.api.Leases(h.t.Context(), bloom.LeaseQuery{TaskID: taskID, Status: bloom.LeaseActive})
	if err != nil || len(active) > 0 || a.Status != bloom.ApprovalPending || task.Attempts != 0 {
		h.t.Fatalf("%+v, %+v, leases %+v, %v", task, a, active, err)
	}
	return a
}

// idle reports whether nothing but the worker itself runs.
func (h *harness) idle(worker string) bool { return len(marked(h.markOf(worker))) <= 1 }

// decide decides a request twice: the second decision is refused.
func (h *harness) decide(a bloom.Approval, d bloom.Decision) {
	h.t.Helper()
	d.InputSHA256 = a.InputSHA256
	if _, err := h.api.Decide(h.t.Context(), a.ID, d); err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.api.Decide(h.t.Context(), a.ID, d); bloom.KindOf(err) != bloom.KindConflict {
		h.t.Errorf("decided twice: %v", err)
	}
}

// TestASuspendedRunGoesOnOnAnotherWorkerWithThatVeryCall: a call that a rule names waits without a
// process and without a lease. Once it is allowed it runs once, on another worker, with the folder
// as it was; one that is denied does not run, and a question is answered. The model is asked as often
// as without waiting.
func TestASuspendedRunGoesOnOnAnotherWorkerWithThatVeryCall(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	question := map[string]any{"questions": []any{map[string]any{"question": "Which colour?", "header": "Colour", "multiSelect": false,
		"options": []any{map[string]any{"label": "Red", "description": "warm"}, map[string]any{"label": "Blue", "description": "cold"}}}}}
	bash := func(command string) standin.Reply {
		return standin.Tool("", "Bash", map[string]any{"command": command, "description": "work"})
	}
	h.script("travels", standin.Sequence(
		bash("echo before >> log.txt"), bash(`printf "first\n" >> log.txt`), bash(`printf "second\n" >> log.txt`),
		standin.Tool("", "AskUserQuestion", question), bash("cat log.txt"), standin.Reply{Text: "all done"}))
	one := h.work(workerOptions{name: "one", args: []string{"--allowed-tool", "Bash", "--approval-grace", "1ms"}})
	one.says("registered")
	task := h.submit(t, bloom.TaskSpec{ContextID: "c", AgentSlug: "nobody", Prompt: "scenario travels;", MaxAttempts: 1,
		Policy: bloom.Policy{Workspace: bloom.WorkspaceContext, Ask: []string{"Bash(printf *)"}, Questions: true}})
	first := h.waits(task.ID)
	if first.Readable != `printf "first\n" >> log.txt` || first.WorkerID != "one" {
		t.Fatalf("%+v", first)
	}
	eventually(t, "no claude runs", func() bool { return h.idle("one") })
	h.untilAsked("scenario travels;", 2)
	h.stop(one)
	h.work(workerOptions{name: "two", args: []string{"--allowed-tool", "Bash", "--approval-grace", "1ms"}}).says("registered")
	h.decide(first, bloom.Decision{Decision: "allow"})
	second := h.waits(task.ID, first.ID)
	h.decide(second, bloom.Decision{Decision: "deny", Message: "not on a Friday"})
	asked := h.waits(task.ID, second.ID)
	if asked.Kind != bloom.ApprovalQuestion || !strings.Contains(asked.Readable, "Which colour?\n  · Red: warm") {
		t.Errorf("%+v", asked)
	}
	h.decide(asked, bloom.Decision{Decision: "allow", Answers: map[string]string{"Which colour?": "Blue"}})
	h.await(t, task.ID).succeeded("all done")
	requests := h.asked("scenario travels;")
	if len(requests) != 6 {
		t.Errorf("the model was asked %d times", len(requests))
	}
	last := requests[len(requests)-1].Conversation()
	for _, want := range []string{"not on a Friday", `"Which colour?"="Blue"`, "before\nfirst"} {
		if !strings.Contains(last, want) {
			t.Errorf("%q is not in what the model was told:\n%s", want, last)
		}
	}
	if strings.Contains(last, "before\nfirst\nfirst") || strings.Contains(last, "first\nsecond") {
		t.Errorf("a call ran twice, or although it was denied:\n%s", last)
	}
	results, err := h.api.Results(t.Context(), task.ID)
	if err != nil || len(results) != 1 || results[0].Metrics.NumTurns == nil || results[0].Metrics.Tokens() != 6*15 {
		t.Errorf("%+v, %v", results, err)
	}
}

// TestADecisionWithinTheGraceReachesTheRunningProcess: so does one about what the permission mode
// refuses, if the policy asks for it.
func TestADecisionWithinTheGraceReachesTheRunningProcess(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	h.script("quick", standin.Sequence(standin.Tool("", "Bash", map[string]any{"command": "touch /proc/self/nothing; mkfifo p && echo made it", "description": "work"}), standin.Reply{Text: "done"}))
	h.work(workerOptions{name: "w", args: []string{"--approval-grace", "10m"}}).says("registered")
	task := h.submit(t, bloom.TaskSpec{ContextID: "c", AgentSlug: "nobody", Prompt: "scenario quick;", Policy: bloom.Policy{Approval: bloom.PolicyAsk, TimeoutSec: 60}})
	var pending []bloom.Approval
	eventually(t, "a person is asked", func() bool {
		var err error
		pending, _, err = h.api.Approvals(t.Context(), bloom.ApprovalQuery{Status: bloom.ApprovalPending, TaskID: task.ID})
		return err == nil && len(pending) == 1
	})
	h.decide(pending[0], bloom.Decision{Decision: "allow"})
	h.await(t, task.ID).succeeded("done")
	if now, err := h.api.Task(t.Context(), task.ID); err != nil || now.Epoch != 1 || !strings.Contains(h.asked("scenario quick;")[1].Conversation(), "made it") {
		t.Errorf("%+v, %v", now, err)
	}
}

// suspensions returns how many tasks wait at once, and after how many decisions a worker is killed.
func suspensions() (tasks, batch int) {
	if os.Getenv("E2E_CAMPAIGN") == "full" {
		return 200, 20
	}
	return 8, 4
}

// TestManySuspendedRunsHoldNothing: tasks wait on workers with two slots. The server is killed at any
// moment, the workers while all runs wait, and the decisions come in random order, each twice: every
// call that was allowed ran once, no other ran, and the model was asked as often as without waiting.
func TestManySuspendedRunsHoldNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts claude many times")
	}
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); manySuspendedRuns(t) })
	if os.Getenv("E2E_CAMPAIGN") == "full" { // in the store nothing differs that its own suite does not test
		t.Run("postgresql", func(t *testing.T) { t.Parallel(); manySuspendedRuns(t, "--database-url", pgtest.Start(t)) })
	}
}

func manySuspendedRuns(t *testing.T, database ...string) {
	random := seeded(t)
	tasks, batch := suspensions()
	h := newHarness(t)
	server := h.serve(database...)
	h.anything(func(r standin.Request) standin.Reply {
		if strings.Contains(string(r.Raw), `"tool_result"`) { // not the last message: claude says where it is now
			return standin.Reply{Text: "done"}
		}
		_, n, _ := strings.Cut(r.LastUser(), "number ")
		n, _, _ = strings.Cut(n, ";")
		return standin.Tool("", "Bash", map[string]any{"command": "echo ran " + n + " >> " + h.dir + "/ran.txt", "description": "work"})
	})
	workers := map[string]*proc{}
	start := func(name string) {
		workers[name] = h.work(workerOptions{name: name, args: []string{"--allowed-tool", "Bash", "--max-concurrency", "2", "--approval-grace", "1ms", "--ask", "Bash", "--lease-ttl", "60s"}})
		workers[name].says("registered")
	}
	start("one")
	start("two")
	restart := func() { // at any moment
		server.kill()
		server = h.serve(database...)
	}
	var ids []string
	for i := range tasks {
		ids = append(ids, h.submit(t, bloom.TaskSpec{ContextID: fmt.Sprintf("c%d", i), AgentSlug: "nobody", Prompt: fmt.Sprintf("number %d;", i)}).ID)
		if i%batch == batch-1 {
			restart()
		}
	}
	asked := map[string]bloom.Approval{}
	for _, id := range ids {
		asked[id] = h.waits(id)
	}
	eventually(t, "no claude runs", func() bool { return h.idle("one") && h.idle("two") })
	allowed := func(i int) bool { return i%2 == 0 }
	for n, i := range random.Perm(tasks) {
		a, decision := asked[ids[i]], bloom.Decision{Decision: "deny", InputSHA256: asked[ids[i]].InputSHA256}
		if allowed(i) {
			decision.Decision = "allow"
		}
		for range 2 { // a repeat is refused, and so is one whose first answer was lost with the server
			if _, err := h.api.Decide(t.Context(), a.ID, decision); err != nil && bloom.KindOf(err) != bloom.KindConflict {
				t.Fatal(err)
			}
		}
		if n%batch != batch-1 {
			continue
		}
		restart()
		eventually(t, "only undecided tasks are left", func() bool {
			stats, err := h.api.Stats(t.Context())
			return err == nil && stats.Tasks.ByStatus[bloom.TaskCompleted] == int64(n+1)
		})
		name := []string{"one", "two"}[random.IntN(2)]
		workers[name].kill()
		start(name)
	}
	for i, id := range ids {
		h.await(t, id).succeeded("done")
		if n := len(h.asked(fmt.Sprintf("number %d;", i))); n != 2 {
			t.Errorf("the model was asked %d times about task %d", n, i)
		}
	}
	ran := map[string]int{}
	for line := range strings.Lines(read(t, h.dir+"/ran.txt")) {
		ran[strings.TrimSpace(line)]++
	}
	for i := range tasks {
		if n := ran[fmt.Sprintf("ran %d", i)]; n > 1 || n == 1 != allowed(i) {
			t.Errorf("call %d ran %d times", i, n)
		}
	}
}
