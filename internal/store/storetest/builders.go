package storetest

import (
	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// newTask returns an ordinary task with changes applied.
func newTask(change ...func(*contract.NewTask)) contract.NewTask {
	n := contract.NewTask{ID: newID(), Actor: "client", BodyHash: "body", Spec: bloom.TaskSpec{
		ContextID: "context", AgentSlug: "agent", Prompt: "prompt", MaxAttempts: 3,
		Policy: bloom.Policy{TimeoutSec: 120}, DesiredFormat: bloom.FormatText,
	}}
	for _, c := range change {
		c(&n)
	}
	input.Normalize(&n.Spec) // as dispatch does
	return n
}

func inContext(id string) func(*contract.NewTask) {
	return func(n *contract.NewTask) { n.Spec.ContextID = id }
}

func ordered(n *contract.NewTask) { n.Spec.Policy.Ordered = true }

func attempts(most int) func(*contract.NewTask) {
	return func(n *contract.NewTask) { n.Spec.MaxAttempts = most }
}

func labelled(labels ...string) func(*contract.NewTask) {
	return func(n *contract.NewTask) { n.Spec.Labels = labels }
}

func priority(p int) func(*contract.NewTask) {
	return func(n *contract.NewTask) { n.Spec.Priority = p }
}

func success(taskID, leaseID, output string) contract.CompleteRequest {
	return contract.CompleteRequest{
		TaskID: taskID, ArtifactID: newID(), ResultID: newID(), BodyHash: "success:" + output, Actor: "worker",
		Content: &output, Size: int64(len(output)), SHA256: "sha", MediaType: "text/plain; charset=utf-8",
		Completion: bloom.Completion{
			LeaseID: leaseID, Status: bloom.OutcomeSuccess, Output: &output, ArtifactType: "LLM_RESULT", ArtifactTags: []string{"tag"},
			Metrics: bloom.Metrics{DurationMS: 12},
		},
	}
}

// outcome is a success, or an error that is not to be retried.
func outcome(taskID, leaseID string, succeeded bool) contract.CompleteRequest {
	if succeeded {
		return success(taskID, leaseID, "done")
	}
	return failure(taskID, leaseID, "broken", false)
}

func failure(taskID, leaseID, message string, retryable bool) contract.CompleteRequest {
	return contract.CompleteRequest{
		TaskID: taskID, ArtifactID: newID(), ResultID: newID(), BodyHash: "failure:" + message, Actor: "worker", MediaType: "text/plain",
		Completion: bloom.Completion{
			LeaseID: leaseID, Status: bloom.OutcomeError, ErrorMessage: &message, ErrorClass: bloom.ClassCrashed, Retryable: retryable,
			ArtifactType: bloom.DefaultArtifactType, ArtifactTags: []string{},
		},
	}
}
