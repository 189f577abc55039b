package storetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// random returns incompressible text of n characters of four bytes each: PostgreSQL
// compresses an index entry before it checks its size.
func random(n int) string {
	var b strings.Builder
	for range n {
		b.WriteRune(rune(0x10000 + rand.IntN(0x10000)))
	}
	return b.String()
}

// texts returns n texts of the given length.
func texts(n, characters int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = random(characters)
	}
	return list
}

// longTask returns a task whose fields are at the API's limits, or over characters beyond
// them. The API enforces the limits; no store may have lower ones.
func longTask(over int) func(*contract.NewTask) {
	return func(n *contract.NewTask) {
		n.IdempotencyScope, n.Actor = random(128+over), random(128+over)
		n.Spec = bloom.TaskSpec{
			ContextID: random(512 + over), AgentSlug: random(256 + over), Prompt: random(1<<20 + over), ContextHints: texts(1000+over, 100),
			Policy:        bloom.Policy{TimeoutSec: bloom.MaxTimeoutSec + over, Budget: math.MaxInt64},
			DesiredFormat: bloom.FormatJSON, MaxAttempts: bloom.MaxMaxAttempts, Priority: 1000 + over,
			Labels: texts(32+over, 128+over), IdempotencyKey: random(255 + over),
		}
	}
}

func longWorker(over int, labels []string) bloom.WorkerSpec {
	return bloom.WorkerSpec{
		Name: random(128 + over), URL: random(2048 + over), IPAddrs: texts(64+over, 64), AgentVersion: random(128 + over), OSInfo: random(256 + over),
		InstallMethod: random(64 + over), InstanceID: random(128 + over),
		Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: bloom.MaxConcurrency, Labels: append(texts(32, 128+over), labels...)},
	}
}

var limitTests = map[string]func(*harness){
	"every field at its limit":   func(h *harness) { h.wholeLife(0) },
	"every field beyond a limit": func(h *harness) { h.wholeLife(1) },
	"numbers at their limits": func(h *harness) {
		h.worker("w", 9)
		for _, p := range []int{-1000, 1000} {
			same(h, "priority", h.create(priority(p)).Priority, p)
		}
		task := h.create(func(n *contract.NewTask) { n.Spec.RunAt = math.MaxInt64 })
		same(h, "run at", h.task(task.ID).RunAt, math.MaxInt64)
		l := h.lease(h.create().ID, "w")
		_, err := h.s.AppendEvents(h.ctx, l.TaskID, l.ID, []bloom.WorkerEvent{{Seq: math.MaxInt64, Type: random(512), At: math.MaxInt64, Data: []byte(`1`)}})
		h.ok(err)
		most, cost := int64(math.MaxInt64), math.MaxFloat64
		r := success(l.TaskID, l.ID, "x")
		r.Completion.Metrics = bloom.Metrics{
			DurationMS: most, TokensUsed: &most, InputTokens: &most, OutputTokens: &most, CostUSD: &cost, CostKind: "none", NumTurns: &most, Model: random(512),
		}
		h.complete(r)
		results, err := h.s.Results(h.ctx, l.TaskID)
		h.ok(err)
		if d := cmp.Diff(r.Completion.Metrics, results[0].Metrics); d != "" {
			h.Errorf("metrics (-sent +stored):\n%s", d)
		}
		l = h.lease(h.create().ID, "w")
		_, err = h.s.Release(h.ctx, l.TaskID, bloom.ReleaseSpec{LeaseID: l.ID, Reason: random(1024), NotBefore: math.MaxInt64}, "w")
		h.ok(err)
		w, err := h.s.FollowDrain(h.ctx, "w", true, "me")
		h.ok(err)
		same(h, "draining", w.Draining, true)
	},
	"a reported worker whose name is too long is ignored": func(h *harness) {
		n, err := h.s.SyncWorkers(h.ctx, []contract.WorkerReport{
			{Name: random(3000), Status: bloom.WorkerOnline}, {Name: random(128), Status: bloom.WorkerOnline},
		})
		h.ok(err)
		same(h, "changed", n, 1)
	},
	"ordered and delayed tasks with long labels are claimed in order": func(h *harness) {
		labels := texts(32, 128)
		h.worker("w", 9, labels...)
		long := func(n *contract.NewTask) { n.Spec.Labels = labels }
		first, second := h.create(long, ordered), h.create(long, ordered)
		delayed := h.create(long, inContext("other"), func(n *contract.NewTask) { n.Spec.RunAt = h.now() + 1000 })
		h.finish(first.ID, "w")
		h.advance(3 * contract.StickyGrace)
		if got, want := ids(h.claim("w", 9)), []string{second.ID, delayed.ID}; !cmp.Equal(got, want) {
			h.Errorf("claimed %v, want %v", got, want)
		}
	},
}

// wholeLife takes a task with long fields through every operation that writes an index,
// and finds it through each index.
func (h *harness) wholeLife(over int) {
	h.Helper()
	n := newTask(longTask(over))
	task, _, err := h.s.CreateTask(h.ctx, n)
	h.ok(err)
	again, replayed, err := h.s.CreateTask(h.ctx, n)
	h.ok(err)
	same(h, "replayed", replayed && again.ID == task.ID, true)
	spec := longWorker(over, n.Spec.Labels)
	w, _, err := h.s.RegisterWorker(h.ctx, spec, random(128+over))
	h.ok(err)
	claim := contract.ClaimRequest{WorkerID: w.ID, InstanceID: spec.InstanceID, Max: 1, TTLSec: bloom.MaxLeaseTTLSec, Renew: true}
	res, err := h.s.Claim(h.ctx, claim)
	h.ok(err)
	if len(res.Leases) != 1 || res.Leases[0].Task.ID != task.ID {
		h.Fatalf("claimed %d tasks", len(res.Leases))
	}
	if d := cmp.Diff(h.task(task.ID), res.Leases[0].Task, exceptStart); d != "" {
		h.Errorf("the task (-stored +claimed):\n%.500s", d)
	}
	l := res.Leases[0].Lease
	_, err = h.s.AppendEvents(h.ctx, task.ID, l.ID, []bloom.WorkerEvent{{Seq: 1, Type: random(512 + over), Data: storable.MustJSON(random(10_000))}})
	h.ok(err)
	r := failure(task.ID, l.ID, random(1<<20+over), true)
	r.Completion.ErrorClass, r.Completion.ArtifactType, r.Completion.ArtifactTags = random(64+over), random(128+over), texts(64+over, 128)
	h.complete(r)
	h.advance(lifecycle.RetryDelay(1) + contract.StickyGrace)
	res, err = h.s.Claim(h.ctx, claim)
	h.ok(err)
	if len(res.Leases) != 1 {
		h.Fatalf("claimed %d tasks", len(res.Leases))
	}
	done := h.complete(success(task.ID, res.Leases[0].Lease.ID, random(1<<20+over)))
	for what, q := range map[string]bloom.TaskQuery{"context": {ContextID: n.Spec.ContextID}, "agent": {AgentSlug: n.Spec.AgentSlug}, "worker": {WorkerID: w.ID}} {
		found, _, err := h.s.Tasks(h.ctx, q)
		h.ok(err)
		if d := cmp.Diff([]bloom.Task{done.Task}, found, exceptStart); d != "" {
			h.Errorf("found by %s (-want +got):\n%.500s", what, d)
		}
	}
	h.ok(h.s.PutSettings(h.ctx, map[string]string{"key": random(2048 + over)}, bloom.Audit{Action: random(64), EntityID: random(512 + over), Detail: random(4096)}))
	h.ok(h.s.RemoveWorker(h.ctx, w.ID, fmt.Sprint("me", over)))
}
