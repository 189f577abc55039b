package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// everything calls every operation of the store.
func everything(t *testing.T, s contract.Store, name string) {
	t.Helper()
	ctx := t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	register(t, s, name, 32)
	create := func(change func(*contract.NewTask)) bloom.Task {
		n := storetest.Plain("c1")
		change(&n)
		task, _, err := s.CreateTask(ctx, n)
		ok(err)
		return task
	}
	plain := func(*contract.NewTask) {}
	first := create(func(n *contract.NewTask) { n.IdempotencyScope, n.Spec.IdempotencyKey = "s", name })
	l, _, err := s.LeaseTask(ctx, contract.LeaseRequest{TaskID: first.ID})
	ok(err)
	_, err = s.Heartbeat(ctx, first.ID, l.ID, nil)
	ok(err)
	_, err = s.Heartbeat(ctx, first.ID, "", nil)
	ok(err)
	_, err = s.AppendEvents(ctx, first.ID, l.ID, []bloom.WorkerEvent{{Seq: 1, Type: "text"}})
	ok(err)
	for range 2 {
		_, err = s.Complete(ctx, storetest.Success(first.ID, l.ID))
		ok(err)
	}
	ordered := create(func(n *contract.NewTask) { n.Spec.Policy.Ordered, n.Spec.ContextID = true, uuid.NewString() })
	behind := create(func(n *contract.NewTask) { n.Spec.Policy.Ordered, n.Spec.ContextID = true, ordered.ContextID })
	_, err = s.QueuePlace(ctx, behind.ID)
	ok(err)
	_, err = s.Cancel(ctx, ordered.ID, "me")
	ok(err)
	_, err = s.Requeue(ctx, ordered.ID, "me")
	ok(err)
	create(func(n *contract.NewTask) { n.Spec.RunAt = 1 })
	create(func(n *contract.NewTask) { n.Spec.RunAt = time.Now().Add(time.Millisecond).UnixMilli() })
	held := create(plain)
	l, _, err = s.LeaseTask(ctx, contract.LeaseRequest{TaskID: held.ID, WorkerID: name})
	ok(err)
	_, err = s.Claim(ctx, contract.ClaimRequest{WorkerID: name, InstanceID: name + "-1", Max: 3, Held: []string{l.ID}, Renew: true})
	ok(err)
	_, _, err = s.RegisterWorker(ctx, bloom.WorkerSpec{Name: name + " labels", Capabilities: bloom.Capabilities{
		ClaudeCLI: true, MaxConcurrency: 4, Labels: strings.Split("abcdefg", ""),
	}}, name)
	ok(err)
	_, err = s.Claim(ctx, contract.ClaimRequest{WorkerID: name + " labels", Max: 4})
	ok(err)
	_, err = s.Release(ctx, held.ID, bloom.ReleaseSpec{LeaseID: l.ID}, name)
	ok(err)
	_, err = s.Reap(ctx, 100)
	ok(err)
	_, err = s.ExtendLeases(ctx)
	ok(err)
	_, err = s.MarkSilent(ctx, time.Hour)
	ok(err)
	_, err = s.SyncWorkers(ctx, []contract.WorkerReport{{Name: name, Status: bloom.WorkerOnline}})
	ok(err)
	ok(s.ReplaceSettings(ctx, map[string]string{"absent": ""}, map[string]string{"b": "c"}, bloom.Audit{Action: "x", EntityID: "x"}))
	ok(s.PutSettings(ctx, map[string]string{"a": "b"}, bloom.Audit{Action: "x", EntityID: "x"}))
	ok(s.AppendAudit(ctx, bloom.Audit{Action: "x", EntityID: "x"}))
	ok(s.KeepSeries(ctx))
	reads(t, s, first, name)
	for _, remove := range []func(context.Context, contract.RemoveRequest) (contract.Removed, error){s.RemoveTasks, s.RemoveEvents, s.RemoveAudit, s.RemoveContexts} {
		did, err := remove(ctx, contract.RemoveRequest{OlderThan: time.Hour, Limit: 200})
		ok(err)
		if !strings.HasPrefix(name, "before") && (did.Total() == 0 || !did.More) {
			t.Fatalf("%s: nothing was removed: %s after %d", name, did, did.Next)
		}
	}
	_, err = s.Forgotten(ctx, 0, 10)
	ok(err)
	_, err = s.RemoveForgotten(ctx, contract.RemoveRequest{OlderThan: time.Hour})
	ok(err)
	_, err = s.RemovedContent(ctx, 0, 10)
	ok(err)
	ok(s.ConfirmDeleted(ctx, []int64{1}))
	ok(s.RemoveWorker(ctx, name, "me"))
}

// reads calls everything that only reads, the lists with each filter.
func reads(t *testing.T, s contract.Store, task bloom.Task, worker string) {
	t.Helper()
	ctx := t.Context()
	ok := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(s.Series(ctx, 0, 1<<42, 3_600_000))
	ok(s.OldestWaiting(ctx))
	ok(s.Task(ctx, task.ID))
	ok(s.Events(ctx, task.ID, 0, 10))
	ok(s.Results(ctx, task.ID))
	ok(s.Stats(ctx))
	ok(s.Workers(ctx))
	ok(s.Settings(ctx))
	_, _, err := s.Worker(ctx, worker)
	ok(nil, err)
	queries := []bloom.TaskQuery{{}, {ContextID: "c1"}, {AgentSlug: "a1"}, {WorkerID: "w1"}, {ContextID: "rare"}, {AgentSlug: "rare"}, {Error: "rare"}, {ShortID: task.ID[len(task.ID)-8:]}, {Text: "prompt 2"}, {Text: "rare17 "}, {Text: "common rare17 "}}
	for _, status := range bloom.TaskStatuses {
		queries = append(queries, bloom.TaskQuery{Status: status})
	}
	for _, q := range queries {
		q.Limit = 20
		_, next, err := s.Tasks(ctx, q)
		ok(nil, err)
		q.Cursor = next
		_, _, err = s.Tasks(ctx, q)
		ok(nil, err)
	}
	for _, status := range []bloom.LeaseStatus{"", bloom.LeaseActive, bloom.LeaseReleased, bloom.LeaseExpired, bloom.LeaseFailed} {
		for _, q := range []bloom.LeaseQuery{{Status: status}, {Status: status, TaskID: task.ID}, {Status: status, TaskID: task.ID, WorkerID: worker}} {
			_, _, err := s.Leases(ctx, q)
			ok(nil, err)
		}
	}
	for _, status := range []bloom.LeaseStatus{"", bloom.LeaseActive, bloom.LeaseReleased} {
		for _, of := range []string{"w1", "rare"} {
			_, _, err := s.Leases(ctx, bloom.LeaseQuery{Status: status, WorkerID: of})
			ok(nil, err)
		}
	}
	for _, q := range []bloom.ArtifactQuery{{}, {TaskID: task.ID}, {Type: "t"}, {Type: "rare"}, {Type: "FILE"}, {TaskID: task.ID, Type: "rare"}, {ShortID: "rare"}} {
		_, _, err := s.Artifacts(ctx, q)
		ok(nil, err)
	}
	_, _, err = s.Contexts(ctx, bloom.ContextQuery{ShortID: "rare"})
	ok(nil, err)
	for _, q := range []bloom.AuditQuery{{}, {EntityID: task.ID}, {Action: audit.ActionTaskLeased}, {Action: "rare"}} {
		_, _, err := s.Audit(ctx, q)
		ok(nil, err)
	}
}
