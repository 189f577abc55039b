package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// history fills a stopped server's store as long use would: with ended tasks that have
// an artifact, a result, events and audit records, some of them failed, and with queued
// tasks.
type history struct {
	store   contract.Store
	workers []string
	queued  int // percent
}

const (
	historyPrompt = "Read the notes of the last meeting in notes/, list what was decided and by whom, and say what is still open. "
	historyOutput = "Three things were decided: the release moves to Thursday, Ana writes the migration notes, and the old endpoint stays until spring. Open: who tells the partners. "
)

func newHistory(ctx context.Context, store contract.Store, clients, queued int) (*history, error) {
	h := &history{store: store, queued: queued}
	for i := range 1 + (clients-1)/bloom.MaxConcurrency {
		name := fmt.Sprintf("bench-history-%d", i)
		_, _, err := store.RegisterWorker(ctx, bloom.WorkerSpec{Name: name, Status: bloom.WorkerOnline, InstallMethod: "bloom bench",
			Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: bloom.MaxConcurrency, Labels: []string{fillLabel}}}, "bench")
		if err != nil {
			return nil, errors.Join(err, h.close())
		}
		h.workers = append(h.workers, name)
	}
	return h, nil
}

// task writes the nth task, as one of several clients. After close no worker has its
// label.
func (h *history) task(ctx context.Context, client, n int) error {
	id := uuid.Must(uuid.NewV7()).String()
	spec := bloom.TaskSpec{
		ContextID: fmt.Sprintf("meeting-%d", n/20), AgentSlug: fmt.Sprintf("agent-%d", n%7), Prompt: historyPrompt, Priority: -1000, Labels: []string{fillLabel}}
	input.Normalize(&spec)
	_, _, err := h.store.CreateTask(ctx, contract.NewTask{ID: id, Actor: "bench", BodyHash: sum(id), Spec: spec})
	if err != nil || n%100 < h.queued {
		return err
	}
	lease, _, err := h.store.LeaseTask(ctx, contract.LeaseRequest{TaskID: id, WorkerID: h.workers[client/bloom.MaxConcurrency], Actor: "bench"})
	if err != nil {
		return err
	}
	if _, err := h.store.Heartbeat(ctx, id, lease.ID, nil); err != nil {
		return err
	}
	if n%10 == 0 {
		said := storable.MustJSON(map[string]string{"text": historyOutput})
		if _, err := h.store.AppendEvents(ctx, id, lease.ID, []bloom.WorkerEvent{{Seq: 1, Type: "text", Data: said}, {Seq: 2, Type: "text", Data: said}}); err != nil {
			return err
		}
	}
	return h.complete(ctx, n, lease)
}

func (h *history) complete(ctx context.Context, n int, lease bloom.Lease) error {
	output := historyOutput
	done := bloom.Completion{LeaseID: lease.ID, Status: bloom.OutcomeSuccess, Output: &output, Metrics: bloom.Metrics{DurationMS: int64(n % 60_000)}}
	if n%25 == 13 {
		why := "The agent gave up"
		done.Status, done.ErrorMessage, done.ErrorClass = bloom.OutcomeError, &why, bloom.ClassProviderError
	}
	input.Normalize(&done)
	_, err := h.store.Complete(ctx, contract.CompleteRequest{
		TaskID: lease.TaskID, ArtifactID: uuid.Must(uuid.NewV7()).String(), ResultID: uuid.Must(uuid.NewV7()).String(), Completion: done,
		BodyHash: sum(lease.ID), Content: &output, Size: int64(len(output)), SHA256: sum(output), MediaType: "text/plain; charset=utf-8", Actor: lease.WorkerID,
	})
	return err
}

// close removes the workers, also after an interrupt.
func (h *history) close() error {
	ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	var errs []error
	for _, name := range h.workers {
		errs = append(errs, h.store.RemoveWorker(ctx, name, "bench"))
	}
	return errors.Join(errs...)
}

func sum(s string) string {
	digest := sha256.Sum256([]byte(s))
	return hex.EncodeToString(digest[:])
}
