package problems

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Explain sets what a queued task waits for, which costs two queries.
func (r *Finder) Explain(ctx context.Context, t bloom.Task) (bloom.Task, error) {
	if t.Status != bloom.TaskQueued {
		return t, nil
	}
	place, err := r.store.QueuePlace(ctx, t.ID)
	if err != nil {
		return t, err
	}
	workers, err := r.store.Workers(ctx)
	if err != nil {
		return t, err
	}
	w := waitingFor(t, place, workers, timing.Millis(r.clock.Now()))
	t.WaitingFor = &w
	return t, nil
}

// waitingFor returns why a queued task has not started; now is in Unix milliseconds.
func waitingFor(t bloom.Task, p contract.QueuePlace, workers []bloom.Worker, now int64) bloom.WaitingFor {
	switch {
	case p.Gate == contract.GateApproval && t.Suspension() != nil:
		return bloom.WaitingFor{Reason: WaitApproval, Approval: t.Suspension().ApprovalID, Sentence: "It waits for a person to decide what it asked; nothing runs meanwhile"}
	case p.Gate == contract.GateOrdered && p.Before != "":
		return bloom.WaitingFor{Reason: WaitOrdered, TaskID: p.Before, Sentence: "It waits for task " + p.Before + ", an earlier ordered task of its context"}
	case p.Gate == contract.GateOrdered, p.Skipped > now:
		return bloom.WaitingFor{Reason: WaitSkipped, Sentence: "The server could not change the task's record and tries again within a minute; its log says why"}
	case p.Gate == contract.GateDelayed && t.RunAt > now:
		return bloom.WaitingFor{Reason: WaitDelayed, Until: t.RunAt, Sentence: "It is scheduled for " + time.UnixMilli(t.RunAt).UTC().Format(time.RFC3339)}
	}
	if w, stuck := NoWorker(t.Labels, workers); stuck {
		return w
	}
	if p.Preferred != "" && p.Until > now {
		return bloom.WaitingFor{Reason: WaitKept, WorkerID: p.Preferred, Until: p.Until,
			Sentence: "It is kept for a moment for " + p.Preferred + ", the worker that last ran its context"}
	}
	if !slices.ContainsFunc(workers, func(w bloom.Worker) bool { return w.CanTake(t.Labels) && w.Claims() }) {
		return bloom.WaitingFor{Reason: WaitNoClaims, Sentence: "No worker that fits claims tasks: run bloom worker on it; an agent that only membridge knows runs none"}
	}
	return bloom.WaitingFor{Reason: WaitNothing, Sentence: "Nothing: a worker takes it with its next claim"}
}

// NoWorker returns why no worker can take a task with the labels; stuck is false
// if one can.
func NoWorker(labels []string, workers []bloom.Worker) (w bloom.WaitingFor, stuck bool) {
	left := slices.Clone(workers)
	keep := func(match func(bloom.Worker) bool) bool {
		left = slices.DeleteFunc(left, func(w bloom.Worker) bool { return !match(w) })
		return len(left) > 0
	}
	switch {
	case len(left) == 0:
		return bloom.WaitingFor{Reason: WaitNoWorker, Sentence: "No worker is registered; start one with: bloom worker"}, true
	case !keep(func(w bloom.Worker) bool { return w.Status == bloom.WorkerOnline }):
		return bloom.WaitingFor{Reason: WaitNoneOnline, Sentence: "No worker is online"}, true
	case !keep(func(w bloom.Worker) bool { return w.Capabilities.Carries(labels) }):
		return bloom.WaitingFor{Reason: WaitLabels, Labels: labels, Sentence: "No online worker carries " + theLabels(labels)}, true
	case !keep(func(w bloom.Worker) bool { return w.Capabilities.ClaudeCLI }):
		return bloom.WaitingFor{Reason: WaitNoClaude, Sentence: "No worker that fits can run claude; run bloom doctor there to see why"}, true
	case !keep(func(w bloom.Worker) bool { return !w.Draining }):
		return bloom.WaitingFor{Reason: WaitDrained, Sentence: "Every worker that fits is drained; undrain one"}, true
	}
	paused := slices.Clone(left)
	if !keep(func(w bloom.Worker) bool { return w.Pause == nil }) {
		return waitsForPause(paused), true
	}
	used, slots := 0, 0
	for _, w := range left {
		used, slots = used+w.ActiveLeases, slots+w.Capabilities.MaxConcurrency
	}
	if !keep(func(w bloom.Worker) bool { return w.Free() > 0 }) {
		return bloom.WaitingFor{Reason: WaitFull, Used: used, Slots: slots,
			Sentence: fmt.Sprintf("Every worker that fits is full: %d of %d slots are in use", used, slots)}, true
	}
	return bloom.WaitingFor{}, false
}

// waitsForPause names the pause that ends first.
func waitsForPause(workers []bloom.Worker) bloom.WaitingFor {
	w := slices.MinFunc(workers, func(a, b bloom.Worker) int { return cmp.Compare(a.Pause.Until, b.Pause.Until) })
	return bloom.WaitingFor{Reason: WaitPaused, Until: w.Pause.Until, WorkerID: w.ID,
		Sentence: "Every worker that fits is paused; " + w.ID + " tries again at " + clock(w.Pause.Until) + ": " + w.Pause.Reason}
}
