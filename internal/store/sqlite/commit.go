package sqlite

import (
	"errors"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/store"
)

// errMissed is an update that found no row: a defect, never a race.
var errMissed = errors.New("sqlite: a row that was read is gone")

// put writes changes, statement by statement.
func (t *tx) put(c *store.Changes) error {
	for _, write := range []func(*store.Changes) error{
		t.putTasks, t.putLeases, t.putArtifacts, t.putOutcomes, t.putMoves, t.putStreams, t.putEvents, t.putAudits, t.putChain, t.putWorkers, t.putSettings, t.putContexts, t.putAccess, t.putSearch, t.putLogs, t.remove, t.removeAudit, t.count, t.chart,
	} {
		if err := write(c); err != nil {
			return err
		}
	}
	return nil
}

// set updates one row.
func (t *tx) set(query string, args ...any) error {
	n, err := t.exec(query, args...)
	if err == nil && n != 1 {
		err = errMissed
	}
	return err
}

func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

func gateValue(g bloom.Gate) any {
	if g == "" {
		return nil
	}
	return string(g)
}

func (t *tx) putTasks(c *store.Changes) error {
	rows := make([]any, 0, len(c.NewTasks)*insertTasks.width)
	for _, k := range c.NewTasks {
		rows = append(rows, k.Seq, k.ID, k.Status, gateValue(k.Gate), k.UpdatedAt, k.LeaseID, k.WorkerID, k.Attempts, k.MaxAttempts, k.RunAt, k.ErrorClass,
			k.CancelRequested, k.Epoch, k.Policy.Ordered, k.Priority, schema.LabelKey(k.Labels), k.Preferred, k.Until, k.ContextID, k.AgentSlug, k.CreatedAt,
			k.DesiredFormat, k.Policy.TimeoutSec, k.Policy.Budget, schema.ListJSON(k.Labels), k.Scope, k.IdempotencyKey, k.BodyHash,
			schema.ListJSON(k.ContextHints), k.Prompt, k.Actor, string(k.Policy.Workspace), schema.ListJSON(k.Policy.Artifacts), k.RequestID)
	}
	if err := insertTasks.run(t, rows); err != nil {
		return err
	}
	for _, k := range c.Tasks {
		if err := t.putTask(k); err != nil {
			return err
		}
	}
	return nil
}

// putTask updates what has changed. Columns of indexes that stay as they are, are not
// named: SQLite would write their entries again. The last event is read from the stream.
func (t *tx) putTask(k *store.Task) error {
	switch {
	case lifecycle.Same(k.TaskState, k.Was.TaskState) && k.Gate == k.Was.Gate:
		return nil
	case k.Gate == "" && k.Was.Gate == "" && k.Epoch == k.Was.Epoch && same(k.WorkerID, k.Was.WorkerID):
		return t.set(`UPDATE llm_tasks SET status = ?, updated_at = ?, lease_id = ?, attempts = ?, error_class = ?, cancel_requested = ? WHERE seq = ?`,
			k.Status, k.UpdatedAt, k.LeaseID, k.Attempts, k.ErrorClass, k.CancelRequested, k.Seq)
	}
	return t.set(`UPDATE llm_tasks SET status = ?, updated_at = ?, lease_id = ?, worker_id = ?, attempts = ?, run_at = ?, error_class = ?,
		cancel_requested = ?, epoch = ?, gate = ?, preferred_worker = ?, preferred_until = ? WHERE seq = ?`,
		k.Status, k.UpdatedAt, k.LeaseID, k.WorkerID, k.Attempts, k.RunAt, k.ErrorClass, k.CancelRequested, k.Epoch, gateValue(k.Gate), k.Preferred, k.Until, k.Seq)
}

func (t *tx) putLeases(c *store.Changes) error {
	// Those that end first: a task has one active lease.
	for _, l := range c.Leases {
		if err := t.set(`UPDATE leases SET status = ?, expires_at = ?, last_heartbeat = ? WHERE id = ?`, l.Status, l.ExpiresAt, l.LastHeartbeat, l.ID); err != nil {
			return err
		}
	}
	rows := make([]any, 0, len(c.NewLeases)*insertLeases.width)
	for _, l := range c.NewLeases {
		rows = append(rows, l.ID, l.TaskID, l.WorkerID, l.Epoch, l.Status, l.StartedAt, l.ExpiresAt, l.TTLSeconds, l.LastHeartbeat, l.ContextID)
	}
	return insertLeases.run(t, rows)
}

func (t *tx) putArtifacts(c *store.Changes) error {
	artifacts := c.NewArtifacts()
	rows := make([]any, 0, len(artifacts)*insertArtifacts.width)
	for _, a := range artifacts {
		var path *string
		if a.Path != "" {
			path = &a.Path
		}
		rows = append(rows, a.ID, a.TaskID, a.Type, a.CreatedAt, true, a.URL, schema.ListJSON(a.Tags), a.Size, a.SHA256, a.MediaType, a.Content, a.Displaced, a.Epoch, path)
	}
	return insertArtifacts.run(t, rows)
}

// putStreams notes which streams have ended, and how far they lie in transcripts.
func (t *tx) putStreams(c *store.Changes) error {
	for _, k := range c.Kept {
		if _, err := t.exec(`INSERT INTO run_transcripts (task, upto, due) VALUES (?1, COALESCE(?2, 0), ?3) ON CONFLICT (task) DO UPDATE SET upto = COALESCE(?2, upto), due = ?3`, k.Task, k.UpTo, k.Due); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) putOutcomes(c *store.Changes) error {
	results := make([]any, 0, len(c.Outcomes)*insertResults.width)
	for _, o := range c.Outcomes {
		r := o.Result
		results = append(results, r.ID, r.TaskID, r.Epoch, r.WorkerID, r.ArtifactID, r.Status, r.ErrorClass, bloom.MustJSON(r.Metrics), r.CompletedAt, o.BodyHash,
			r.ErrorMessage)
	}
	return insertResults.run(t, results)
}

func (t *tx) putMoves(c *store.Changes) error {
	for _, m := range c.Moves {
		if err := t.set(`UPDATE runtime_artifacts SET url = ?, content = NULL, displaced = 0 WHERE id = ?`, m.URL, m.ID); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) putEvents(c *store.Changes) error {
	rows := make([]any, 0, len(c.Events)*insertEvents.width)
	for _, e := range c.Events {
		rows = append(rows, e.Task, e.Seq, e.Type, e.At, e.Epoch, e.WorkerSeq, string(e.Data))
	}
	return insertEvents.run(t, rows)
}

// inserts are statements for 8, 4, 2 and 1 rows: one for many costs far less than
// many for one, and few sizes need few prepared statements.
type inserts struct {
	width int
	texts [4]string
}

func newInserts(table, columns string) inserts {
	in := inserts{width: strings.Count(columns, ",") + 1}
	row := "(" + strings.Repeat("?,", in.width-1) + "?)"
	for i := range in.texts {
		in.texts[i] = `INSERT INTO ` + table + ` (` + columns + `) VALUES ` + strings.Repeat(row+",", 8>>i-1) + row
	}
	return in
}

var (
	insertTasks = newInserts("llm_tasks", `seq, id, status, gate, updated_at, lease_id, worker_id, attempts, max_attempts, run_at, error_class,
		cancel_requested, epoch, ordered, priority, label_key, preferred_worker, preferred_until, context_id, agent_slug, created_at, desired_format,
		timeout_sec, budget, labels, idempotency_scope, idempotency_key, body_hash, context_hints, prompt, created_by, workspace, artifact_globs, request_id`)
	insertLeases    = newInserts("leases", "id, task_id, worker_id, epoch, status, started_at, expires_at, ttl_seconds, last_heartbeat, context_id")
	insertArtifacts = newInserts("runtime_artifacts", "id, task_id, type, created_at, finalized, url, tags, size, sha256, media_type, content, displaced, epoch, path")
	insertResults   = newInserts("llm_results", `id, task_id, epoch, worker_id, artifact_id, status, error_class, metrics, completed_at, body_hash, error_message`)
	insertEvents    = newInserts("task_events", "task, seq, type, at, epoch, worker_seq, data")
)

// run writes values, row after row.
func (in *inserts) run(t *tx, values []any) error {
	for i, text := range in.texts {
		for n := in.width * (8 >> i); len(values) >= n; values = values[n:] {
			if _, err := t.exec(text, values[:n]...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *tx) putWorkers(c *store.Changes) error {
	for _, w := range c.Workers {
		if _, err := t.exec(`INSERT INTO workers (id, node_id, url, status, claude_cli, max_concurrency, labels, last_heartbeat, ip_addrs, obs_count, db_sha,
				registered_at, agent_version, os_info, install_method, draining, instance_id, instance_seen, removed,
				control_draining, posted_at, agents)
			VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?22)
			ON CONFLICT (id) DO UPDATE SET node_id = ?2, url = ?3, status = ?4, claude_cli = ?5, max_concurrency = ?6, labels = ?7, last_heartbeat = ?8,
				ip_addrs = ?9, obs_count = ?10, db_sha = ?11, registered_at = ?12, agent_version = ?13, os_info = ?14, install_method = ?15,
				draining = ?16, instance_id = ?17, instance_seen = ?18, removed = ?19,
				control_draining = ?20, posted_at = ?21, agents = ?22`,
			w.ID, w.NodeID, w.URL, w.Status, w.Capabilities.ClaudeCLI, w.Capabilities.MaxConcurrency, schema.ListJSON(w.Capabilities.Labels), w.LastHeartbeat,
			schema.ListJSON(w.IPAddrs), int64(w.ObsCount), w.DBSHA, w.RegisteredAt, w.AgentVersion, w.OSInfo, w.InstallMethod, w.RuntimeDrain, w.InstanceID, w.InstanceSeen,
			w.Removed, w.ControlDrain, w.PostedAt, schema.ListJSON(w.Agents)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) putSettings(c *store.Changes) error {
	for k, v := range c.Settings {
		if v == "" {
			if _, err := t.exec(`DELETE FROM runtime_settings WHERE key = ?`, k); err != nil {
				return err
			}
			continue
		}
		if _, err := t.exec(`INSERT INTO runtime_settings (key, value, updated_at) VALUES (?1, ?2, ?3)
			ON CONFLICT (key) DO UPDATE SET value = ?2, updated_at = ?3`, k, v, c.Now); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes what has grown old.
func (t *tx) remove(c *store.Changes) error {
	r := &c.Removal
	for _, e := range r.Streams {
		if err := t.set(`UPDATE llm_tasks SET last_event = ? WHERE seq = ?`, e.Last, e.Seq); err != nil {
			return err
		}
	}
	for task, below := range r.Events {
		if _, err := t.exec(`DELETE FROM task_events WHERE task = ? AND seq < ?`, task, below); err != nil {
			return err
		}
	}
	seqs, ids := keysOf(r.Tasks)
	streams, _ := keysOf(r.Streams)
	for _, s := range []struct {
		n     int
		query string
		args  []any
	}{
		{len(r.Streams), deleteStreams, []any{streams}},
		{len(r.Tasks), deleteStreams, []any{seqs}},
		{len(r.Tasks), `DELETE FROM leases WHERE task_id IN (SELECT value FROM json_each(?)) AND status <> 'active'`, []any{ids}},
		{len(r.Tasks), `DELETE FROM llm_results WHERE task_id IN (SELECT value FROM json_each(?))`, []any{ids}},
		{len(r.Tasks), `INSERT INTO removed_contents (url, removed_at) SELECT url, ?2 FROM runtime_artifacts
			WHERE task_id IN (SELECT value FROM json_each(?1)) AND url IS NOT NULL`, []any{ids, c.Now}},
		{len(r.Tasks), `DELETE FROM runtime_artifacts WHERE task_id IN (SELECT value FROM json_each(?))`, []any{ids}},
		{len(r.Tasks), `DELETE FROM run_transcripts WHERE task IN (SELECT value FROM json_each(?))`, []any{seqs}},
		{len(r.Tasks), `DELETE FROM llm_tasks WHERE seq IN (SELECT value FROM json_each(?))`, []any{seqs}},
		{len(r.Contents), `DELETE FROM removed_contents WHERE seq IN (SELECT value FROM json_each(?))`, []any{string(bloom.MustJSON(r.Contents))}},
		{len(r.Forgotten), `DELETE FROM forgotten_contexts WHERE seq IN (SELECT value FROM json_each(?))`, []any{string(bloom.MustJSON(r.Forgotten))}},
		{len(r.Sessions), `DELETE FROM sessions WHERE id IN (SELECT value FROM json_each(?))`, []any{schema.ListJSON(r.Sessions)}},
		{len(r.SessionsOf), `DELETE FROM sessions WHERE key_id IN (SELECT value FROM json_each(?))`, []any{schema.ListJSON(r.SessionsOf)}},
		{int(min(r.SessionsBefore, 1)), `DELETE FROM sessions WHERE expires_at <= ?`, []any{r.SessionsBefore}},
	} {
		if s.n == 0 {
			continue
		}
		if _, err := t.exec(s.query, s.args...); err != nil {
			return err
		}
	}
	return nil
}

const deleteStreams = `DELETE FROM task_events WHERE task IN (SELECT value FROM json_each(?))`

// keysOf are the numbers and the ids of tasks as JSON, for statements that take
// them all: table by table is faster than task by task.
func keysOf(old []*store.Aged) (seqs, ids string) {
	s, i := make([]int64, len(old)), make([]string, len(old))
	for n, e := range old {
		s[n], i[n] = e.Seq, e.ID
	}
	return string(bloom.MustJSON(s)), string(bloom.MustJSON(i))
}

var addCounts = func() string {
	sets := make([]string, len(store.CountColumns))
	for i, c := range store.CountColumns {
		sets[i] = c + " = " + c + " + ?"
	}
	return `UPDATE counters SET ` + strings.Join(sets, ", ")
}()

// count keeps what stats shows by differences, so that nobody ever counts tasks.
func (t *tx) count(c *store.Changes) error {
	if c.Counts == (store.Counts{}) {
		return nil
	}
	args := make([]any, len(c.Counts))
	for i, n := range c.Counts {
		args[i] = n
	}
	_, err := t.exec(addCounts, args...)
	return err
}
