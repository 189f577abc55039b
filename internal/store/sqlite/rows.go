package sqlite

import (
	"encoding/json"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/store"
)

// taskColumns stay clear of the prompt and of everything else that may be long.
const taskColumns = `t.seq, t.id, t.status, t.updated_at, t.lease_id, t.worker_id, t.attempts, t.max_attempts,
	t.run_at, t.error_class, t.cancel_requested, t.epoch, t.ordered, t.context_id, t.gate, t.preferred_worker, t.preferred_until,
	COALESCE((SELECT MAX(e.seq) FROM task_events e WHERE e.task = t.seq), t.last_event), t.priority, t.agent_slug, t.created_at, t.desired_format,
	t.timeout_sec, t.budget, t.labels, t.idempotency_key, t.workspace, t.artifact_globs, t.request_id`

const taskWidth = 29

const wholeColumns = taskColumns + `, t.context_hints, t.prompt`

func scanTask(r row) store.Task {
	return store.Task{
		Seq: r.int(0), Gate: bloom.Gate(r.str(14)), Preferred: r.strp(15), Until: r.int(16), LastEvent: r.int(17),
		Task: bloom.Task{
			ID: r.str(1), ContextID: r.str(13), AgentSlug: r.str(19),
			Policy:        bloom.Policy{TimeoutSec: int(r.int(22)), Budget: r.int(23), Ordered: r.bool(12), Workspace: bloom.Workspace(r.str(26)), Artifacts: store.Globs(r.str(27))},
			DesiredFormat: bloom.Format(r.str(21)), CreatedAt: r.int(20), Priority: int(r.int(18)), Labels: r.list(24), IdempotencyKey: r.strp(25), RequestID: r.strp(28),
			TaskState: bloom.TaskState{
				Status: bloom.TaskStatus(r.str(2)), UpdatedAt: r.int(3), LeaseID: r.strp(4), WorkerID: r.strp(5), Attempts: int(r.int(6)),
				MaxAttempts: int(r.int(7)), RunAt: r.int(8), ErrorClass: r.strp(9), CancelRequested: r.bool(10), Epoch: r.int(11),
			},
		},
	}
}

func scanWhole(r row) store.Task {
	t := scanTask(r)
	t.ContextHints, t.Prompt = r.list(taskWidth), r.str(taskWidth+1)
	return t
}

// found reads one row, or answers with missing.
func found[T any](c *conn, scan func(row) T, missing error, query string, args ...any) (v T, err error) {
	r, ok, err := c.one(query, args...)
	switch {
	case err != nil:
		return v, err
	case !ok:
		return v, missing
	}
	return scan(r), nil
}

func collect[T any](c *conn, scan func(row) T, query string, args ...any) ([]T, error) {
	all := []T{}
	err := c.each(query, func(r row) error {
		all = append(all, scan(r))
		return nil
	}, args...)
	return all, err
}

const leaseColumns = `l.id, l.task_id, l.worker_id, l.epoch, l.status, l.started_at, l.expires_at, l.ttl_seconds, l.last_heartbeat, l.context_id`

func scanLease(r row) bloom.Lease {
	return bloom.Lease{
		ID: r.str(0), TaskID: r.str(1), WorkerID: r.str(2), Epoch: r.int(3), Status: bloom.LeaseStatus(r.str(4)),
		StartedAt: r.int(5), ExpiresAt: r.int(6), TTLSeconds: int(r.int(7)), LastHeartbeat: r.int(8), ContextID: r.strp(9),
	}
}

const workerColumns = `w.id, w.node_id, w.url, w.status, w.claude_cli, w.max_concurrency, w.labels, w.last_heartbeat, w.ip_addrs,
	w.obs_count, w.db_sha, w.registered_at, w.agent_version, w.os_info, w.install_method, w.draining OR w.control_draining,
	w.instance_id, w.instance_seen, w.removed, w.draining, w.control_draining, w.posted_at, w.agents`

const workerWidth = 24 // with what it holds counted

const countHeld = `(SELECT COUNT(*) FROM leases l WHERE l.worker_id = w.id AND l.status = 'active')`

func scanWorker(r row) lifecycle.KnownWorker {
	return lifecycle.KnownWorker{
		Worker: bloom.Worker{
			ID: r.str(0), NodeID: r.str(1), URL: r.str(2), Status: bloom.WorkerStatus(r.str(3)),
			Capabilities:  bloom.Capabilities{ClaudeCLI: r.bool(4), MaxConcurrency: int(r.int(5)), Labels: r.list(6)},
			LastHeartbeat: r.intp(7), IPAddrs: r.list(8), ObsCount: bloom.ObsCount(r.int(9)), DBSHA: r.str(10), RegisteredAt: r.int(11),
			AgentVersion: r.str(12), OSInfo: r.str(13), InstallMethod: r.str(14), Draining: r.bool(15), RuntimeDrain: r.bool(19), ControlDrain: r.bool(20), Agents: r.list(22), ActiveLeases: int(r.int(23)),
		},
		InstanceID: r.str(16), InstanceSeen: r.int(17), Removed: r.bool(18),
		PostedAt: r.int(21),
	}
}

const artifactColumns = `a.id, a.task_id, a.job_id, a.type, a.created_at, a.finalized, a.url, a.entity_refs, a.tags, a.size, a.sha256, a.media_type, a.content, a.path, a.epoch`

func scanArtifact(r row) bloom.Artifact {
	return bloom.Artifact{
		ID: r.str(0), TaskID: r.str(1), JobID: r.strp(2), Type: r.str(3), CreatedAt: r.int(4), Finalized: r.bool(5), URL: r.strp(6),
		EntityRefs: r.list(7), Tags: r.list(8), Size: r.int(9), SHA256: r.str(10), MediaType: r.str(11), Content: r.strp(12), Path: r.str(13), Epoch: r.int(14),
	}
}

const resultColumns = `r.id, r.task_id, r.worker_id, r.artifact_id, r.status, r.error_message, r.metrics, r.completed_at, r.error_class, r.epoch, a.content`

const resultWidth = 11

func scanResult(r row) bloom.Result {
	res := bloom.Result{
		ID: r.str(0), TaskID: r.str(1), WorkerID: r.str(2), ArtifactID: r.str(3), Status: bloom.Outcome(r.str(4)),
		ErrorMessage: r.strp(5), CompletedAt: r.int(7), ErrorClass: r.strp(8), Epoch: r.int(9), Output: r.strp(10),
	}
	_ = json.Unmarshal([]byte(r.str(6)), &res.Metrics)
	return res
}

const agedColumns = `t.seq, t.id, t.context_id, t.status, t.updated_at, t.created_at`

func scanAged(r row) store.Aged {
	return store.Aged{
		Seq: r.int(0), ID: r.str(1), ContextID: r.str(2),
		State: bloom.TaskState{Status: bloom.TaskStatus(r.str(3)), UpdatedAt: r.int(4)}, CreatedAt: r.int(5),
	}
}
