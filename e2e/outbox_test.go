package e2e_test

import (
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// TestAnOutcomeWaitsForTheServer stops the server while a task runs, lets the task finish, stops
// the worker, and restarts both. The outcome is delivered once, and nothing runs again.
func TestAnOutcomeWaitsForTheServer(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*proc) bool{
		"and its worker is killed meanwhile": func(p *proc) bool { p.kill(); return true },
		"and its worker stops meanwhile":     func(p *proc) bool { return p.terminate() == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			server := h.serve()
			worker := h.work(workerOptions{name: "patient"})
			finish := make(chan struct{})
			h.script("outbox", standin.Sequence(standin.Reply{Text: "worth keeping", Until: finish}))
			task := h.submit(t, spec("outbox"))
			h.untilLeased(t, task.ID)
			h.untilAsked("scenario outbox;", 1)
			if code := server.terminate(); code != 0 {
				t.Errorf("the server ended with code %d", code)
			}
			close(finish)
			eventually(t, "the outcome lies in the outbox", func() bool { return len(h.outbox("patient")) == 1 })
			if !end(worker) {
				t.Error("the worker did not end in order")
			}
			if n := len(h.outbox("patient")); n != 1 {
				t.Fatalf("%d outcomes in the outbox after the worker's end, want 1", n)
			}
			h.work(workerOptions{name: "patient"})
			h.serve()
			o := h.await(t, task.ID)
			o.succeeded("worth keeping")
			if o.task.Attempts != 1 || strings.Count(o.actions(), audit.ActionTaskCompleted) != 1 {
				t.Errorf("attempts %d; %s", o.task.Attempts, o.story())
			}
			eventually(t, "the outbox is empty", func() bool { return len(h.outbox("patient")) == 0 })
			if n := len(h.asked("scenario outbox;")); n != 1 {
				t.Errorf("the model was asked %d times, want 1", n)
			}
		})
	}
}
