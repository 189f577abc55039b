package postgres_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// pair is two replicas that alternate: every call goes to the other one.
type pair struct {
	url    string
	stores [2]*postgres.Store
	turn   atomic.Uint64
}

var _ contract.Store = (*pair)(nil)

func openPair(t testing.TB, clock timing.Clock) *pair {
	url := migrated.Start(t)
	return &pair{stores: [2]*postgres.Store{open(t, url, clock), open(t, url, clock)}, url: url}
}

func TestTwoReplicasAreOneStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, 20, func(t *testing.T, clock timing.Clock) contract.Store { return openPair(t, clock) })
}

func (p *pair) next() *postgres.Store { return p.stores[p.turn.Add(1)%2] }

// Break makes every change of a task's row fail.
func (p *pair) Break(t testing.TB, taskID string) { breakRow(t, p.url, taskID, "check_violation") }
func (p *pair) Mend(t testing.TB, taskID string)  { mendRow(t, p.url, taskID) }

func (p *pair) Name() string                   { return p.stores[0].Name() }
func (p *pair) Ping(ctx context.Context) error { return p.next().Ping(ctx) }

// Subscribe uses one replica, which notifies of its own changes immediately and of the other's.
func (p *pair) Subscribe(fn func([]bloom.Change)) func() { return p.stores[0].Subscribe(fn) }

func (p *pair) Close() error {
	_ = p.stores[1].Close()
	return p.stores[0].Close()
}

func (p *pair) Seal(ctx context.Context) (int, error) { return p.next().Seal(ctx) }
func (p *pair) AuditHead(ctx context.Context) (bloom.ChainHead, error) {
	return p.next().AuditHead(ctx)
}
func (p *pair) AuditLinks(ctx context.Context, after int64, limit int) (bloom.ChainHead, audit.Link, []audit.Link, error) {
	return p.next().AuditLinks(ctx, after, limit)
}
func (p *pair) AuditExport(ctx context.Context) (contract.AuditExport, error) {
	return p.next().AuditExport(ctx)
}
func (p *pair) SetAuditExport(ctx context.Context, was, is contract.AuditExport) error {
	return p.next().SetAuditExport(ctx, was, is)
}
func (p *pair) AuditLag(ctx context.Context) (contract.AuditLag, error) {
	return p.next().AuditLag(ctx)
}

func (p *pair) CreateTask(ctx context.Context, n contract.NewTask) (bloom.Task, bool, error) {
	return p.next().CreateTask(ctx, n)
}
func (p *pair) Task(ctx context.Context, id string) (bloom.Task, error) {
	return p.next().Task(ctx, id)
}
func (p *pair) QueuePlace(ctx context.Context, id string) (contract.QueuePlace, error) {
	return p.next().QueuePlace(ctx, id)
}
func (p *pair) Tasks(ctx context.Context, q bloom.TaskQuery) ([]bloom.Task, bloom.Cursor, error) {
	return p.next().Tasks(ctx, q)
}
func (p *pair) Cancel(ctx context.Context, id, actor string) (bloom.Task, error) {
	return p.next().Cancel(ctx, id, actor)
}
func (p *pair) Requeue(ctx context.Context, id, actor string) (bloom.Task, error) {
	return p.next().Requeue(ctx, id, actor)
}
func (p *pair) AppendEvents(ctx context.Context, taskID, leaseID string, e []bloom.WorkerEvent) (int64, error) {
	return p.next().AppendEvents(ctx, taskID, leaseID, e)
}
func (p *pair) Lease(ctx context.Context, taskID, leaseID string) (bloom.Lease, error) {
	return p.next().Lease(ctx, taskID, leaseID)
}

func (p *pair) Events(ctx context.Context, id string, after int64, limit int) ([]bloom.Event, error) {
	return p.next().Events(ctx, id, after, limit)
}
func (p *pair) Results(ctx context.Context, id string) ([]bloom.Result, error) {
	return p.next().Results(ctx, id)
}
func (p *pair) QueuedBy(ctx context.Context, actor string, most int64) (int64, error) {
	return p.next().QueuedBy(ctx, actor, most)
}
func (p *pair) QueueDepths(ctx context.Context, sets, tasks int) ([]contract.QueueDepth, error) {
	return p.next().QueueDepths(ctx, sets, tasks)
}
func (p *pair) Stats(ctx context.Context) (bloom.Stats, error) { return p.next().Stats(ctx) }
func (p *pair) LeaseTask(ctx context.Context, r contract.LeaseRequest) (bloom.Lease, bloom.Worker, error) {
	return p.next().LeaseTask(ctx, r)
}
func (p *pair) Claim(ctx context.Context, r contract.ClaimRequest) (bloom.ClaimResult, error) {
	return p.next().Claim(ctx, r)
}
func (p *pair) Heartbeat(ctx context.Context, taskID, leaseID string, used *bloom.Usage) (bloom.HeartbeatResult, error) {
	return p.next().Heartbeat(ctx, taskID, leaseID, used)
}
func (p *pair) Complete(ctx context.Context, r contract.CompleteRequest) (bloom.Completed, error) {
	return p.next().Complete(ctx, r)
}
func (p *pair) Release(ctx context.Context, id string, r bloom.ReleaseSpec, actor string) (bloom.Task, error) {
	return p.next().Release(ctx, id, r, actor)
}
func (p *pair) Leases(ctx context.Context, q bloom.LeaseQuery) ([]bloom.Lease, bloom.Cursor, error) {
	return p.next().Leases(ctx, q)
}
func (p *pair) Time(ctx context.Context) (int64, error) { return p.next().Time(ctx) }
func (p *pair) Reap(ctx context.Context, limit int) (contract.Reaped, error) {
	return p.next().Reap(ctx, limit)
}
func (p *pair) ExtendLeases(ctx context.Context) (int, error) { return p.next().ExtendLeases(ctx) }
func (p *pair) RegisterWorker(ctx context.Context, w bloom.WorkerSpec, actor string) (bloom.Worker, bool, error) {
	return p.next().RegisterWorker(ctx, w, actor)
}
func (p *pair) Worker(ctx context.Context, id string) (bloom.Worker, []bloom.Lease, error) {
	return p.next().Worker(ctx, id)
}
func (p *pair) Workers(ctx context.Context) ([]bloom.Worker, error) { return p.next().Workers(ctx) }
func (p *pair) WorkersAfter(ctx context.Context, name string, n int) ([]bloom.Worker, error) {
	return p.next().WorkersAfter(ctx, name, n)
}
func (p *pair) RemoveWorker(ctx context.Context, id, actor string) error {
	return p.next().RemoveWorker(ctx, id, actor)
}
func (p *pair) DrainWorker(ctx context.Context, id string, drain bool, actor string) (bloom.Worker, error) {
	return p.next().DrainWorker(ctx, id, drain, actor)
}
func (p *pair) FollowDrain(ctx context.Context, id string, drain bool, actor string) (bloom.Worker, error) {
	return p.next().FollowDrain(ctx, id, drain, actor)
}
func (p *pair) ControlDrained(ctx context.Context) ([]string, error) {
	return p.next().ControlDrained(ctx)
}
func (p *pair) SyncWorkers(ctx context.Context, r []contract.WorkerReport) (int, error) {
	return p.next().SyncWorkers(ctx, r)
}
func (p *pair) Series(ctx context.Context, from, to, step int64) ([]bloom.SeriesPoint, error) {
	return p.next().Series(ctx, from, to, step)
}
func (p *pair) OldestWaiting(ctx context.Context) (int64, error) { return p.next().OldestWaiting(ctx) }
func (p *pair) KeepSeries(ctx context.Context) error             { return p.next().KeepSeries(ctx) }
func (p *pair) MarkSilent(ctx context.Context, d time.Duration) (int, error) {
	return p.next().MarkSilent(ctx, d)
}
func (p *pair) Context(ctx context.Context, id string) (bloom.Context, error) {
	return p.next().Context(ctx, id)
}
func (p *pair) Contexts(ctx context.Context, q bloom.ContextQuery) ([]bloom.Context, bloom.Cursor, error) {
	return p.next().Contexts(ctx, q)
}
func (p *pair) Transcript(ctx context.Context, id string) (*contract.Transcript, error) {
	return p.next().Transcript(ctx, id)
}
func (p *pair) TranscriptIn(ctx context.Context, folder string) (*contract.Transcript, error) {
	return p.next().TranscriptIn(ctx, folder)
}
func (p *pair) ChangeContext(ctx context.Context, id string, patch contract.ContextPatch, actor string) (bloom.Context, error) {
	return p.next().ChangeContext(ctx, id, patch, actor)
}
func (p *pair) ForgetContext(ctx context.Context, id, actor string) error {
	return p.next().ForgetContext(ctx, id, actor)
}
func (p *pair) Forgotten(ctx context.Context, after int64, limit int) ([]bloom.ForgottenContext, error) {
	return p.next().Forgotten(ctx, after, limit)
}
func (p *pair) Artifact(ctx context.Context, id string) (bloom.Artifact, error) {
	return p.next().Artifact(ctx, id)
}
func (p *pair) Artifacts(ctx context.Context, q bloom.ArtifactQuery) ([]bloom.Artifact, bloom.Cursor, error) {
	return p.next().Artifacts(ctx, q)
}
func (p *pair) Audit(ctx context.Context, q bloom.AuditQuery) ([]bloom.Audit, bloom.Cursor, error) {
	return p.next().Audit(ctx, q)
}
func (p *pair) MoveArtifact(ctx context.Context, id string, from *string, to string) error {
	return p.next().MoveArtifact(ctx, id, from, to)
}

func (p *pair) AppendAudit(ctx context.Context, a bloom.Audit) error {
	return p.next().AppendAudit(ctx, a)
}
func (p *pair) Settings(ctx context.Context) (map[string]string, error) {
	return p.next().Settings(ctx)
}
func (p *pair) ReplaceSettings(ctx context.Context, was, set map[string]string, a bloom.Audit) error {
	return p.next().ReplaceSettings(ctx, was, set, a)
}

func (p *pair) PutSettings(ctx context.Context, set map[string]string, a bloom.Audit) error {
	return p.next().PutSettings(ctx, set, a)
}

func (p *pair) SaveSchedule(ctx context.Context, is bloom.Schedule, actor string) (bloom.Schedule, error) {
	return p.next().SaveSchedule(ctx, is, actor)
}
func (p *pair) RemoveSchedule(ctx context.Context, name, actor string) error {
	return p.next().RemoveSchedule(ctx, name, actor)
}
func (p *pair) Schedules(ctx context.Context) ([]bloom.Schedule, error) {
	return p.next().Schedules(ctx)
}
func (p *pair) Schedule(ctx context.Context, name string) (bloom.Schedule, error) {
	return p.next().Schedule(ctx, name)
}
func (p *pair) DueSchedules(ctx context.Context, now int64) ([]bloom.Schedule, int64, error) {
	return p.next().DueSchedules(ctx, now)
}
func (p *pair) StartScheduled(ctx context.Context, r contract.ScheduledStart) (*bloom.Task, error) {
	return p.next().StartScheduled(ctx, r)
}

func (p *pair) AskApproval(ctx context.Context, lease string, a bloom.Approval) (bloom.Approval, error) {
	return p.next().AskApproval(ctx, lease, a)
}
func (p *pair) Suspend(ctx context.Context, r contract.SuspendRequest) (bloom.Task, error) {
	return p.next().Suspend(ctx, r)
}
func (p *pair) Decide(ctx context.Context, id string, d bloom.Decision, actor string) (bloom.Approval, error) {
	return p.next().Decide(ctx, id, d, actor)
}
func (p *pair) ExpireApprovals(ctx context.Context, limit int) (int, error) {
	return p.next().ExpireApprovals(ctx, limit)
}
func (p *pair) Approval(ctx context.Context, id string) (bloom.Approval, error) {
	return p.next().Approval(ctx, id)
}
func (p *pair) Approvals(ctx context.Context, q bloom.ApprovalQuery) ([]bloom.Approval, bloom.Cursor, error) {
	return p.next().Approvals(ctx, q)
}
