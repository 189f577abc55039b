package bloom

import (
	"encoding/json"
	"slices"
	"strings"
)

// Audit actions other than those of tasks (task_operations.go). The first ones exist in the earlier
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

	EntityKey     = "api_key"
	EntitySession = "session"
	EntityContext = "context"
	EntityAudit   = "audit"
	EntityQueue   = "queue"
)

// actors are the actors of entries other than workers and created keys: the roles, as which configured
// keys act, and the parts of the system.
var actors = []string{string(RoleAdmin), string(RoleClient), string(RoleViewer), "local", "anonymous", "runtime", "membridge", ActorAuditExport, ActorRetention}

// ActorFor returns the actor of an entry that a caller with this role causes: a worker, whose name
// its key may choose, is never one of the actors that stand for others.
func ActorFor(role Role, actor string) string {
	if role == RoleWorker && slices.Contains(actors, strings.ToLower(strings.TrimSpace(actor))) {
		return "worker " + actor
	}
	return actor
}

// ActorAuditExport is the actor of entries that the audit export writes.
const ActorAuditExport = "audit-export"

// Audit is one entry of the audit log. It is written in the transaction of the
// change it describes; for tasks Data holds the state after the change
// (AuditState), so that replaying the log gives the present state.
type Audit struct {
	Seq        int64           `json:"seq"`
	ID         string          `json:"id"`
	Timestamp  int64           `json:"timestamp" doc:"Unix milliseconds"`
	Action     string          `json:"action"`
	EntityType string          `json:"entity_type"`
	EntityID   string          `json:"entity_id"`
	Actor      string          `json:"actor"`
	KeyID      string          `json:"key_id" doc:"The actor's key: its id, or the setting it comes from; empty when no key asked"`
	Address    string          `json:"address" doc:"Where the request came from; empty when none did"`
	Detail     string          `json:"detail"`
	Data       json.RawMessage `json:"data"`
	Hash       string          `json:"hash" doc:"SHA-256 over the hash of the entry before and this entry's canonical JSON (hex); empty for the moment until the entry is chained"`
}

// AuditState is a task's state after an audited change.
type AuditState struct {
	Status          TaskStatus `json:"status"`
	Epoch           int64      `json:"epoch"`
	Attempts        int        `json:"attempts"`
	CancelRequested bool       `json:"cancel_requested,omitempty"`
	LeaseID         *string    `json:"lease_id,omitempty"`
	WorkerID        *string    `json:"worker_id,omitempty"`
	ErrorClass      *string    `json:"error_class,omitempty"`
	RunAt           int64      `json:"run_at,omitempty"` // queued for later: Unix milliseconds
}
