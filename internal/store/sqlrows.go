package store

import (
	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
)

// TaskColumns are a task's columns without its texts, which may be long.
func (d *Dialect) TaskColumns() string {
	return `t.seq, t.id, t.status, coalesce(t.gate, ''), t.updated_at, t.lease_id, t.worker_id, t.attempts, t.max_attempts,
	t.run_at, t.error_class, t.cancel_requested, t.epoch, t.ordered, t.context_id, t.preferred_worker,
	t.preferred_until, ` + d.LastEvent + `, t.priority, t.agent_slug, t.created_at, t.desired_format, t.timeout_sec, t.budget,
	t.labels, t.idempotency_key, t.workspace, t.artifact_globs, t.request_id`
}

// TaskFields returns the destinations of TaskColumns.
func TaskFields(t *Task) []any {
	return []any{
		&t.Seq, &t.ID, &t.Status, &t.Gate, &t.UpdatedAt, &t.LeaseID, &t.WorkerID, &t.Attempts, &t.MaxAttempts,
		&t.RunAt, &t.ErrorClass, &t.CancelRequested, &t.Epoch, &t.Policy.Ordered, &t.ContextID, &t.Preferred,
		&t.Until, &t.LastEvent, &t.Priority, &t.AgentSlug, &t.CreatedAt, &t.DesiredFormat, &t.Policy.TimeoutSec, &t.Policy.Budget,
		(*List)(&t.Labels), &t.IdempotencyKey, &t.Policy.Workspace, (*globs)(&t.Policy.Artifacts), &t.RequestID,
	}
}

// WholeColumns are TaskColumns and the texts.
func (d *Dialect) WholeColumns() string { return d.TaskColumns() + `, t.context_hints, t.prompt` }

// WholeFields returns the destinations of WholeColumns.
func WholeFields(t *Task) []any {
	return append(TaskFields(t), (*List)(&t.ContextHints), &t.Prompt)
}

// usageColumns are what a lease's attempt has used, summedUsage of many.
const usageColumns = `l.tokens, l.tokens_in, l.tokens_out, l.cost`

var summedUsage = each([]string{"tokens", "tokens_in", "tokens_out", "cost"}, "coalesce(CAST(sum(%s) AS BIGINT), 0)")

func usageFields(u *bloom.Usage) []any {
	return []any{&u.TokensUsed, &u.InputTokens, &u.OutputTokens, (*nanos)(&u.CostUSD)}
}

const leaseColumns = `l.id, l.task_id, l.worker_id, l.epoch, l.status, l.started_at, l.expires_at, l.ttl_seconds, l.last_heartbeat, l.context_id, ` + usageColumns

func leaseFields(l *bloom.Lease) []any {
	return append([]any{
		&l.ID, &l.TaskID, &l.WorkerID, &l.Epoch, &l.Status, &l.StartedAt, &l.ExpiresAt, &l.TTLSeconds, &l.LastHeartbeat, &l.ContextID,
	}, usageFields(&l.Usage)...)
}

const workerColumns = `w.id, w.node_id, w.url, w.status, w.claude_cli, w.max_concurrency, w.labels, w.last_heartbeat, w.ip_addrs,
	w.obs_count, w.db_sha, w.registered_at, w.agent_version, w.os_info, w.install_method, w.draining OR w.control_draining,
	w.instance_id, w.instance_seen, w.removed, w.draining, w.control_draining, w.posted_at, w.agents, w.pause`

// heldColumn follows workerColumns: the number of the worker's active leases.
const heldColumn = `, (SELECT count(*) FROM leases l WHERE l.worker_id = w.id AND l.status = 'active')`

// candidateColumns are what the choice of a worker needs, because there may be thousands.
const candidateColumns = `w.id, w.status, w.claude_cli, w.max_concurrency, w.labels, w.last_heartbeat, w.draining OR w.control_draining,
	w.pause`

func candidateFields(w *bloom.Worker) []any {
	return []any{&w.ID, &w.Status, &w.Capabilities.ClaudeCLI, &w.Capabilities.MaxConcurrency, (*List)(&w.Capabilities.Labels), &w.LastHeartbeat, &w.Draining,
		&object{&w.Pause}, &w.ActiveLeases}
}

func workerFields(w *lifecycle.KnownWorker) []any {
	return []any{
		&w.ID, &w.NodeID, &w.URL, &w.Status, &w.Capabilities.ClaudeCLI, &w.Capabilities.MaxConcurrency, (*List)(&w.Capabilities.Labels),
		&w.LastHeartbeat, (*List)(&w.IPAddrs), &w.ObsCount, &w.DBSHA, &w.RegisteredAt, &w.AgentVersion, &w.OSInfo, &w.InstallMethod, &w.Draining,
		&w.InstanceID, &w.InstanceSeen, &w.Removed, &w.RuntimeDrain, &w.ControlDrain, &w.PostedAt, (*List)(&w.Agents), &object{&w.Pause}, &w.ActiveLeases,
	}
}

const artifactColumns = `a.id, a.task_id, a.job_id, a.type, a.created_at, a.finalized, a.url, a.entity_refs, a.tags, a.size, a.sha256, a.media_type,
	coalesce(a.path, ''), coalesce(a.epoch, 0), a.content`

func artifactFields(a *bloom.Artifact) []any {
	return []any{
		&a.ID, &a.TaskID, &a.JobID, &a.Type, &a.CreatedAt, &a.Finalized, &a.URL, (*List)(&a.EntityRefs), (*List)(&a.Tags),
		&a.Size, &a.SHA256, &a.MediaType, &a.Path, &a.Epoch, &a.Content,
	}
}

const resultColumns = `r.id, r.task_id, r.worker_id, r.artifact_id, r.status, r.error_message, r.metrics, r.completed_at, r.error_class, r.epoch, a.content`

func resultFields(r *bloom.Result) []any {
	return []any{
		&r.ID, &r.TaskID, &r.WorkerID, &r.ArtifactID, &r.Status, &r.ErrorMessage, &object{&r.Metrics}, &r.CompletedAt, &r.ErrorClass, &r.Epoch, &r.Output,
	}
}

const agedColumns = `t.seq, t.created_at, t.id, t.context_id, t.status, t.updated_at`

func agedFields(e *Aged) []any {
	return []any{&e.Seq, &e.CreatedAt, &e.ID, &e.ContextID, &e.State.Status, &e.State.UpdatedAt}
}

const contextColumns = `x.id, x.tasks, x.unfinished, x.tokens, x.cost_nano, x.worker_id, x.created_at, x.last_used_at, x.updated_at,
	(SELECT NULLIF(s.session_id, '') FROM transcripts s WHERE s.context_id = x.id), coalesce((SELECT s.size FROM transcripts s WHERE s.context_id = x.id), 0),
	coalesce((SELECT s.workspace_size FROM transcripts s WHERE s.context_id = x.id), 0)`

func contextFields(x *bloom.Context) []any {
	return []any{&x.ID, &x.Tasks, &x.Unfinished, &x.Tokens, (*nanos)(&x.CostUSD), &x.WorkerID, &x.CreatedAt, &x.LastUsedAt, &x.UpdatedAt, &x.SessionID, &x.Size, &x.Workspace}
}

const transcriptColumns = `x.context_id, x.session_id, x.size, x.sha256, x.parts, x.workspace, x.updated_at`

func transcriptFields(t *bloom.ContextTranscript) []any {
	return []any{&t.ContextID, &t.SessionID, &t.Size, &t.SHA256, &object{&t.Parts}, (*snapshot)(&t.Transcript), &t.UpdatedAt}
}

const keyColumns = `x.id, x.name, x.role, x.worker_id, x.digest, x.created_at, x.created_by, x.expires_at, x.last_used_at, x.revoked_at`

func keyFields(k *bloom.StoredKey) []any {
	return []any{&k.ID, &k.Name, &k.Role, &k.WorkerID, &k.Digest, &k.CreatedAt, &k.CreatedBy, &k.ExpiresAt, &k.LastUsedAt, &k.RevokedAt}
}

const sessionColumns = `x.id, x.name, x.role, x.key_id, x.created_at, x.last_used_at, x.expires_at, x.address, x.user_agent, x.turn, x.turned_at`

func sessionFields(s *bloom.StoredSession) []any {
	return []any{&s.ID, &s.Name, &s.Role, &s.KeyID, &s.CreatedAt, &s.LastUsedAt, &s.ExpiresAt, &s.Address, &s.Agent, &s.Turn, &s.TurnedAt}
}

// AuditColumns are the columns of an audit entry, a.
const AuditColumns = `a.seq, a.id, a.timestamp, a.action, a.entity_type, a.entity_id, a.actor, a.detail, a.data, a.key_id, a.address`

// AuditFields returns the destinations of AuditColumns.
func AuditFields(a *bloom.Audit) []any {
	return []any{&a.Seq, &a.ID, &a.Timestamp, &a.Action, &a.EntityType, &a.EntityID, &a.Actor, &a.Detail, (*verbatim)(&a.Data), &a.KeyID, &a.Address}
}
