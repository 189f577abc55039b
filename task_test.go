package bloom_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
)

func TestATaskIsKeptCleanAndWithItsDefaults(t *testing.T) {
	t.Parallel()
	bare := bloom.NewTask{ID: "id", Spec: bloom.TaskSpec{ContextID: "c", AgentSlug: "a", Prompt: "do\x00"}}
	want := bloom.Task{
		ID: "id", ContextID: "c", AgentSlug: "a", Prompt: "do\uFFFD", ContextHints: []string{}, Labels: []string{},
		Policy: bloom.Policy{TimeoutSec: bloom.DefaultTimeoutSec}, DesiredFormat: bloom.FormatText, CreatedAt: at,
		TaskState: bloom.TaskState{Status: bloom.TaskQueued, UpdatedAt: at, MaxAttempts: bloom.DefaultMaxAttempts, RunAt: at},
	}
	if d := cmp.Diff(want, bare.Task(at)); d != "" {
		t.Errorf("a bare one (-want +got):\n%s", d)
	}
	key := "k\uFFFD"
	full := bloom.NewTask{ID: "id", Spec: bloom.TaskSpec{
		ContextID: "c", AgentSlug: "a", Prompt: "do", ContextHints: []string{"h\x00"}, Labels: []string{"l"}, Policy: bloom.Policy{TimeoutSec: 5, Budget: 6, Ordered: true},
		DesiredFormat: bloom.FormatJSON, MaxAttempts: 2, Priority: 3, RunAt: at + 9, IdempotencyKey: "k\x00",
	}}
	want = bloom.Task{
		ID: "id", ContextID: "c", AgentSlug: "a", Prompt: "do", ContextHints: []string{"h\uFFFD"}, Labels: []string{"l"},
		Policy: bloom.Policy{TimeoutSec: 5, Budget: 6, Ordered: true}, DesiredFormat: bloom.FormatJSON, CreatedAt: at, Priority: 3, IdempotencyKey: &key,
		TaskState: bloom.TaskState{Status: bloom.TaskQueued, UpdatedAt: at, MaxAttempts: 2, RunAt: at + 9},
	}
	got := full.Task(at)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("one that says everything (-want +got):\n%s", d)
	}
	if got.Labels[0] = "x"; full.Spec.Labels[0] != "l" {
		t.Error("the task shares its labels with the request")
	}
}

func TestReapedLeasesAreCountedByWhatBecameOfTheTask(t *testing.T) {
	t.Parallel()
	var did bloom.Reaped
	for _, after := range []bloom.TaskStatus{bloom.TaskDead, bloom.TaskQueued, bloom.TaskQueued, bloom.TaskCancelled} {
		did.Count(after)
	}
	if want := (bloom.Reaped{Requeued: 2, Dead: 1, Cancelled: 1}); did != want || did.Total() != 4 {
		t.Errorf("%+v, want %+v", did, want)
	}
}
