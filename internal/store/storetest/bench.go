package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// AddWorkers registers workers worker-00, worker-01 … with 32 slots each.
func AddWorkers(b *testing.B, s contract.Store, n int) {
	b.Helper()
	for i := range n {
		if _, _, err := s.RegisterWorker(context.Background(), bloom.WorkerSpec{
			Name: fmt.Sprintf("worker-%02d", i), Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 32},
		}, "bench"); err != nil {
			b.Fatal(err)
		}
	}
}

// Plain returns an ordinary task.
func Plain(contextID string) contract.NewTask {
	n := contract.NewTask{ID: uuid.Must(uuid.NewV7()).String(), Actor: "bench", BodyHash: "0123456789abcdef0123456789abcdef", Spec: bloom.TaskSpec{
		ContextID: contextID, AgentSlug: "writer", Prompt: "Write a line about the weather in a town by the sea.",
	}}
	input.Normalize(&n.Spec) // as dispatch does
	return n
}

// Success returns a successful completion of a lease.
func Success(taskID, leaseID string) contract.CompleteRequest {
	out := "The wind turned at noon and the gulls came in with it."
	r := contract.CompleteRequest{
		TaskID: taskID, ArtifactID: uuid.Must(uuid.NewV7()).String(), ResultID: uuid.Must(uuid.NewV7()).String(), BodyHash: "h", Actor: "bench",
		Content: &out, Size: int64(len(out)), SHA256: "s", MediaType: "text/plain",
		Completion: bloom.Completion{LeaseID: leaseID, Status: bloom.OutcomeSuccess, Output: &out},
	}
	input.Normalize(&r.Completion)
	return r
}

// Lifecycle creates, leases, renews and completes a task, each in its own call.
func Lifecycle(s contract.Store, contextID string) error {
	ctx := context.Background()
	n := Plain(contextID)
	if _, _, err := s.CreateTask(ctx, n); err != nil {
		return err
	}
	l, _, err := s.LeaseTask(ctx, contract.LeaseRequest{TaskID: n.ID, Actor: "bench"})
	if err != nil {
		return err
	}
	if _, err := s.Heartbeat(ctx, n.ID, l.ID, nil); err != nil {
		return err
	}
	_, err = s.Complete(ctx, Success(n.ID, l.ID))
	return err
}
