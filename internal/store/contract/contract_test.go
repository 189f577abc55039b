package contract_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

const at = int64(1_800_000_000_000)

func TestATaskIsWhatItsSpecSays(t *testing.T) {
	t.Parallel()
	full := contract.NewTask{ID: "id", Spec: bloom.TaskSpec{
		ContextID: "c", AgentSlug: "a", Prompt: "do", ContextHints: []string{"h"}, Labels: []string{"l"}, Policy: bloom.Policy{TimeoutSec: 5, Budget: 6, Ordered: true},
		DesiredFormat: bloom.FormatJSON, MaxAttempts: 2, Priority: 3, RunAt: at + 9, IdempotencyKey: "k",
	}}
	key := "k"
	want := bloom.Task{
		ID: "id", ContextID: "c", AgentSlug: "a", Prompt: "do", ContextHints: []string{"h"}, Labels: []string{"l"},
		Policy: bloom.Policy{TimeoutSec: 5, Budget: 6, Ordered: true}, DesiredFormat: bloom.FormatJSON, CreatedAt: at, Priority: 3, IdempotencyKey: &key,
		TaskState: bloom.TaskState{Status: bloom.TaskQueued, UpdatedAt: at, MaxAttempts: 2, RunAt: at + 9},
	}
	if d := cmp.Diff(want, full.Task(at)); d != "" {
		t.Errorf("one that says everything (-want +got):\n%s", d)
	}
	full.Spec.RunAt, full.Spec.IdempotencyKey = 0, ""
	if got := full.Task(at); got.RunAt != at || got.IdempotencyKey != nil {
		t.Errorf("one that may start at once: %+v", got)
	}
}

func TestReapedLeasesAreCountedByWhatBecameOfTheTask(t *testing.T) {
	t.Parallel()
	var did contract.Reaped
	for _, after := range []bloom.TaskStatus{bloom.TaskDead, bloom.TaskQueued, bloom.TaskQueued, bloom.TaskCancelled} {
		did.Count(after)
	}
	if want := (contract.Reaped{Requeued: 2, Dead: 1, Cancelled: 1}); did != want || did.Total() != 4 {
		t.Errorf("%+v, want %+v", did, want)
	}
}

func TestACompletionLeavesItsRecords(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	lease := bloom.Lease{WorkerID: "w", Epoch: 3}
	request := contract.CompleteRequest{
		TaskID: "t", ArtifactID: "a", ResultID: "r", URL: text("u"), Content: text("c"), Size: 2, SHA256: "s", MediaType: "m",
		Completion: bloom.Completion{
			Status: bloom.OutcomeSuccess, ArtifactType: bloom.DefaultArtifactType, ArtifactTags: []string{"x"}, ErrorClass: "ignored", Metrics: bloom.Metrics{DurationMS: 4, Model: "n"},
		},
	}
	a, r := request.Records(lease, at)
	wantA := bloom.Artifact{
		ID: "a", TaskID: "t", Type: bloom.DefaultArtifactType, CreatedAt: at, Finalized: true, URL: text("u"), EntityRefs: []string{},
		Tags: []string{"x"}, Content: text("c"), Size: 2, SHA256: "s", MediaType: "m", Epoch: 3,
	}
	wantR := bloom.Result{
		ID: "r", TaskID: "t", WorkerID: "w", ArtifactID: "a", Status: bloom.OutcomeSuccess, Output: text("c"), CompletedAt: at, Epoch: 3,
		Metrics: bloom.Metrics{DurationMS: 4, Model: "n"},
	}
	if d := cmp.Diff(wantA, a) + cmp.Diff(wantR, r); d != "" {
		t.Errorf("a success (-want +got):\n%s", d)
	}
	request.Completion = bloom.Completion{Status: bloom.OutcomeError, ErrorMessage: text("e"), ArtifactType: "LOG"}
	request.Content, request.URL = nil, nil
	a, r = request.Records(lease, at)
	if a.Type != "LOG" || a.Content != nil || a.URL != nil || r.Output != nil || *r.ErrorMessage != "e" || *r.ErrorClass != bloom.ClassInternal {
		t.Errorf("an error without a class: %+v %+v", a, r)
	}
	request.Completion.ErrorClass = "timeout"
	if _, r = request.Records(lease, at); *r.ErrorClass != "timeout" {
		t.Errorf("the class is %q", *r.ErrorClass)
	}
}

func TestSubscribersAreNotifiedOfATask(t *testing.T) {
	t.Parallel()
	holder := "holder"
	running := bloom.TaskState{Status: bloom.TaskRunning, WorkerID: &holder, CancelRequested: true, RunAt: at}
	queued := bloom.TaskState{Status: bloom.TaskQueued, RunAt: at}
	for name, c := range map[string]struct{ got, want bloom.Change }{
		"by somebody": {contract.TaskChange("t", running, "w"), bloom.Change{Kind: bloom.ChangeTask, TaskID: "t", WorkerID: "w", TaskStatus: bloom.TaskRunning, CancelRequested: true}},
		"by nobody":   {contract.TaskChange("t", running, ""), bloom.Change{Kind: bloom.ChangeTask, TaskID: "t", WorkerID: holder, TaskStatus: bloom.TaskRunning, CancelRequested: true}},
		"queued":      {contract.TaskChange("t", queued, ""), bloom.Change{Kind: bloom.ChangeTask, TaskID: "t", TaskStatus: bloom.TaskQueued, RunAt: at}},
	} {
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
