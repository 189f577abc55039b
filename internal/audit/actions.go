package audit

import (
	"context"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom"
)

// Caller identifies who asked for a change, and from where, for the audit.
type Caller struct {
	KeyID   string     // the key's id, or the name of the setting that it comes from
	Role    bloom.Role // empty without a key
	Worker  string     // the only worker that the key may act as; empty means any
	Address string
}

type callerKey struct{}

// WithCaller returns a context that carries the caller of what is done under it.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller that ctx carries: the zero Caller in background loops.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// Audit actions other than those of tasks. The first ones exist in the earlier
// Node implementation, too.
const (
	ActionConfigUpdated     = "config_updated"
	ActionConnectionTest    = "connection_test"
	ActionWorkerRegistered  = "worker_registered"
	ActionWorkerUpdated     = "worker_updated"
	ActionWorkerRemoved     = "worker_removed"
	ActionLeadershipPromote = "leadership_promote"

	ActionArtifactAdded = "artifact_added" // a file that a run produced
	ActionLeaseLost     = "lease_lost"
	ActionWorkerOnline  = "worker_online"
	ActionWorkerOffline = "worker_offline"
	ActionWorkerDrain   = "worker_drain"
	ActionKeyCreated    = "key_created"
	ActionKeyRevoked    = "key_revoked"
	ActionSessionEnded  = "session_ended"
	ActionRefused       = "request_refused" // sampled; see auth
	ActionLogin         = "login"

	ActionScheduleSaved   = "schedule_saved"
	ActionScheduleRemoved = "schedule_removed"
	ActionScheduleStarted = "schedule_started"
	ActionScheduleSkipped = "schedule_skipped" // one or more times, see its count

	ActionSecretsRotated   = "secrets_rotated"
	ActionContextForgotten = "context_forgotten"
	ActionSyncRequested    = "sync_requested"  // a project's memory is to be pushed or pulled
	ActionAuditForked      = "audit_forked"    // the exported files have entries that the database lacks: a backup was restored
	ActionArtifactsMoved   = "artifacts_moved" // their content was taken to the object storage on request
	ActionTasksMatched     = "tasks_matched"   // all tasks that match a filter were cancelled or requeued; each task has its own entry, too
)

// Entity types of the audit.
const (
	EntityTask     = "llm_task"
	EntityArtifact = "artifact"
	EntityWorker   = "worker"
	EntityConfig   = "config"

	EntityKey      = "api_key"
	EntitySchedule = "schedule"
	EntitySession  = "session"
	EntityContext  = "context"
	EntityAudit    = "audit"
	EntityQueue    = "queue"
)

// actors are the actors of entries other than workers and created keys: the roles, as which configured
// keys act, and the parts of the system.
var actors = []string{string(bloom.RoleAdmin), string(bloom.RoleClient), string(bloom.RoleViewer), "local", "anonymous", "runtime", "membridge", ActorAuditExport, ActorRetention}

// ActorFor returns the actor of an entry that a caller with this role causes: a worker, whose name
// its key may choose, is never one of the actors that stand for others.
func ActorFor(role bloom.Role, actor string) string {
	if role == bloom.RoleWorker && slices.Contains(actors, strings.ToLower(strings.TrimSpace(actor))) {
		return "worker " + actor
	}
	return actor
}

// ActorAuditExport is the actor of entries that the audit export writes.
const ActorAuditExport = "audit-export"

// TaskState is a task's state after an audited change.
type TaskState struct {
	Status          bloom.TaskStatus `json:"status"`
	Epoch           int64            `json:"epoch"`
	Attempts        int              `json:"attempts"`
	CancelRequested bool             `json:"cancel_requested,omitempty"`
	LeaseID         *string          `json:"lease_id,omitempty"`
	WorkerID        *string          `json:"worker_id,omitempty"`
	ErrorClass      *string          `json:"error_class,omitempty"`
	RunAt           int64            `json:"run_at,omitempty"` // queued for later: Unix milliseconds
}

// What the audit calls a saved filter and what happened to it.
const (
	EntityFilter        = "filter"
	ActionFilterSaved   = "filter_saved"
	ActionFilterRemoved = "filter_removed"
)

// Names of retention in the audit.
const (
	ActorRetention      = "retention"
	EntityRetention     = "retention"
	ActionTasksRemoved  = "tasks_removed"
	ActionEventsRemoved = "events_removed"
	ActionAuditRemoved  = "audit_removed"
)

// Audit actions of tasks. The first four exist in the earlier Node implementation, too.
const (
	ActionTaskCreated   = "task_created"
	ActionTaskLeased    = "task_leased"
	ActionTaskCompleted = "task_completed" // a completion was accepted, success or error
	ActionTaskRequeued  = "task_requeued"
	ActionTaskStarted   = "task_started"
	ActionTaskRetried   = "task_retried"
	ActionTaskReleased  = "task_released"
	ActionTaskCancelled = "task_cancelled" // cancelled, or asked to stop; see data.status
	ActionTaskExpired   = "task_expired"
	ActionTaskDead      = "task_dead"
	ActionTaskImported  = "task_imported" // from the earlier implementation; its older entries have no data
)
