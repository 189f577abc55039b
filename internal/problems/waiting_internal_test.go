package problems

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func TestWhyATaskWaits(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	later := now.Add(time.Hour).UnixMilli()
	contact := now.UnixMilli()
	fit := bloom.Worker{ID: "w", Status: bloom.WorkerOnline, LastHeartbeat: &contact, Contact: contact, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 2, Labels: []string{"gpu"}}}
	with := func(change func(*bloom.Worker)) bloom.Worker {
		w := fit
		change(&w)
		return w
	}
	offline := with(func(w *bloom.Worker) { w.Status = bloom.WorkerOffline })
	drained := with(func(w *bloom.Worker) { w.Draining = true })
	full := with(func(w *bloom.Worker) { w.ActiveLeases = 2 })
	paused := func(until int64) bloom.Worker {
		return with(func(w *bloom.Worker) {
			w.Pause = &bloom.Pause{Until: until, Class: bloom.ClassAuth, Reason: "not logged in"}
		})
	}
	noClaude := with(func(w *bloom.Worker) { w.Capabilities.ClaudeCLI = false })
	idle := with(func(w *bloom.Worker) { w.Contact = 0 })
	unlabelled := with(func(w *bloom.Worker) { w.Capabilities.Labels = nil })
	labelled := bloom.Task{Labels: []string{"gpu"}}
	ordered := bloom.Task{Policy: bloom.Policy{Ordered: true}}
	delayed := bloom.Task{TaskState: bloom.TaskState{RunAt: later}}
	kept := contract.QueuePlace{Preferred: "w", Until: now.UnixMilli() + 1}
	for name, c := range map[string]struct {
		task    bloom.Task
		place   contract.QueuePlace
		workers []bloom.Worker
		want    bloom.WaitingFor
	}{
		"ordered":                 {ordered, contract.QueuePlace{Gate: contract.GateOrdered, Before: "t1"}, nil, bloom.WaitingFor{Reason: "ordered", TaskID: "t1", Sentence: "It waits for task t1, an earlier ordered task of its context"}},
		"ordered, its turn":       {ordered, contract.QueuePlace{}, []bloom.Worker{fit}, bloom.WaitingFor{Reason: "next_claim"}},
		"not due":                 {delayed, contract.QueuePlace{Gate: contract.GateDelayed}, []bloom.Worker{fit}, bloom.WaitingFor{Reason: "delayed", Until: later, Sentence: "It is scheduled for 2026-03-01T13:00:00Z"}},
		"due in a moment":         {delayed, contract.QueuePlace{Gate: contract.GateOpen}, []bloom.Worker{fit}, bloom.WaitingFor{Reason: "next_claim"}},
		"nobody":                  {labelled, contract.QueuePlace{}, nil, bloom.WaitingFor{Reason: "no_worker_registered"}},
		"all offline":             {labelled, kept, []bloom.Worker{offline}, bloom.WaitingFor{Reason: "no_worker_online"}},
		"labels":                  {bloom.Task{Labels: []string{"arm", "gpu"}}, contract.QueuePlace{}, []bloom.Worker{fit, offline}, bloom.WaitingFor{Reason: "no_worker_with_labels", Labels: []string{"arm", "gpu"}, Sentence: "No online worker carries the labels arm, gpu"}},
		"no claude where it fits": {labelled, contract.QueuePlace{}, []bloom.Worker{noClaude, unlabelled}, bloom.WaitingFor{Reason: "no_worker_with_claude"}},
		"drained":                 {labelled, contract.QueuePlace{}, []bloom.Worker{drained, noClaude, unlabelled}, bloom.WaitingFor{Reason: "workers_drained"}},
		"paused": {labelled, contract.QueuePlace{}, []bloom.Worker{paused(later + 1), paused(later), drained}, bloom.WaitingFor{Reason: "workers_paused", Until: later, WorkerID: "w",
			Sentence: "Every worker that fits is paused; w tries again at " + clock(later) + ": not logged in"}},
		"one is not paused": {labelled, contract.QueuePlace{}, []bloom.Worker{paused(later), fit}, bloom.WaitingFor{Reason: "next_claim"}},
		"full":              {labelled, contract.QueuePlace{}, []bloom.Worker{full, full, drained, offline, unlabelled}, bloom.WaitingFor{Reason: "workers_full", Used: 4, Slots: 4, Sentence: "Every worker that fits is full: 4 of 4 slots are in use"}},
		"one has room":      {labelled, contract.QueuePlace{}, []bloom.Worker{full, fit}, bloom.WaitingFor{Reason: "next_claim"}},
		"kept":              {labelled, kept, []bloom.Worker{fit}, bloom.WaitingFor{Reason: "kept_for_worker", WorkerID: "w", Until: kept.Until, Sentence: "It is kept for a moment for w, the worker that last ran its context"}},
		"its turn has come": {ordered, contract.QueuePlace{Gate: contract.GateOrdered}, []bloom.Worker{fit}, bloom.WaitingFor{Reason: "skipped"}},
		"skipped":           {labelled, contract.QueuePlace{Gate: contract.GateOpen, Skipped: later}, []bloom.Worker{fit}, bloom.WaitingFor{Reason: "skipped"}},
		"no longer skipped": {labelled, contract.QueuePlace{Gate: contract.GateOpen, Skipped: now.UnixMilli()}, []bloom.Worker{fit}, bloom.WaitingFor{Reason: "next_claim"}},
		"nobody claims":     {labelled, contract.QueuePlace{}, []bloom.Worker{idle, drained}, bloom.WaitingFor{Reason: "no_worker_claims"}},
		"no longer kept":    {labelled, contract.QueuePlace{Preferred: "w", Until: now.UnixMilli()}, []bloom.Worker{fit}, bloom.WaitingFor{Reason: "next_claim"}},
	} {
		got := waitingFor(c.task, c.place, c.workers, now.UnixMilli())
		if got.Sentence == "" {
			t.Errorf("%s: no sentence", name)
		}
		if c.want.Sentence == "" {
			got.Sentence = ""
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
