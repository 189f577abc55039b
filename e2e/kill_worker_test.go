package e2e_test

import (
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/standin"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// stale tries every write that a worker can make, under an expired lease: each is refused and
// nothing changes.
func (h *harness) stale(t *testing.T, taskID, leaseID string) {
	t.Helper()
	before, err := h.api.Task(t.Context(), taskID)
	if err != nil {
		t.Fatal(err)
	}
	output := "too late"
	_, completed := h.api.Complete(t.Context(), taskID, bloom.Completion{LeaseID: leaseID, Status: bloom.OutcomeSuccess, Output: &output})
	_, beaten := h.api.Heartbeat(t.Context(), taskID, leaseID, nil)
	_, released := h.api.Release(t.Context(), taskID, bloom.ReleaseSpec{LeaseID: leaseID, Reason: "too late"})
	appended := h.api.AppendEvents(t.Context(), taskID, leaseID, []bloom.WorkerEvent{{Seq: 9999, Type: "text", At: 1, Data: []byte(`{"text":"too late"}`)}})
	for name, err := range map[string]error{"complete": completed, "heartbeat": beaten, "release": released, "events": appended} {
		if !errors.Is(err, bloom.ErrLeaseLost) {
			t.Errorf("%s under a lost lease: %v, want lease_lost", name, err)
		}
	}
	late := string(storable.MustJSON(bloom.Completion{LeaseID: leaseID, Status: bloom.OutcomeSuccess, Output: &output, ArtifactTags: []string{}}))
	if status, answer := h.raw(t, http.MethodPost, "/llm-tasks/"+taskID+"/complete", late); status != http.StatusConflict || !strings.Contains(answer, `"lease_lost"`) {
		t.Errorf("a late completion got %d %s", status, answer)
	}
	after, err := h.api.Task(t.Context(), taskID)
	if err != nil || string(storable.MustJSON(after)) != string(storable.MustJSON(before)) {
		t.Errorf("the task changed from %s to %s, %v", storable.MustJSON(before), storable.MustJSON(after), err)
	}
}

// fenced expects a task that its first worker lost and its second completed, with nothing accepted
// from the first after its lease had expired.
func (o outcome) fenced(output, second string) {
	o.t.Helper()
	o.succeeded(output)
	if o.task.Attempts != 2 || o.results[0].Epoch != 2 || *o.task.WorkerID != second {
		o.t.Errorf("task = %s, result of epoch %d; want the second attempt's, by %s", storable.MustJSON(o.task.TaskState), o.results[0].Epoch, second)
	}
	expired := false
	for _, e := range o.events {
		expired = expired || e.Type == bloom.EventExpired
		if expired && e.Epoch == 1 && e.Type != bloom.EventExpired {
			o.t.Errorf("event %d (%s) of the first lease came after its end", e.Seq, e.Type)
		}
	}
	if !expired {
		o.t.Errorf("nothing says that the lease expired: %s", kinds(o.events))
	}
}

// TestAWorkerIsKilled kills a worker whose claude runs a tool that left its session. All of it dies
// with the worker; another worker runs the task.
func TestAWorkerIsKilled(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	doomed := h.work(workerOptions{name: "doomed", args: []string{"--lease-ttl", "6s", "--allowed-tool", "Bash"}})
	h.script("doom", standin.Sequence(
		standin.Tool("", "Bash", map[string]any{"command": "setsid sleep 600 & sleep 600", "description": "stay"}),
		standin.Reply{Text: "done by the heir"},
	))
	s := spec("doom")
	s.MaxAttempts = 2
	task := h.submit(t, s)
	lease := *h.untilLeased(t, task.ID)
	h.untilEvent(t, task.ID, "tool_use")
	// The worker, its supervisor, claude, a shell and two sleeps.
	eventually(t, "the tool runs", func() bool { return len(marked(h.markOf("doomed"))) >= 6 })
	doomed.kill()
	eventually(t, "everything of the worker is gone", func() bool { return len(marked(h.markOf("doomed"))) == 0 })

	h.work(workerOptions{name: "heir", args: []string{"--lease-ttl", "6s"}})
	o := h.await(t, task.ID)
	o.fenced("done by the heir", "heir")
	h.stale(t, task.ID, lease)

	// After its restart it knows what it was doing, and does not continue it.
	h.work(workerOptions{name: "doomed", args: []string{"--lease-ttl", "6s"}})
	h.script("after", standin.Sequence(standin.Reply{Text: "well again"}))
	h.await(t, h.submit(t, spec("after")).ID).succeeded("well again")
	if results, err := h.api.Results(t.Context(), task.ID); err != nil || len(results) != 1 {
		t.Errorf("%d results, %v", len(results), err)
	}
}

// TestAWorkerIsKilledAndComesBackAtOnce restarts a killed worker while its lease is still valid:
// the interrupted attempt is reported as lost immediately, and never starts again under the same
// lease.
func TestAWorkerIsKilledAndComesBackAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	worker := h.work(workerOptions{name: "phoenix"})
	h.script("phoenix", standin.Sequence(standin.Reply{Until: make(chan struct{})}))
	s := spec("phoenix")
	s.MaxAttempts = 2
	task := h.submit(t, s)
	h.untilLeased(t, task.ID)
	h.untilAsked("scenario phoenix;", 1)
	worker.kill()
	h.work(workerOptions{name: "phoenix"})
	h.untilEvent(t, task.ID, bloom.EventRetried)
	now, err := h.api.Cancel(t.Context(), task.ID) // before its second attempt is due
	if err != nil || now.Status != bloom.TaskCancelled || now.Attempts != 1 || now.Epoch != 1 {
		t.Errorf("task = %s, %v; want it cancelled after one attempt", storable.MustJSON(now.TaskState), err)
	}
	o := h.await(t, task.ID)
	if len(o.results) != 1 || o.results[0].ErrorClass == nil || *o.results[0].ErrorClass != bloom.ClassWorkerLost {
		t.Errorf("want one result that says that the worker was lost; %s", o.story())
	}
	if n := len(h.asked("scenario phoenix;")); n != 1 {
		t.Errorf("the model was asked %d times, want 1", n)
	}
}

// TestEverythingInOneProcessIsKilled kills `bloom up` in the middle of a task and restarts it:
// nothing keeps running, and nothing is lost.
func TestEverythingInOneProcessIsKilled(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.script("all", standin.Sequence(standin.Tool("", "Bash", map[string]any{"command": "setsid sleep 600 & sleep 600", "description": "stay"}), standin.Reply{Text: "again"}))
	up := h.up("--allowed-tool", "Bash")
	s := spec("all")
	s.MaxAttempts = 2
	task := h.submit(t, s)
	h.untilEvent(t, task.ID, "tool_use")
	eventually(t, "the tool runs", func() bool { return len(marked(h.mark)) >= 5 })
	up.kill()
	eventually(t, "everything is gone", func() bool { return len(marked(h.mark)) == 0 })
	h.up("--allowed-tool", "Bash")
	o := h.await(t, task.ID)
	if o.task.Status != bloom.TaskCompleted || o.output != "again" || o.task.Attempts != 2 || len(o.results) != 2 {
		t.Errorf("task is %s after %d attempts, want completed by the second; %s", o.task.Status, o.task.Attempts, o.story())
	}
}

// untilLeased waits until a worker has the task, and returns the lease.
func (h *harness) untilLeased(t *testing.T, id string) *string {
	t.Helper()
	h.untilEvent(t, id, bloom.EventStarted)
	task, err := h.api.Task(t.Context(), id)
	if err != nil || task.LeaseID == nil {
		t.Fatalf("task = %+v, %v, want it leased", task, err)
	}
	return task.LeaseID
}

// TestAWorkerIsStoppedForTwiceItsTTL freezes a worker while its claude continues and finishes. When
// it resumes, another worker has the task: its outcome is refused.
func TestAWorkerIsStoppedForTwiceItsTTL(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	frozen := h.work(workerOptions{name: "frozen", args: []string{"--lease-ttl", "6s"}})
	first, second := make(chan struct{}), make(chan struct{})
	h.script("freeze", standin.Sequence(standin.Reply{Text: "stale", Until: first}, standin.Reply{Text: "fresh", Until: second}))
	s := spec("freeze")
	s.MaxAttempts = 2
	task := h.submit(t, s)
	lease := *h.untilLeased(t, task.ID)
	h.untilAsked("scenario freeze;", 1)

	frozen.signal(syscall.SIGSTOP)
	defer frozen.signal(syscall.SIGCONT)
	close(first) // claude finishes, which its worker does not see
	h.untilEvent(t, task.ID, bloom.EventExpired)
	h.work(workerOptions{name: "heir", args: []string{"--lease-ttl", "6s"}})
	h.untilAsked("scenario freeze;", 2)
	h.stale(t, task.ID, lease)

	frozen.signal(syscall.SIGCONT)
	// It notices in one of these ways, and delivers its outcome, which is refused.
	frozen.says("the lease was lost", "the lease ran out", "the server refused an outcome")
	eventually(t, "the thawed worker is done with its lease", func() bool {
		return len(h.outbox("frozen")) == 0 && len(marked(h.markOf("frozen"))) == 1
	})
	close(second)
	o := h.await(t, task.ID)
	o.fenced("fresh", "heir")
	for _, d := range o.of("text") {
		if d["text"] == "stale" {
			t.Error("a text of the stale run is in the stream")
		}
	}
	h.stale(t, task.ID, lease)
}
