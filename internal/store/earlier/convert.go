package earlier

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// textMedia is the media type of every output.
const textMedia = "text/plain; charset=utf-8"

// importedHash stands for the hash of a completion's body, which is not known.
const importedHash = "imported"

// converter converts earlier rows to ours. Where our schema requires what is missing (a
// completed task has a lease, a result and an artifact), it derives that from the other rows.
type converter struct {
	source                            map[string][]row
	tasks, leases, artifacts, results *table
	workers, audit, settings          *table
	leasesOf, artifactsOf, resultsOf  map[string][]row
	written                           map[string]bool // ids of artifacts in the tables
	imported                          [][]any         // an audit entry for each task
	elsewhere                         int             // artifacts whose content is only in the earlier object storage
}

func convert(source map[string][]row) converted {
	c := &converter{
		source: source, written: map[string]bool{},
		tasks: newTable("llm_tasks", `id status gate updated_at lease_id worker_id attempts max_attempts run_at epoch
			context_id agent_slug created_at desired_format timeout_sec budget context_hints prompt`),
		leases:    newTable("leases", `id task_id worker_id epoch status started_at expires_at ttl_seconds last_heartbeat context_id`),
		workers:   newTable("workers", `id node_id url status claude_cli max_concurrency labels last_heartbeat ip_addrs obs_count db_sha registered_at`),
		artifacts: newTable("runtime_artifacts", `id task_id job_id type created_at finalized entity_refs tags size sha256 media_type content`),
		results:   newTable("llm_results", `id task_id epoch worker_id artifact_id status metrics completed_at body_hash error_message`),
		audit:     newTable("audit_logs", `id timestamp action entity_type entity_id actor detail data`),
		settings:  newTable("runtime_settings", `key value updated_at`),
	}
	c.leasesOf, c.artifactsOf, c.resultsOf = c.byTask("leases", "started_at"), c.byTask("runtime_artifacts", "created_at"), c.byTask("llm_results", "completed_at")
	for _, t := range sorted(source["llm_tasks"], "created_at") {
		c.task(t)
	}
	for _, w := range source["workers"] {
		c.worker(w)
	}
	for _, a := range sorted(source["audit_logs"], "timestamp") {
		c.audit.add(uuidOf(a.text("id")), a.int("timestamp"), a.text("action"), a.text("entity_type"), entity(a), cmp.Or(a.text("actor"), "unknown"), a.text("detail"), "null")
	}
	c.audit.rows = append(c.audit.rows, c.imported...)
	for _, s := range source["runtime_settings"] {
		c.setting(s)
	}
	users := newTable("users", "")
	users.note = "not moved: access is by keys"
	out := []*table{c.tasks, c.leases, c.workers, c.artifacts, c.results, c.audit, c.settings, users}
	for _, t := range out {
		t.read = int64(len(source[t.name]))
	}
	if c.elsewhere > 0 {
		c.artifacts.note = fmt.Sprintf("%d without output: their content is only in the earlier object storage, their entity_refs name it", c.elsewhere)
	}
	c.settings.note = "membridge's address only: set MEMBRIDGE_ADMIN_KEY yourself"
	return converted{out}
}

// task adds a task with its leases, artifacts and results. A task in progress is queued again, or
// dead if that was its last attempt: its worker no longer exists.
func (c *converter) task(t row) {
	id, key := uuidOf(t.text("id")), t.text("id")
	leases, results := c.leasesOf[key], c.resultsOf[key]
	status := bloom.TaskStatus(t.text("status"))
	maxAttempts := clamp(t.intOr("max_attempts", bloom.DefaultMaxAttempts), 1, bloom.MaxMaxAttempts)
	attempts := clamp(t.int("attempts"), 0, maxAttempts)
	final := status == bloom.TaskCompleted || status == bloom.TaskFailed || status == bloom.TaskDead || status == bloom.TaskCancelled
	if !final {
		status = bloom.TaskQueued
		if attempts == maxAttempts {
			status = bloom.TaskDead
		}
	}
	epoch := max(attempts, int64(len(leases)), int64(len(results)))
	if status == bloom.TaskCompleted || status == bloom.TaskFailed || status == bloom.TaskDead {
		epoch = max(epoch, 1)
	}
	worker := cmp.Or(t.text("worker_id"), last(leases).text("worker_id"), last(results).text("worker_id"), "unknown")
	c.taskRow(t, id, status, attempts, maxAttempts, epoch, worker)
	c.leaseRows(t, id, epoch, worker, leases)
	c.records(t, id, status, epoch, worker, results)
}

func (c *converter) taskRow(t row, id string, status bloom.TaskStatus, attempts, maxAttempts, epoch int64, worker string) {
	policy := t.object("policy")
	var lease, gate, holder any
	switch {
	case status == bloom.TaskQueued:
		gate = "open"
	case epoch > 0:
		lease, holder = leaseID(id, epoch, c.leasesOf[t.text("id")]), worker
	}
	created := t.int("created_at")
	state := audit.TaskState{Status: status, Epoch: epoch, Attempts: int(attempts)}
	if id, ok := lease.(string); ok {
		state.LeaseID, state.WorkerID = &id, &worker
	}
	c.imported = append(c.imported, []any{uuidOf("imported " + id), time.Now().UnixMilli(), audit.ActionTaskImported, audit.EntityTask, id,
		"local", "Imported from the earlier implementation", string(storable.MustJSON(state))})
	c.tasks.add(id, string(status), gate, max(t.int("updated_at"), created), lease, holder, attempts, maxAttempts, created, epoch,
		cmp.Or(t.text("context_id"), "unknown"), cmp.Or(t.text("agent_slug"), "unknown"), created, format(t.text("desired_format")),
		clamp(policy.intOr("timeout_sec", 120), 1, bloom.MaxTimeoutSec), max(0, policy.int("budget")), t.list("context_hints"), t.text("prompt"))
}

// leaseID returns the id of a task's last lease. A task without leases gets one that is derived from
// its epoch.
func leaseID(task string, epoch int64, leases []row) string {
	if i := int64(len(leases)) - 1; i >= 0 {
		return uuidOf(leases[i].text("id"))
	}
	return uuidOf(fmt.Sprintf("lease %s %d", task, epoch))
}

func (c *converter) leaseRows(t row, task string, epoch int64, worker string, leases []row) {
	first := epoch - int64(len(leases)) + 1
	for i, l := range leases {
		status := l.text("status")
		if status == "active" || status == "" {
			status = "expired"
			if t.text("status") == "completed" || t.text("status") == "failed" {
				status = "released"
			}
		}
		started := l.int("started_at")
		c.leases.add(uuidOf(l.text("id")), task, cmp.Or(l.text("worker_id"), worker), first+int64(i), status, started,
			max(l.int("expires_at"), started), clamp(l.intOr("ttl_seconds", 300), 1, bloom.MaxLeaseTTLSec), max(l.int("last_heartbeat"), started), t.text("context_id"))
	}
	if len(leases) == 0 && epoch > 0 {
		at := max(t.int("updated_at"), t.int("created_at"))
		c.leases.add(leaseID(task, epoch, nil), task, worker, epoch, "released", at, at, 300, at, t.text("context_id"))
	}
}

// records adds results and artifacts. The newest result gets the task's last epoch.
func (c *converter) records(t row, task string, status bloom.TaskStatus, epoch int64, worker string, results []row) {
	artifacts := c.artifactsOf[t.text("id")]
	if len(results) == 0 && (status == bloom.TaskCompleted || status == bloom.TaskFailed) {
		outcome := map[bloom.TaskStatus]string{bloom.TaskCompleted: "success", bloom.TaskFailed: "error"}[status]
		results = []row{{"id": "result " + task, "status": outcome, "artifact_id": last(artifacts).text("id"),
			"error_message": t.text("error_message"), "completed_at": float64(max(t.int("updated_at"), t.int("created_at")))}}
	}
	byID := map[string]row{}
	for _, a := range artifacts {
		byID[a.text("id")] = a
	}
	first := epoch - int64(len(results)) + 1
	for i, r := range results {
		a, there := byID[r.text("artifact_id")]
		if !there {
			a = row{"id": "artifact " + r.text("id"), "type": bloom.DefaultArtifactType, "created_at": r["completed_at"], "finalized": true}
		}
		if a["content"] == nil {
			a["content"] = r["output"]
		}
		c.artifact(task, a)
		var message any
		if r.text("error_message") != "" || r.text("status") == string(bloom.OutcomeError) {
			message = cmp.Or(r.text("error_message"), "unknown")
		}
		outcome := bloom.OutcomeSuccess
		if r.text("status") == string(bloom.OutcomeError) {
			outcome = bloom.OutcomeError
		}
		c.results.add(uuidOf(r.text("id")), task, first+int64(i), cmp.Or(r.text("worker_id"), worker), uuidOf(a.text("id")), string(outcome),
			metrics(r.object("metrics")), r.int("completed_at"), importedHash, message)
	}
	for _, a := range artifacts {
		c.artifact(task, a)
	}
}

func (c *converter) artifact(task string, a row) {
	id := uuidOf(a.text("id"))
	if c.written[id] {
		return
	}
	c.written[id] = true
	content, refs := a.text("content"), a.list("entity_refs")
	if a["content"] == nil && a.text("url") != "" {
		// Only the earlier storage has it. As our own content, it would be read and deleted.
		refs = row{"refs": append(a.values("entity_refs"), a["url"])}.list("refs")
		c.elsewhere++
	}
	sum := sha256.Sum256([]byte(content))
	var job any
	if a.text("job_id") != "" {
		job = a.text("job_id")
	}
	c.artifacts.add(id, task, job, cmp.Or(a.text("type"), bloom.DefaultArtifactType), a.int("created_at"), a["finalized"] != false,
		refs, a.list("tags"), len(content), hex.EncodeToString(sum[:]), textMedia, content)
}

func (c *converter) worker(w row) {
	can := w.object("capabilities")
	labels := can.list("labels")
	var seen any
	if w.int("last_heartbeat") > 0 {
		seen = w.int("last_heartbeat")
	}
	id := cmp.Or(w.text("id"), w.text("node_id"))
	c.workers.add(id, cmp.Or(w.text("node_id"), id), w.text("url"), string(bloom.WorkerOffline), can["claude_cli"] != false,
		clamp(can.intOr("max_concurrency", 1), 1, bloom.MaxConcurrency), labels, seen, w.list("ip_addrs"), max(0, w.int("obs_count")), w.text("db_sha"), w.int("registered_at"))
}

// setting adds only membridge's address. Its key was not encrypted there, and must be here.
func (c *converter) setting(s row) {
	const ours = "membridge_server_url"
	if name := strings.ReplaceAll(strings.ToLower(s.text("key")), "_", ""); name != "membridgeserverurl" && name != "membridgeurl" {
		return
	}
	if len(c.settings.rows) == 0 && s.text("value") != "" {
		c.settings.add(ours, strings.Trim(s.text("value"), `"`), s.int("updated_at"))
	}
}

func (c *converter) byTask(table, order string) map[string][]row {
	out := map[string][]row{}
	for _, r := range sorted(c.source[table], order) {
		out[r.text("task_id")] = append(out[r.text("task_id")], r)
	}
	return out
}

func sorted(rows []row, by string) []row {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.int(by), b.int(by)) })
	return rows
}

// entity returns the id that an audit entry's subject has here.
func entity(a row) string {
	switch a.text("entity_type") {
	case "task", "llm_task", "lease", "artifact", "result":
		return uuidOf(a.text("entity_id"))
	}
	return a.text("entity_id")
}
