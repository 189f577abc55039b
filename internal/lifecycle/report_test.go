package lifecycle_test

import (
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
)

func TestWhatIsDoneToAWorkerIsAudited(t *testing.T) {
	t.Parallel()
	was := known(t, at)
	wantAudit(t, lifecycle.DrainWorker(was, false), "", "")
	drained := lifecycle.DrainWorker(was, true)
	wantAudit(t, drained, bloom.ActionWorkerDrain, "Drained: takes no more work")
	wantAudit(t, lifecycle.DrainWorker(drained.Worker, true), "", "")
	undrained := lifecycle.DrainWorker(drained.Worker, false)
	wantAudit(t, undrained, bloom.ActionWorkerDrain, "Undrained")
	if !drained.Worker.Draining || undrained.Worker.Draining {
		t.Error("it is not drained, or not undrained")
	}
	silent := lifecycle.SilenceWorker(was, time.Minute)
	wantAudit(t, silent, bloom.ActionWorkerOffline, "No contact for more than 1m0s")
	if silent.Worker.Status != bloom.WorkerOffline || silent.Worker.InstanceID != "p" {
		t.Errorf("%+v", silent.Worker)
	}
	gone := lifecycle.RemoveWorker(was)
	wantAudit(t, gone, bloom.ActionWorkerRemoved, "Removed")
	if w := gone.Worker; !w.Removed || w.Status != bloom.WorkerOffline || w.InstanceID != "" || w.InstanceSeen != 0 || w.ConflictsWith("q", true, at) {
		t.Errorf("%+v", w)
	}
}

func TestAWorkerReportUpdatesAWorker(t *testing.T) {
	t.Parallel()
	with := func(change func(*lifecycle.KnownWorker)) lifecycle.KnownWorker {
		w := known(t, at)
		change(&w)
		return w
	}
	silent := with(func(w *lifecycle.KnownWorker) { w.InstanceID, w.InstanceSeen = "", 0 })
	later := at + lifecycle.ContactInterval.Milliseconds()
	for name, c := range map[string]struct {
		was            lifecycle.KnownWorker
		report         bloom.WorkerReport
		action, detail string
		contact        bool
		status         bloom.WorkerStatus
	}{
		"one nobody knew": {report: bloom.WorkerReport{Name: "w", Status: bloom.WorkerOnline},
			action: bloom.ActionWorkerRegistered, detail: "Reported by the control plane", status: bloom.WorkerOnline},
		"one without a name": {report: bloom.WorkerReport{Status: bloom.WorkerOnline}},
		"one that was removed": {was: lifecycle.RemoveWorker(silent).Worker, report: bloom.WorkerReport{Name: "w", Status: bloom.WorkerOnline},
			status: bloom.WorkerOffline},
		"nothing new": {was: silent, report: bloom.WorkerReport{Name: "w", Status: bloom.WorkerOnline, LastSeen: at}, status: bloom.WorkerOnline},
		"heard of, but just now": {was: silent, report: bloom.WorkerReport{Name: "w", Status: bloom.WorkerOnline, LastSeen: later - 1},
			status: bloom.WorkerOnline},
		"heard of again": {was: silent, report: bloom.WorkerReport{Name: "w", Status: bloom.WorkerOnline, LastSeen: later},
			contact: true, status: bloom.WorkerOnline},
		"another address": {was: silent, report: bloom.WorkerReport{Name: "w", URL: "http://v", LastSeen: at},
			action: bloom.ActionWorkerUpdated, detail: "Updated by the control plane", status: bloom.WorkerOnline},
		"gone": {was: silent, report: bloom.WorkerReport{Name: "w", Status: bloom.WorkerOffline},
			action: bloom.ActionWorkerOffline, detail: "Reported offline", status: bloom.WorkerOffline},
		"back": {was: with(func(w *lifecycle.KnownWorker) { *w = silent; w.Status = bloom.WorkerOffline }), report: bloom.WorkerReport{Name: "w", Status: bloom.WorkerOnline},
			action: bloom.ActionWorkerOnline, detail: "Reported online", status: bloom.WorkerOnline},
		"in trouble": {was: silent, report: bloom.WorkerReport{Name: "w", Status: bloom.WorkerError},
			action: bloom.ActionWorkerUpdated, detail: "Reported error", status: bloom.WorkerError},
		"gone, and only a lease was heard of since, from nobody who said who he is": {was: silent.Contact("", later).Worker,
			report: bloom.WorkerReport{Name: "w", Status: bloom.WorkerOffline}, action: bloom.ActionWorkerOffline, detail: "Reported offline", status: bloom.WorkerOffline},
		"gone, but it says itself that it is there": {was: known(t, at), report: bloom.WorkerReport{Name: "w", Status: bloom.WorkerOffline},
			status: bloom.WorkerOnline},
	} {
		got := lifecycle.SyncWorker(c.was, c.report, later)
		if got.Action != c.action || got.Detail != c.detail || got.Contact != c.contact || got.Worker.Status != c.status {
			t.Errorf("%s: %+v", name, got)
		}
		if got.Created != (c.action == bloom.ActionWorkerRegistered) {
			t.Errorf("%s: created %t", name, got.Created)
		}
	}
}

func TestTheAuditOfAWorkerHoldsItsStateAfter(t *testing.T) {
	t.Parallel()
	if got, want := string(lifecycle.DrainWorker(known(t, at), true).AuditData()), `{"draining":true,"status":"online"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
