package store

import (
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
)

// Table describes how to insert rows of one kind.
type Table[T any] struct {
	Name    string
	Columns []string                      // each with its name and type; only PostgreSQL uses the type
	Values  func(args []any, row T) []any // appends the row's values in the order of the columns
	replace bool                          // replace a row with the same first column
}

func table[T any](name, columns string, values func([]any, T) []any) *Table[T] {
	return &Table[T]{Name: name, Columns: strings.Split(columns, ", "), Values: values}
}

func replacing[T any](t *Table[T]) *Table[T] {
	t.replace = true
	return t
}

// Statement returns the insert of rows, given as lists of values or as a query.
func (t *Table[T]) Statement(rows string) string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i], _, _ = strings.Cut(c, " ")
	}
	statement := `INSERT INTO ` + t.Name + ` (` + strings.Join(names, ", ") + `) ` + rows
	if t.replace {
		statement += ` ON CONFLICT (` + names[0] + `) DO UPDATE SET ` + each(names[1:], "%[1]s = excluded.%[1]s")
	}
	return statement
}

// Gate returns the column's value, NULL for a task that is not queued.
func Gate(g bloom.Gate) any {
	if g == "" {
		return nil
	}
	return string(g)
}

// The tables that a transaction inserts into.
var (
	Tasks = table("llm_tasks", "seq bigint, id uuid, status text, gate text, updated_at bigint, lease_id uuid, worker_id text, attempts int, "+
		"max_attempts int, run_at bigint, error_class text, cancel_requested bool, epoch bigint, ordered bool, priority int, label_key text, preferred_worker text, "+
		"preferred_until bigint, last_event bigint, context_id text, agent_slug text, created_at bigint, desired_format text, timeout_sec int, budget bigint, "+
		"labels jsonb, idempotency_scope text, idempotency_key text, body_hash text, context_hints jsonb, prompt text, created_by text, workspace text, artifact_globs jsonb, "+
		"request_id text",
		func(v []any, k *Task) []any {
			return append(v, k.Seq, k.ID, string(k.Status), Gate(k.Gate), k.UpdatedAt, k.LeaseID, k.WorkerID, k.Attempts,
				k.MaxAttempts, k.RunAt, k.ErrorClass, k.CancelRequested, k.Epoch, k.Policy.Ordered, k.Priority, schema.LabelKey(k.Labels), k.Preferred,
				k.Until, k.LastEvent, k.ContextID, k.AgentSlug, k.CreatedAt, string(k.DesiredFormat), k.Policy.TimeoutSec, k.Policy.Budget,
				schema.ListJSON(k.Labels), k.Scope, k.IdempotencyKey, k.BodyHash, schema.ListJSON(k.ContextHints), k.Prompt, k.Actor,
				string(k.Policy.Workspace), schema.ListJSON(k.Policy.Artifacts), k.RequestID)
		})
	Leases = table("leases", "id uuid, task_id uuid, worker_id text, epoch bigint, status text, started_at bigint, expires_at bigint, ttl_seconds int, "+
		"last_heartbeat bigint, context_id text",
		func(v []any, l *Lease) []any {
			return append(v, l.ID, l.TaskID, l.WorkerID, l.Epoch, string(l.Status), l.StartedAt, l.ExpiresAt, l.TTLSeconds, l.LastHeartbeat, l.ContextID)
		})
	Artifacts = table("runtime_artifacts", "id uuid, task_id uuid, type text, created_at bigint, finalized bool, url text, tags jsonb, size bigint, sha256 text, "+
		"media_type text, content text, displaced bool, epoch bigint, path text",
		func(v []any, a NewArtifact) []any {
			var path *string
			if a.Path != "" {
				path = &a.Path
			}
			return append(v, a.ID, a.TaskID, a.Type, a.CreatedAt, a.Finalized, a.URL, schema.ListJSON(a.Tags), a.Size, a.SHA256, a.MediaType, a.Content,
				a.Displaced, a.Epoch, path)
		})
	Results = table("llm_results", "id uuid, task_id uuid, epoch bigint, worker_id text, artifact_id uuid, status text, error_class text, metrics jsonb, "+
		"completed_at bigint, body_hash text, error_message text",
		func(v []any, o *Outcome) []any {
			r := o.Result
			return append(v, r.ID, r.TaskID, r.Epoch, r.WorkerID, r.ArtifactID, string(r.Status), r.ErrorClass, string(bloom.MustJSON(r.Metrics)),
				r.CompletedAt, o.BodyHash, r.ErrorMessage)
		})
	Events = table("task_events", "task bigint, seq bigint, at bigint, epoch bigint, worker_seq bigint, type text, data text",
		func(v []any, e Event) []any {
			return append(v, e.Task, e.Seq, e.At, e.Epoch, e.WorkerSeq, e.Type, string(e.Data))
		})
	Audits = table("audit_logs", "id uuid, timestamp bigint, action text, entity_type text, entity_id text, actor text, detail text, data json, key_id text, address text",
		func(v []any, a bloom.Audit) []any {
			return append(v, a.ID, a.Timestamp, a.Action, a.EntityType, a.EntityID, a.Actor, a.Detail, string(a.Data), a.KeyID, a.Address)
		})
	ChainLinks = table("audit_chain", "seq bigint, hash bytea", func(v []any, l Link) []any { return append(v, l.Seq, Unhex(l.Hash)) })

	// EndedStreams records streams that have ended, KeptStreams how far they are in
	// transcripts.
	EndedStreams = replacing(table("run_transcripts", "task bigint, due bool", func(v []any, k *Kept) []any { return append(v, k.Task, k.Due) }))
	KeptStreams  = replacing(table("run_transcripts", "task bigint, due bool, upto bigint",
		func(v []any, k *Kept) []any { return append(v, k.Task, k.Due, *k.UpTo) }))
	Workers = replacing(table("workers", "id text, node_id text, url text, status text, claude_cli bool, max_concurrency int, labels jsonb, last_heartbeat bigint, "+
		"ip_addrs jsonb, obs_count bigint, db_sha text, registered_at bigint, agent_version text, os_info text, install_method text, draining bool, instance_id text, "+
		"instance_seen bigint, removed bool, control_draining bool, posted_at bigint, agents jsonb, pause jsonb",
		func(v []any, w *lifecycle.KnownWorker) []any {
			return append(v, w.ID, w.NodeID, w.URL, string(w.Status), w.Capabilities.ClaudeCLI, w.Capabilities.MaxConcurrency, schema.ListJSON(w.Capabilities.Labels),
				w.LastHeartbeat, schema.ListJSON(w.IPAddrs), int64(w.ObsCount), w.DBSHA, w.RegisteredAt, w.AgentVersion, w.OSInfo, w.InstallMethod, w.RuntimeDrain,
				w.InstanceID, w.InstanceSeen, w.Removed, w.ControlDrain, w.PostedAt, schema.ListJSON(w.Agents), string(bloom.MustJSON(w.Pause)))
		}))
	Keys = replacing(table("api_keys", "id text, name text, role text, worker_id text, digest text, created_at bigint, created_by text, expires_at bigint, "+
		"last_used_at bigint, revoked_at bigint",
		func(v []any, k *bloom.StoredKey) []any {
			return append(v, k.ID, k.Name, string(k.Role), k.WorkerID, k.Digest, k.CreatedAt, k.CreatedBy, k.ExpiresAt, k.LastUsedAt, k.RevokedAt)
		}))
	Sessions = replacing(table("sessions", "id text, name text, role text, key_id text, created_at bigint, last_used_at bigint, expires_at bigint, address text, "+
		"user_agent text, turn bigint, turned_at bigint",
		func(v []any, s *bloom.StoredSession) []any {
			return append(v, s.ID, s.Name, string(s.Role), s.KeyID, s.CreatedAt, s.LastUsedAt, s.ExpiresAt, s.Address, s.Agent, s.Turn, s.TurnedAt)
		}))
)
