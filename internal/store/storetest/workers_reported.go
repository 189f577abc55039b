package storetest

import (
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var reportedWorkerTests = map[string]func(*harness){
	"a sync upserts and changes neither leases nor the drain": func(h *harness) {
		h.worker("w", 2)
		l := h.lease(h.create().ID, "w")
		_, err := h.s.DrainWorker(h.ctx, "w", true, "me")
		h.ok(err)
		report := []contract.WorkerReport{
			{Name: "w", URL: "http://w:9", Status: bloom.WorkerOnline, LastSeen: h.now()},
			{Name: "new", Status: bloom.WorkerOnline, LastSeen: h.now(), Capabilities: &bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 3}},
		}
		n, err := h.s.SyncWorkers(h.ctx, report)
		h.ok(err)
		same(h, "changed", n, 2)
		w, leases, err := h.s.Worker(h.ctx, "w")
		h.ok(err)
		if w.URL != "http://w:9" || !w.Draining || w.Capabilities.MaxConcurrency != 2 || len(leases) != 1 || leases[0] != l && leases[0].ID != l.ID {
			h.Errorf("worker %+v with %+v", w, leases)
		}
		trail := h.actions("w")
		n, err = h.s.SyncWorkers(h.ctx, report)
		h.ok(err)
		same(h, "changed again", n, 0)
		if got := h.actions("w"); !slices.Equal(got, trail) {
			h.Errorf("an unchanged report was audited: %v", got)
		}
	},
	"a worker drains while the runtime or the control plane says so": func(h *harness) {
		h.worker("w", 2)
		here := func(drain bool) (bloom.Worker, error) { return h.s.DrainWorker(h.ctx, "w", drain, "me") }
		there := func(drain bool) (bloom.Worker, error) { return h.s.FollowDrain(h.ctx, "w", drain, "membridge") }
		says := func(level *bool) func(bool) (bloom.Worker, error) {
			return func(bool) (bloom.Worker, error) {
				w, _, err := h.s.RegisterWorker(h.ctx, bloom.WorkerSpec{Name: "w", InstanceID: "w-1", Draining: level, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 2}}, "w")
				return w, err
			}
		}
		yes, no := true, false
		for i, step := range []struct {
			do          func(bool) (bloom.Worker, error)
			drain, want bool
			control     []string
		}{
			{do: there, drain: true, want: true, control: []string{"w"}},
			{do: here, want: true, control: []string{"w"}}, // not drained here
			{do: here, drain: true, want: true, control: []string{"w"}},
			{do: there, want: true},
			{do: says(&no), want: true}, // a worker does not undrain what was drained here
			{do: here, want: false},
			{do: says(&yes), want: true, control: []string{"w"}},
			{do: says(nil), want: true, control: []string{"w"}},
			{do: here, want: true, control: []string{"w"}},
			{do: says(&no), want: false},
			{do: there, drain: true, want: true, control: []string{"w"}},
		} {
			w, err := step.do(step.drain)
			h.ok(err)
			read, _, err := h.s.Worker(h.ctx, "w")
			h.ok(err)
			if w.Draining != step.want || read.Draining != step.want {
				h.Errorf("step %d: draining %v, read %v", i, w.Draining, read.Draining)
			}
			if there := len(step.control) > 0; w.ControlDrain != there || read.ControlDrain != there || read.Draining != (read.RuntimeDrain || there) {
				h.Errorf("step %d: answered %+v, read %+v", i, w, read)
			}
			control, err := h.s.ControlDrained(h.ctx)
			h.ok(err)
			if !slices.Equal(control, step.control) {
				h.Errorf("step %d: drained at the control plane: %v", i, control)
			}
		}
		trail := len(h.actions("w"))
		_, err := there(true)
		h.ok(err)
		same(h, "audited", len(h.actions("w")), trail)
		task := h.create()
		_, _, err = h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: task.ID})
		h.refused(err, bloom.ErrNoWorker)
		got, err := h.s.Claim(h.ctx, contract.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Max: 1})
		h.ok(err)
		if !got.Drain || len(got.Leases) != 0 {
			h.Errorf("claimed %+v", got)
		}
		_, err = h.s.FollowDrain(h.ctx, "nobody", true, "membridge")
		h.refused(err, bloom.ErrWorkerNotFound)
		h.ok(h.s.RemoveWorker(h.ctx, "w", "me"))
		h.worker("w", 2) // starts again
		w, _, err := h.s.Worker(h.ctx, "w")
		h.ok(err)
		same(h, "draining", w.Draining, false)
	},
	"a worker that signs off is published as offline": func(h *harness) {
		h.worker("w", 2)
		for _, status := range []bloom.WorkerStatus{bloom.WorkerOffline, bloom.WorkerOnline} {
			w, _, err := h.s.RegisterWorker(h.ctx, bloom.WorkerSpec{Name: "w", InstanceID: "w-1", Status: status}, "w")
			h.ok(err)
			same(h, "status", w.Status, status)
		}
		if got := h.actions("w"); !slices.Equal(got, []string{audit.ActionWorkerRegistered, audit.ActionWorkerOffline, audit.ActionWorkerUpdated}) {
			h.Errorf("audited %v", got)
		}
	},
	"a report does not make a worker with its own requests offline": func(h *harness) {
		h.worker("w", 2)
		_, err := h.s.SyncWorkers(h.ctx, []contract.WorkerReport{{Name: "w", Status: bloom.WorkerOffline, LastSeen: 1}})
		h.ok(err)
		w, _, err := h.s.Worker(h.ctx, "w")
		h.ok(err)
		same(h, "status", w.Status, bloom.WorkerOnline)
		_, err = h.s.SyncWorkers(h.ctx, []contract.WorkerReport{{Name: "w", Status: bloom.WorkerUnknown, Capabilities: &bloom.Capabilities{MaxConcurrency: 9}}})
		h.ok(err)
		w, _, err = h.s.Worker(h.ctx, "w")
		h.ok(err)
		if w.Status != bloom.WorkerOnline || !w.Capabilities.ClaudeCLI || w.Capabilities.MaxConcurrency != 2 {
			h.Errorf("by hearsay: %+v", w)
		}
	},
	"a reported worker keeps its status only while it is reported": func(h *harness) {
		for _, status := range []bloom.WorkerStatus{bloom.WorkerOnline, bloom.WorkerSyncing, bloom.WorkerError, bloom.WorkerUnknown} {
			report := []contract.WorkerReport{{Name: string(status), Status: status}}
			for range 9 {
				_, err := h.s.SyncWorkers(h.ctx, report)
				h.ok(err)
				_, err = h.s.MarkSilent(h.ctx, bloom.OfflineAfter)
				h.ok(err)
				h.advance(10 * time.Second)
			}
			w, _, err := h.s.Worker(h.ctx, report[0].Name)
			h.ok(err)
			same(h, "status", w.Status, status)
			same(h, "audited", len(h.actions(w.ID)), 1)
			h.advance(time.Minute)
			_, err = h.s.MarkSilent(h.ctx, bloom.OfflineAfter)
			h.ok(err)
			report[0].LastSeen = 1 // reported, without a new sign of life
			for range 2 {
				n, err := h.s.SyncWorkers(h.ctx, report)
				h.ok(err)
				same(h, "changed", n, 0)
			}
		}
	},
	"a silent worker becomes offline, once": func(h *harness) {
		h.worker("w", 1)
		h.worker("v", 1)
		h.advance(59 * time.Second)
		h.claim("v", 0)
		h.advance(2 * time.Second)
		for _, want := range []int{1, 0} {
			n, err := h.s.MarkSilent(h.ctx, bloom.OfflineAfter)
			h.ok(err)
			same(h, "marked", n, want)
		}
		w, _, err := h.s.Worker(h.ctx, "w")
		h.ok(err)
		same(h, "status", w.Status, bloom.WorkerOffline)
		_, _, err = h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: h.create().ID, WorkerID: "w"})
		h.refused(err, bloom.ErrNoWorker)
	},
}
