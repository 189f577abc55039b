package store

import (
	"slices"
)

// Statement is a write.
type Statement struct {
	Query string
	Args  []any
}

// Rest returns the statements of a transaction other than its inserts, in the order in
// which they must run.
func (d *Dialect) Rest(c *Changes) (s []Statement) {
	add := func(query string, args ...any) { s = append(s, Statement{query, args}) }
	if e := c.Export; e != nil {
		add(`UPDATE audit_export SET exported = $1, hash = $2, planned = $3, branch = $4`, e.Exported, e.Hash, e.Planned, e.Branch)
	}
	if c.Head != nil {
		add(`UPDATE audit_head SET seq = $1, hash = $2`, c.Head.Seq, Unhex(c.Head.Hash))
	}
	for w := range workers.changes(c) {
		if w.Removed {
			add(`DELETE FROM worker_logs WHERE worker_id = $1`, w.ID)
		}
	}
	d.search(c, add)
	d.remove(c, add)
	d.contexts(c, add)
	return s
}

// search queues changed texts for the index, and records what was indexed.
func (d *Dialect) search(c *Changes, add func(string, ...any)) {
	if seqs := c.TextsChanged(); len(seqs) > 0 {
		add(`INSERT INTO search_queue (tasks) VALUES ($1)`, d.Array(seqs))
	}
	for _, s := range c.Searched {
		add(`DELETE FROM search_queue WHERE `+d.In("id", 1, "bigint"), d.Array(s.Done))
		add(`DELETE FROM search_retries WHERE `+d.In("task", 1, "bigint"), d.Array(s.Read))
		for _, r := range s.Again {
			add(`INSERT INTO search_retries (task, due, tries) VALUES ($1, $2, $3) ON CONFLICT (task) DO UPDATE SET due = excluded.due, tries = excluded.tries`,
				r.Task, r.Due, r.Tries)
		}
	}
}

// contexts writes forgotten contexts and removed content, but not the
// increments of contexts.
func (d *Dialect) contexts(c *Changes, add func(string, ...any)) {
	for _, id := range c.Forgotten {
		add(`DELETE FROM contexts WHERE id = $1`, id)
	}
	if len(c.Forgotten) > 0 && d.InOrder != "" {
		add(d.InOrder)
	}
	for _, id := range c.Forgotten {
		add(`INSERT INTO forgotten_contexts (at, context_id) VALUES ($1, $2)`, c.Now, id)
	}
	for _, url := range c.Removal.URLs {
		add(`INSERT INTO removed_contents (url, removed_at) VALUES ($1, $2)`, url, c.Now)
	}
	if c.Filled != nil {
		add(`UPDATE context_fill SET below = $1`, *c.Filled)
	}
}

// remove deletes old rows, table by table, which is faster than task by task.
func (d *Dialect) remove(c *Changes, add func(string, ...any)) {
	r := &c.Removal
	seq := func(e *Aged) int64 { return e.Seq }
	numbers := func(query, column string, keys []int64, args ...any) {
		if len(keys) > 0 {
			add(query+` WHERE `+d.In(column, 1, "bigint"), append([]any{d.Array(keys)}, args...)...)
		}
	}
	for task, below := range r.Events {
		add(`DELETE FROM task_events WHERE task = $1 AND seq < $2`, task, below)
	}
	numbers(`DELETE FROM task_events`, "task", Column(r.Streams, seq))
	if len(r.Tasks) > 0 {
		seqs, ids := Column(r.Tasks, seq), d.Array(Column(r.Tasks, func(e *Aged) string { return e.ID }))
		of := ` WHERE ` + d.In("task_id", 1, "uuid")
		numbers(`DELETE FROM task_events`, "task", seqs)
		add(`DELETE FROM leases`+of+` AND status <> 'active'`, ids)
		add(`DELETE FROM llm_results`+of, ids)
		add(`INSERT INTO removed_contents (url, removed_at) SELECT url, CAST($2 AS BIGINT) FROM runtime_artifacts`+of+` AND url IS NOT NULL`, ids, c.Now)
		add(`DELETE FROM runtime_artifacts`+of, ids)
		numbers(`DELETE FROM run_transcripts`, "task", seqs)
		numbers(`DELETE FROM llm_tasks`, "seq", seqs)
	}
	if removed := r.Audit; len(removed) > 0 {
		numbers(`DELETE FROM audit_logs`, "seq", removed)
		numbers(`UPDATE audit_chain SET removed_at = $2`, "seq", removed, c.Now)
		// Keep the hash before an entry that is kept: that entry's hash covers it.
		add(`DELETE FROM audit_chain WHERE seq IN (SELECT c.seq FROM audit_chain c WHERE c.seq <= $2
				AND c.seq >= coalesce((SELECT max(b.seq) FROM audit_chain b WHERE b.seq < $1), 0) AND c.removed_at IS NOT NULL
				AND (SELECT n.removed_at FROM audit_chain n WHERE n.seq > c.seq ORDER BY n.seq LIMIT 1) IS NOT NULL)`, slices.Min(removed), slices.Max(removed))
	}
	numbers(`DELETE FROM removed_contents`, "seq", r.Contents)
	numbers(`DELETE FROM forgotten_contexts`, "seq", r.Forgotten)
	if len(r.SessionsOf) > 0 {
		add(`DELETE FROM sessions WHERE `+d.In("key_id", 1, "text"), d.Array(r.SessionsOf))
	}
	if r.SessionsBefore > 0 {
		add(`DELETE FROM sessions WHERE expires_at <= $1`, r.SessionsBefore)
	}
}
