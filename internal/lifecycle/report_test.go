package lifecycle_test

import (
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func TestWhatIsDoneToAWorkerIsAudited(t *testing.T) {
	t.Parallel()
	was := known(t, at)
	wantAudit(t, lifecycle.DrainWorker(was, false), "", "")
	drained := lifecycle.DrainWorker(was, true)
	wantAudit(t, drained, audit.ActionWorkerDrain, "Drained: takes no more work")
	wantAudit(t, lifecycle.DrainWorker(drained.Worker, true), "", "")
	undrained := lifecycle.DrainWorker(drained.Worker, false)
	wantAudit(t, undrained, audit.ActionWorkerDrain, "Undrained")
	if !drained.Worker.Draining || undrained.Worker.Draining {
		t.Error("it is not drained, or not undrained")
	}
	silent := lifecycle.SilenceWorker(was, time.Minute)
	wantAudit(t, silent, audit.ActionWorkerOffline, "No contact for more than 1m0s")
	if silent.Worker.Status != bloom.WorkerOffline || silent.Worker.InstanceID != "p" {
		t.Errorf("%+v", silent.Worker)
	}
	gone := lifecycle.RemoveWorker(was)
	wantAudit(t, gone, audit.ActionWorkerRemoved, "Removed")
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
		report         contract.WorkerReport
		action, detail string
		contact        bool
		status         bloom.WorkerStatus
	}{
		"one nobody knew": {report: contract.WorkerReport{Name: "w", Status: bloom.WorkerOnline},
			action: audit.ActionWorkerRegistered, detail: "Reported by the control plane", status: bloom.WorkerOnline},
		"one without a name": {report: contract.WorkerReport{Status: bloom.WorkerOnline}},
		"one that was removed": {was: lifecycle.RemoveWorker(silent).Worker, report: contract.WorkerReport{Name: "w", Status: bloom.WorkerOnline},
			status: bloom.WorkerOffline},
		"nothing new": {was: silent, report: contract.WorkerReport{Name: "w", Status: bloom.WorkerOnline, LastSeen: at}, status: bloom.WorkerOnline},
		"heard of, but just now": {was: silent, report: contract.WorkerReport{Name: "w", Status: bloom.WorkerOnline, LastSeen: later - 1},
			status: bloom.WorkerOnline},
		"heard of again": {was: silent, report: contract.WorkerReport{Name: "w", Status: bloom.WorkerOnline, LastSeen: later},
			contact: true, status: bloom.WorkerOnline},
		"another address": {was: silent, report: contract.WorkerReport{Name: "w", URL: "http://v", LastSeen: at},
			action: audit.ActionWorkerUpdated, detail: "Updated by the control plane", status: bloom.WorkerOnline},
		"gone": {was: silent, report: contract.WorkerReport{Name: "w", Status: bloom.WorkerOffline},
			action: audit.ActionWorkerOffline, detail: "Reported offline", status: bloom.WorkerOffline},
		"back": {was: with(func(w *lifecycle.KnownWorker) { *w = silent; w.Status = bloom.WorkerOffline }), report: contract.WorkerReport{Name: "w", Status: bloom.WorkerOnline},
			action: audit.ActionWorkerOnline, detail: "Reported online", status: bloom.WorkerOnline},
		"in trouble": {was: silent, report: contract.WorkerReport{Name: "w", Status: bloom.WorkerError},
			action: audit.ActionWorkerUpdated, detail: "Reported error", status: bloom.WorkerError},
		"gone, and only a lease was heard of since, from nobody who said who he is": {was: silent.Contact("", later).Worker,
			report: contract.WorkerReport{Name: "w", Status: bloom.WorkerOffline}, action: audit.ActionWorkerOffline, detail: "Reported offline", status: bloom.WorkerOffline},
		"gone, but it says itself that it is there": {was: known(t, at), report: contract.WorkerReport{Name: "w", Status: bloom.WorkerOffline},
			status: bloom.WorkerOnline},
	} {
		got := lifecycle.SyncWorker(c.was, c.report, later)
		if got.Action != c.action || got.Detail != c.detail || got.Contact != c.contact || got.Worker.Status != c.status {
			t.Errorf("%s: %+v", name, got)
		}
		if got.Created != (c.action == audit.ActionWorkerRegistered) {
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
