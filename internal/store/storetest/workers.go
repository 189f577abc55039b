package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
)

var workerTests = map[string]func(*harness){
	"the last log lines of each worker are kept, those of an earlier process while there is room": func(h *harness) {
		h.worker("w", 1)
		report := func(instance string, texts ...string) {
			h.Helper()
			r := bloom.LogReport{InstanceID: instance}
			for _, text := range texts {
				r.Lines = append(r.Lines, bloom.LogLine{At: 1, Level: "INFO", Text: text})
			}
			h.ok(h.s.ReportLogs(h.ctx, "w", r))
		}
		reported := func(want ...string) {
			h.Helper()
			logs, err := h.s.WorkerLogs(h.ctx, "w")
			h.ok(err)
			texts := []string{}
			for _, l := range logs.Lines {
				texts = append(texts, l.Text)
			}
			if !slices.Equal(texts, want) || logs.Lines == nil {
				h.Errorf("%q are reported, want %q", texts, want)
			}
		}
		reported()
		report("one", "a", "b")
		report("one", "a", "b", "c")
		reported("a", "b", "c")
		report("two", "d\x00")
		reported("a", "b", "c", "d\uFFFD")
		many := slices.Repeat([]string{strings.Repeat("ї", 400)}, 120)
		report("two", many...)
		reported(slices.Repeat([]string{strings.Repeat("ї", 250)}, 100)...)
		h.refused(h.s.ReportLogs(h.ctx, "nobody", bloom.LogReport{}), bloom.ErrWorkerNotFound)
		h.ok(h.s.RemoveWorker(h.ctx, "w", "x"))
		_, err := h.s.WorkerLogs(h.ctx, "w")
		h.refused(err, bloom.ErrWorkerNotFound)
		h.worker("w", 1)
		reported()
	},
	"a worker's key reports in the name of the living process alone": func(h *harness) {
		h.worker("w", 1) // its process is w-1
		as := func(instance string) bloom.LogReport {
			return bloom.LogReport{InstanceID: instance, Lines: []bloom.LogLine{{At: 1, Text: "x"}}, MustName: true}
		}
		h.ok(h.s.ReportLogs(h.ctx, "w", as("w-1")))
		h.refused(h.s.ReportLogs(h.ctx, "w", as("w-2")), bloom.ErrWorkerConflict)
		h.refused(h.s.ReportLogs(h.ctx, "w", as("")), bloom.ErrWorkerConflict)
		h.refused(h.s.ReportLogs(h.ctx, "nobody", as("w-1")), bloom.ErrWorkerNotFound)
		h.advance(bloom.OfflineAfter)
		h.ok(h.s.ReportLogs(h.ctx, "w", as("w-2")))
		h.ok(h.s.RemoveWorker(h.ctx, "w", "x"))
		h.refused(h.s.ReportLogs(h.ctx, "w", as("w-2")), bloom.ErrWorkerNotFound)
	},
	"a registration is kept": func(h *harness) {
		spec := bloom.WorkerSpec{
			Name: "w", URL: "http://w:1", Status: bloom.WorkerSyncing, IPAddrs: []string{"10.0.0.1"}, AgentVersion: "1", OSInfo: "linux", InstallMethod: "deb", Agents: []string{"reviewer", "writer"},
			Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 4, Labels: []string{"gpu"}}, InstanceID: "i",
		}
		got, created, err := h.s.RegisterWorker(h.ctx, spec, "me")
		h.ok(err)
		same(h, "created", created, true)
		at := h.now()
		want := bloom.Worker{
			ID: "w", NodeID: "w", URL: spec.URL, Status: bloom.WorkerSyncing, Capabilities: spec.Capabilities, LastHeartbeat: &at, IPAddrs: spec.IPAddrs,
			RegisteredAt: at, AgentVersion: "1", OSInfo: "linux", InstallMethod: "deb", Agents: []string{"reviewer", "writer"},
		}
		stored, leases, err := h.s.Worker(h.ctx, "w")
		h.ok(err)
		if d := cmp.Diff(want, got) + cmp.Diff(want, stored); d != "" || leases == nil {
			h.Errorf("(-want +got):\n%s leases %v", d, leases)
		}
		h.advance(time.Minute)
		spec.Capabilities.MaxConcurrency = 8
		got, created, err = h.s.RegisterWorker(h.ctx, spec, "me")
		h.ok(err)
		same(h, "created", created, false)
		same(h, "registered", got.RegisteredAt, at)
		same(h, "slots", got.Capabilities.MaxConcurrency, 8)
		if got := h.actions("w"); !slices.Equal(got, []string{bloom.ActionWorkerRegistered, bloom.ActionWorkerUpdated}) {
			h.Errorf("audited %v", got)
		}
	},
	"workers are listed by name with what they hold": func(h *harness) {
		h.worker("b", 2)
		h.worker("a", 2)
		l := h.lease(h.create().ID, "b")
		all, err := h.s.Workers(h.ctx)
		h.ok(err)
		if len(all) != 2 || all[0].ID != "a" || all[1].ActiveLeases != 1 {
			h.Errorf("workers: %+v", all)
		}
		w, leases, err := h.s.Worker(h.ctx, "b")
		h.ok(err)
		if w.ActiveLeases != 1 || len(leases) != 1 || leases[0].ID != l.ID {
			h.Errorf("worker %+v with %+v", w, leases)
		}
		_, _, err = h.s.Worker(h.ctx, "c")
		h.refused(err, bloom.ErrWorkerNotFound)
	},
	"a removed worker's tasks go back, and it returns only by registering": func(h *harness) {
		h.worker("w", 2)
		task := h.create(attempts(1))
		l := h.lease(task.ID, "w")
		h.beat(l)
		h.ok(h.s.RemoveWorker(h.ctx, "w", "me"))
		same(h, "attempts", h.status(task.ID, bloom.TaskQueued).Attempts, 0)
		_, err := h.s.Heartbeat(h.ctx, task.ID, l.ID)
		h.refused(err, bloom.ErrLeaseLost)
		_, err = h.s.Claim(h.ctx, bloom.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Max: 1})
		h.refused(err, bloom.ErrWorkerNotFound)
		h.refused(h.s.RemoveWorker(h.ctx, "w", "me"), bloom.ErrWorkerNotFound)
		n, err := h.s.SyncWorkers(h.ctx, []bloom.WorkerReport{{Name: "w", Status: bloom.WorkerOnline, LastSeen: h.now()}})
		h.ok(err)
		same(h, "synced", n, 0)
		_, _, err = h.s.Worker(h.ctx, "w")
		h.refused(err, bloom.ErrWorkerNotFound)
		all, err := h.s.Workers(h.ctx)
		h.ok(err)
		same(h, "listed", len(all), 0)
		_, created, err := h.s.RegisterWorker(h.ctx, bloom.WorkerSpec{Name: "w", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1}}, "me")
		h.ok(err)
		same(h, "created", created, true)
		h.lease(task.ID, "w")
	},
	"a sync upserts and touches neither leases nor the drain order": func(h *harness) {
		h.worker("w", 2)
		l := h.lease(h.create().ID, "w")
		_, err := h.s.DrainWorker(h.ctx, "w", true, "me")
		h.ok(err)
		report := []bloom.WorkerReport{
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
		_, _, err = h.s.LeaseTask(h.ctx, bloom.LeaseRequest{TaskID: task.ID})
		h.refused(err, bloom.ErrNoWorker)
		got, err := h.s.Claim(h.ctx, bloom.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Max: 1})
		h.ok(err)
		if !got.Drain || len(got.Leases) != 0 {
			h.Errorf("claimed %+v", got)
		}
		_, err = h.s.FollowDrain(h.ctx, "nobody", true, "membridge")
		h.refused(err, bloom.ErrWorkerNotFound)
		h.ok(h.s.RemoveWorker(h.ctx, "w", "me"))
		h.worker("w", 2) // begins anew
		w, _, err := h.s.Worker(h.ctx, "w")
		h.ok(err)
		same(h, "draining", w.Draining, false)
	},
	"a worker that says that it goes is told as offline": func(h *harness) {
		h.worker("w", 2)
		for _, status := range []bloom.WorkerStatus{bloom.WorkerOffline, bloom.WorkerOnline} {
			w, _, err := h.s.RegisterWorker(h.ctx, bloom.WorkerSpec{Name: "w", InstanceID: "w-1", Status: status}, "w")
			h.ok(err)
			same(h, "status", w.Status, status)
		}
		if got := h.actions("w"); !slices.Equal(got, []string{bloom.ActionWorkerRegistered, bloom.ActionWorkerOffline, bloom.ActionWorkerUpdated}) {
			h.Errorf("audited %v", got)
		}
	},
	"a removed worker comes back when it is posted anew, and not by being named on": func(h *harness) {
		report := []bloom.WorkerReport{{Name: "w", Status: bloom.WorkerOnline, PostedAt: 1000}}
		reported := func(want int) {
			n, err := h.s.SyncWorkers(h.ctx, report)
			h.ok(err)
			same(h, "changed", n, want)
		}
		reported(1)
		for range 2 {
			h.ok(h.s.RemoveWorker(h.ctx, "w", "me"))
			reported(0)
			reported(0)
			_, _, err := h.s.Worker(h.ctx, "w")
			h.refused(err, bloom.ErrWorkerNotFound)
			report[0].PostedAt++
			reported(1)
			_, _, err = h.s.Worker(h.ctx, "w")
			h.ok(err)
		}
		report[0].PostedAt++
		reported(0) // one that is here is only noted
		h.ok(h.s.RemoveWorker(h.ctx, "w", "me"))
		reported(0)
	},
	"a worker that speaks for itself is not offline by hearsay": func(h *harness) {
		h.worker("w", 2)
		_, err := h.s.SyncWorkers(h.ctx, []bloom.WorkerReport{{Name: "w", Status: bloom.WorkerOffline, LastSeen: 1}})
		h.ok(err)
		w, _, err := h.s.Worker(h.ctx, "w")
		h.ok(err)
		same(h, "status", w.Status, bloom.WorkerOnline)
		_, err = h.s.SyncWorkers(h.ctx, []bloom.WorkerReport{{Name: "w", Status: bloom.WorkerUnknown, Capabilities: &bloom.Capabilities{MaxConcurrency: 9}}})
		h.ok(err)
		w, _, err = h.s.Worker(h.ctx, "w")
		h.ok(err)
		if w.Status != bloom.WorkerOnline || !w.Capabilities.ClaudeCLI || w.Capabilities.MaxConcurrency != 2 {
			h.Errorf("by hearsay: %+v", w)
		}
	},
	"a worker that is only reported keeps its status while it is named, and no longer": func(h *harness) {
		for _, status := range []bloom.WorkerStatus{bloom.WorkerOnline, bloom.WorkerSyncing, bloom.WorkerError, bloom.WorkerUnknown} {
			report := []bloom.WorkerReport{{Name: string(status), Status: status}}
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
			report[0].LastSeen = 1 // named, but nothing new was heard of it
			for range 2 {
				n, err := h.s.SyncWorkers(h.ctx, report)
				h.ok(err)
				same(h, "changed", n, 0)
			}
		}
	},
	"silence on all sides makes a worker offline, once": func(h *harness) {
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
		_, _, err = h.s.LeaseTask(h.ctx, bloom.LeaseRequest{TaskID: h.create().ID, WorkerID: "w"})
		h.refused(err, bloom.ErrNoWorker)
	},
	"a heartbeat is a sign of life": func(h *harness) {
		h.worker("w", 1)
		l := h.lease(h.create().ID, "w")
		h.advance(50 * time.Second)
		h.beat(l)
		h.advance(50 * time.Second)
		n, err := h.s.MarkSilent(h.ctx, bloom.OfflineAfter)
		h.ok(err)
		same(h, "marked", n, 0)
	},
}
