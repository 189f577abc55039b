package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var claimTests = map[string]func(*harness){
	"an unknown worker claims nothing": func(h *harness) {
		_, err := h.s.Claim(h.ctx, contract.ClaimRequest{WorkerID: "nobody", Max: 1})
		h.refused(err, bloom.ErrWorkerNotFound)
	},
	"a claim returns at most what it asks for and has free slots for": func(h *harness) {
		h.worker("w", 3)
		for range 5 {
			h.create()
		}
		same(h, "none asked", len(h.claim("w", 0).Leases), 0)
		r := h.claim("w", 2)
		same(h, "two asked", len(r.Leases), 2)
		held := []string{r.Leases[0].Lease.ID, r.Leases[1].Lease.ID}
		if d := cmp.Diff(h.task(r.Leases[0].Task.ID), r.Leases[0].Task, exceptStart); d != "" {
			h.Errorf("the task (-stored +claimed):\n%s", d)
		}
		r = h.claim("w", 9, held...)
		same(h, "room for one", len(r.Leases), 1)
		same(h, "renewed", len(r.Renewed), 2)
		same(h, "full", len(h.claim("w", 9, append(held, r.Leases[0].Lease.ID)...).Leases), 0)
	},
	"a full claim of long prompts is returned, and returned again": func(h *harness) {
		for name, size := range map[string]int{"short": 10, "long": 4097} {
			h.worker(name, bloom.MaxConcurrency, name)
			prompts := map[string]string{}
			for i := range bloom.MaxConcurrency {
				text := fmt.Sprint(i, strings.Repeat("x", size))
				prompts[h.create(labelled(name), prompt(text)).ID] = text
			}
			h.create(labelled(name), prompt("one too many"))
			first := h.claim(name, bloom.MaxConcurrency)
			again := h.claim(name, 1) // the response was lost: the worker names no lease
			same(h, "claimed", len(first.Leases), bloom.MaxConcurrency)
			if !slices.Equal(ids(again), ids(first)) {
				h.Errorf("claimed %v, then %v", ids(first), ids(again))
			}
			for _, l := range append(first.Leases, again.Leases...) {
				same(h, "the prompt of "+l.Task.ID, l.Task.Prompt, prompts[l.Task.ID])
			}
		}
	},
	"a claim without free slots still reports due tasks": func(h *harness) {
		h.worker("w", 1)
		l := h.lease(h.create().ID, "w")
		_, err := h.s.Cancel(h.ctx, l.TaskID, "me")
		h.ok(err)
		r := h.claim("w", 0, l.ID, "01890000-0000-7000-8000-000000000000")
		if !slices.Equal(r.Cancel, []string{l.ID}) || !slices.Equal(r.Lost, []string{"01890000-0000-7000-8000-000000000000"}) || len(r.Renewed) != 1 {
			h.Errorf("claimed %+v", r)
		}
	},
	"a renewal counts as a heartbeat": func(h *harness) {
		h.worker("w", 2)
		l := h.lease(h.create().ID, "w")
		h.advance(30 * time.Second)
		r := h.claim("w", 0, l.ID)
		if len(r.Renewed) != 1 || r.Renewed[0] != (bloom.Renewal{LeaseID: l.ID, ExpiresAt: h.now() + 60_000}) || len(r.Leases) != 0 {
			h.Errorf("claimed %+v", r)
		}
		h.status(l.TaskID, bloom.TaskRunning)
	},
	"a claim without renewal does not change the lease": func(h *harness) {
		h.worker("w", 2)
		l := h.lease(h.create().ID, "w")
		r, err := h.s.Claim(h.ctx, contract.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Held: []string{l.ID}})
		h.ok(err)
		same(h, "urgent", r.Urgent(), false)
		same(h, "renewed", len(r.Renewed), 0)
		h.status(l.TaskID, bloom.TaskLeased)
	},
	"leases of the worker that it does not name are returned again": func(h *harness) {
		h.worker("w", 2)
		l := h.lease(h.create().ID, "w")
		r := h.claim("w", 0)
		if len(r.Leases) != 1 || r.Leases[0].Lease.ID != l.ID || r.Leases[0].Task.Prompt != "prompt" || !r.Urgent() {
			h.Errorf("claimed %+v", r)
		}
		h.status(l.TaskID, bloom.TaskLeased)
	},
	"another worker's lease or a released lease is lost": func(h *harness) {
		h.worker("w", 2)
		h.worker("v", 2)
		theirs := h.lease(h.create().ID, "v")
		ours := h.lease(h.create(inContext("other")).ID, "w")
		h.advance(time.Hour)
		h.heartbeat(theirs)
		h.reap(contract.Reaped{Requeued: 1})
		r := h.claim("w", 0, theirs.ID, ours.ID)
		slices.Sort(r.Lost)
		want := []string{theirs.ID, ours.ID}
		slices.Sort(want)
		if !slices.Equal(r.Lost, want) || len(r.Renewed) != 0 {
			h.Errorf("claimed %+v", r)
		}
	},
	"a claim that finds an expired lease returns no tasks; the next one does": func(h *harness) {
		h.worker("w", 2)
		l := h.lease(h.create().ID, "w")
		h.advance(time.Hour)
		h.reap(contract.Reaped{Requeued: 1})
		r, err := h.s.Claim(h.ctx, contract.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Max: 1, TTLSec: 60, Held: []string{l.ID}})
		h.ok(err)
		if len(r.Leases) != 0 || !slices.Equal(r.Lost, []string{l.ID}) {
			h.Errorf("claimed %+v", r)
		}
		same(h, "asked again", len(h.claim("w", 1).Leases), 1)
	},
	"a draining worker gets no new tasks and keeps its leases": func(h *harness) {
		h.worker("w", 2)
		l := h.lease(h.create().ID, "w")
		w, err := h.s.DrainWorker(h.ctx, "w", true, "me")
		h.ok(err)
		same(h, "draining", w.Draining, true)
		task := h.create()
		r := h.claim("w", 1, l.ID)
		if !r.Drain || len(r.Leases) != 0 || len(r.Renewed) != 1 {
			h.Errorf("claimed %+v", r)
		}
		_, _, err = h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: task.ID})
		h.refused(err, bloom.ErrNoWorker)
		_, err = h.s.DrainWorker(h.ctx, "w", false, "me")
		h.ok(err)
		same(h, "lifted", len(h.claim("w", 1, l.ID).Leases), 1)
		_, err = h.s.DrainWorker(h.ctx, "nobody", true, "me")
		h.refused(err, bloom.ErrWorkerNotFound)
	},
	"a second process with the worker's name is refused while the first is alive": func(h *harness) {
		h.worker("w", 1)
		second := contract.ClaimRequest{WorkerID: "w", InstanceID: "w-2", Max: 1}
		_, err := h.s.Claim(h.ctx, second)
		h.refused(err, bloom.ErrWorkerConflict)
		_, _, err = h.s.RegisterWorker(h.ctx, bloom.WorkerSpec{Name: "w", InstanceID: "w-2"}, "w")
		h.refused(err, bloom.ErrWorkerConflict)
		h.advance(bloom.OfflineAfter + time.Second)
		_, err = h.s.Claim(h.ctx, second)
		h.ok(err)
		_, err = h.s.Claim(h.ctx, contract.ClaimRequest{WorkerID: "w", InstanceID: "w-1"})
		h.refused(err, bloom.ErrWorkerConflict)
	},
	"a claim makes a silent worker online": func(h *harness) {
		h.worker("w", 1)
		h.advance(2 * time.Minute)
		n, err := h.s.MarkSilent(h.ctx, bloom.OfflineAfter)
		h.ok(err)
		same(h, "marked", n, 1)
		h.create()
		same(h, "claimed", len(h.claim("w", 1).Leases), 1)
		if got := h.actions("w"); !slices.Equal(got, []string{audit.ActionWorkerRegistered, audit.ActionWorkerOffline, audit.ActionWorkerOnline}) {
			h.Errorf("audited %v", got)
		}
	},
	"a worker without claude gets no tasks": func(h *harness) {
		_, _, err := h.s.RegisterWorker(h.ctx, bloom.WorkerSpec{Name: "w", InstanceID: "w-1", Capabilities: bloom.Capabilities{MaxConcurrency: 4}}, "w")
		h.ok(err)
		h.create()
		same(h, "claimed", len(h.claim("w", 1).Leases), 0)
	},
}
