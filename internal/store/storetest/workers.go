package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
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
	"a worker's key reports only for the live process": func(h *harness) {
		h.worker("w", 1) // with instance w-1
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
	"a registration is stored": func(h *harness) {
		spec := bloom.WorkerSpec{
			Name: "w", URL: "http://w:1", Status: bloom.WorkerSyncing, IPAddrs: []string{"10.0.0.1"}, AgentVersion: "1", OSInfo: "linux", InstallMethod: "deb", Agents: []string{"reviewer", "writer"},
			Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 4, Labels: []string{"gpu"}}, InstanceID: "i",
			Pause: &bloom.Pause{Until: 7, Class: bloom.ClassAuth, Reason: "not logged in"},
			Setup: &bloom.WorkerSetup{Folder: "/work", PerContext: true, PermissionMode: "plan", Claude: "2.1.329", Login: "api_key"},
		}
		got, created, err := h.s.RegisterWorker(h.ctx, spec, "me")
		h.ok(err)
		same(h, "created", created, true)
		at := h.now()
		want := bloom.Worker{
			ID: "w", NodeID: "w", URL: spec.URL, Status: bloom.WorkerSyncing, Capabilities: spec.Capabilities, LastHeartbeat: &at, IPAddrs: spec.IPAddrs,
			RegisteredAt: at, AgentVersion: "1", OSInfo: "linux", InstallMethod: "deb", Agents: []string{"reviewer", "writer"}, Pause: spec.Pause, Setup: spec.Setup,
		}
		stored, leases, err := h.s.Worker(h.ctx, "w")
		h.ok(err)
		if d := cmp.Diff(want, got) + cmp.Diff(want, stored); d != "" || leases == nil {
			h.Errorf("(-want +got):\n%s leases %v", d, leases)
		}
		h.advance(time.Minute)
		spec.Capabilities.MaxConcurrency, spec.Pause = 8, nil
		got, created, err = h.s.RegisterWorker(h.ctx, spec, "me")
		h.ok(err)
		same(h, "created", created, false)
		same(h, "registered", got.RegisteredAt, at)
		same(h, "slots", got.Capabilities.MaxConcurrency, 8)
		stored, _, err = h.s.Worker(h.ctx, "w")
		h.ok(err)
		same(h, "pause", stored.Pause, nil)
		if got := h.actions("w"); !slices.Equal(got, []string{audit.ActionWorkerRegistered, audit.ActionWorkerUpdated}) {
			h.Errorf("audited %v", got)
		}
	},
	"workers are listed by name with their leases": func(h *harness) {
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
	"a removed worker's tasks are requeued, and it returns only by registering": func(h *harness) {
		h.worker("w", 2)
		task := h.create(attempts(1))
		l := h.lease(task.ID, "w")
		h.heartbeat(l)
		h.ok(h.s.RemoveWorker(h.ctx, "w", "me"))
		same(h, "attempts", h.status(task.ID, bloom.TaskQueued).Attempts, 0)
		_, err := h.s.Heartbeat(h.ctx, task.ID, l.ID, nil)
		h.refused(err, bloom.ErrLeaseLost)
		_, err = h.s.Claim(h.ctx, contract.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Max: 1})
		h.refused(err, bloom.ErrWorkerNotFound)
		h.refused(h.s.RemoveWorker(h.ctx, "w", "me"), bloom.ErrWorkerNotFound)
		n, err := h.s.SyncWorkers(h.ctx, []contract.WorkerReport{{Name: "w", Status: bloom.WorkerOnline, LastSeen: h.now()}})
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
	"a removed worker returns when it is registered again, not when it is reported again": func(h *harness) {
		report := []contract.WorkerReport{{Name: "w", Status: bloom.WorkerOnline, PostedAt: 1000}}
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
		reported(0) // a known worker is only updated
		h.ok(h.s.RemoveWorker(h.ctx, "w", "me"))
		reported(0)
	},
	"a heartbeat keeps a worker online": func(h *harness) {
		h.worker("w", 1)
		l := h.lease(h.create().ID, "w")
		h.advance(50 * time.Second)
		h.heartbeat(l)
		h.advance(50 * time.Second)
		n, err := h.s.MarkSilent(h.ctx, bloom.OfflineAfter)
		h.ok(err)
		same(h, "marked", n, 0)
	},
	"a contact under a clock that was ahead does not keep a worker online": func(h *harness) {
		h.worker("w", 1)
		h.advance(-10 * time.Minute)
		n, err := h.s.MarkSilent(h.ctx, bloom.OfflineAfter)
		h.ok(err)
		same(h, "marked", n, 1)
		_, created, err := h.s.RegisterWorker(h.ctx, bloom.WorkerSpec{Name: "w", InstanceID: "another"}, "me")
		h.ok(err)
		same(h, "created", created, false)
	},
}
