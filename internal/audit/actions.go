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
// Node implementation, too. The comments are in docs/reference/audit.md.
const (
	ActionConfigUpdated     = "config_updated"     // the settings of membridge were changed
	ActionConnectionTest    = "connection_test"    // the connection to membridge was tested
	ActionWorkerRegistered  = "worker_registered"  // a worker registered for the first time
	ActionWorkerUpdated     = "worker_updated"     // a known worker registered with other properties
	ActionWorkerRemoved     = "worker_removed"     // a worker was removed
	ActionLeadershipPromote = "leadership_promote" // a primary node was selected for a project

	ActionArtifactAdded = "artifact_added"  // a file that a run produced was stored
	ActionLeaseLost     = "lease_lost"      // a completion came after its lease had ended, and was refused
	ActionWorkerOnline  = "worker_online"   // an offline worker reported again
	ActionWorkerOffline = "worker_offline"  // a worker stopped reporting
	ActionWorkerDrain   = "worker_drain"    // a worker was drained or undrained
	ActionKeyCreated    = "key_created"     // a key was created
	ActionKeyRevoked    = "key_revoked"     // a key was revoked
	ActionSessionEnded  = "session_ended"   // a browser session was ended
	ActionRefused       = "request_refused" // a request was refused; sampled
	ActionLogin         = "login"           // someone signed in to the web application

	ActionScheduleSaved   = "schedule_saved"   // a schedule was created or changed
	ActionScheduleRemoved = "schedule_removed" // a schedule was removed
	ActionScheduleStarted = "schedule_started" // a schedule started a task
	ActionScheduleSkipped = "schedule_skipped" // a schedule skipped one or more times; data.count says how many

	ActionApprovalAsked   = "approval_asked"   // a run asked a person before a call
	ActionApprovalDecided = "approval_decided" // a person decided about a call, or the request expired or was cancelled; data has the input
	ActionTaskSuspended   = "task_suspended"   // a run that waits for a decision gave up its lease

	ActionSecretsRotated   = "secrets_rotated"   // the secret key was rotated
	ActionContextChanged   = "context_changed"   // a context was named, pinned or unpinned
	ActionContextForgotten = "context_forgotten" // a context was deleted
	ActionSyncRequested    = "sync_requested"    // an agent was asked to push or pull a project's memory
	ActionAuditForked      = "audit_forked"      // the exported files have entries that the database lacks, because a backup was restored
	ActionArtifactsMoved   = "artifacts_moved"   // content was moved to object storage on request
	ActionTasksMatched     = "tasks_matched"     // all tasks that match a filter were cancelled or requeued; each task has its own entry as well
)

// Entity types of the audit.
const (
	EntityTask     = "llm_task"
	EntityArtifact = "artifact"
	EntityWorker   = "worker"
	EntityConfig   = "config"

	EntityKey      = "api_key"
	EntityApproval = "approval"
	EntitySchedule = "schedule"
	EntitySession  = "session"
	EntityContext  = "context"
	EntityAudit    = "audit"
	EntityQueue    = "queue"
)

// actors are the actors of entries other than workers and created keys: the roles, as which configured
// keys act, and the parts of the system.
var actors = []string{string(bloom.RoleAdmin), string(bloom.RoleClient), string(bloom.RoleApprover), string(bloom.RoleViewer), "local", "anonymous", "runtime", "membridge", ActorAuditExport, ActorRetention}

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
	ActionFilterSaved   = "filter_saved"   // a saved filter was created or changed
	ActionFilterRemoved = "filter_removed" // a saved filter was removed
)

// Names of retention in the audit.
const (
	ActorRetention      = "retention"
	EntityRetention     = "retention"
	ActionTasksRemoved  = "tasks_removed"  // retention removed old tasks
	ActionEventsRemoved = "events_removed" // retention removed old events
	ActionAuditRemoved  = "audit_removed"  // retention removed old audit entries
)

// Audit actions of tasks. The first four exist in the earlier Node implementation, too.
const (
	ActionTaskCreated   = "task_created"   // a task was created
	ActionTaskLeased    = "task_leased"    // a worker took a task
	ActionTaskCompleted = "task_completed" // a completion was accepted, with a result or an error
	ActionTaskRequeued  = "task_requeued"  // a task was requeued by hand
	ActionTaskStarted   = "task_started"   // a worker began a task
	ActionTaskRetried   = "task_retried"   // an attempt failed, and another one follows
	ActionTaskReleased  = "task_released"  // a worker returned a task
	ActionTaskCancelled = "task_cancelled" // a task was cancelled, or its worker asked to stop; data.status says which
	ActionTaskExpired   = "task_expired"   // a lease expired, and another attempt follows
	ActionTaskDead      = "task_dead"      // the lease of the last attempt expired
	ActionTaskImported  = "task_imported"  // a task was imported from the earlier Node implementation; its older entries have no data
)
