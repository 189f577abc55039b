package store

import (
	"slices"

	"github.com/bloom-runtime/bloom"
)

// Column returns one value of every row, as an array parameter.
func Column[T, V any](rows []T, value func(T) V) []V {
	c := make([]V, len(rows))
	for i, r := range rows {
		c[i] = value(r)
	}
	return c
}

// attempts returns a table of attempts and its arguments.
func (l *Load) attempts(keys []OutcomeKey) (table string, args []any) {
	return l.Table("task uuid", "epoch bigint"), l.Columns(Column(keys, func(k OutcomeKey) string { return k.TaskID }),
		Column(keys, func(k OutcomeKey) int64 { return k.Epoch }))
}

// Stored reads first uses of idempotency keys, outcomes, events and files.
func (l *Load) Stored() {
	if keys := l.ReadSet.Keys.List(); len(keys) > 0 {
		for _, k := range keys {
			l.Rows.Keys[k] = nil
		}
		type first struct {
			Key
			Keyed
		}
		l.Each(scan(func(f *first) []any { return []any{&f.Scope, &f.Key.Key, &f.TaskID, &f.BodyHash} }, func(f *first) { l.Rows.Keys[f.Key] = &f.Keyed }),
			`SELECT k.scope, k.key, t.id, t.body_hash FROM `+l.Table("scope text", "key text")+`
				JOIN llm_tasks t ON t.idempotency_scope = k.scope AND t.idempotency_key = k.key`,
			l.Columns(Column(keys, func(k Key) string { return k.Scope }), Column(keys, func(k Key) string { return k.Key }))...)
	}
	if keys := l.ReadSet.Outcomes.List(); len(keys) > 0 {
		for _, k := range keys {
			l.Rows.Outcomes[k] = nil
		}
		table, args := l.attempts(keys)
		l.Each(scan(func(o *Outcome) []any {
			return append(append([]any{&o.BodyHash}, resultFields(&o.Result)...), artifactFields(&o.Artifact)...)
		}, func(o *Outcome) {
			l.Rows.Outcomes[OutcomeKey{TaskID: o.Result.TaskID, Epoch: o.Result.Epoch}] = o
		}),
			`SELECT r.body_hash, `+resultColumns+`, `+artifactColumns+` FROM `+table+`
				JOIN llm_results r ON r.task_id = k.task AND r.epoch = k.epoch JOIN runtime_artifacts a ON a.id = r.artifact_id`, args...)
	}
	if keys := slices.DeleteFunc(l.ReadSet.Repeats.List(), l.unknown); len(keys) > 0 {
		l.Each(scan(func(k *EventKey) []any { return []any{&k.TaskID, &k.Seq} }, func(k *EventKey) { l.Rows.Repeats[*k] = true }),
			`SELECT t.id, e.worker_seq FROM `+l.Table("task uuid", "seq bigint")+` JOIN llm_tasks t ON t.id = k.task
				JOIN task_events e ON e.task = t.seq AND e.epoch = t.epoch AND e.worker_seq = k.seq`,
			l.Columns(Column(keys, func(k EventKey) string { return k.TaskID }), Column(keys, func(k EventKey) int64 { return k.Seq }))...)
	}
	l.files()
}

// unknown sets an event to not stored, and reports whether its task's id is invalid.
func (l *Load) unknown(k EventKey) bool {
	l.Rows.Repeats[k] = false
	return !isID(k.TaskID)
}

// files reads files of attempts, and how far streams are in transcripts.
func (l *Load) files() {
	if keys := l.ReadSet.Files.List(); len(keys) > 0 {
		for _, k := range keys {
			l.Rows.Files[k] = nil
		}
		l.Each(scan(artifactFields, func(a *bloom.Artifact) {
			l.Rows.Files[FileKey{TaskID: a.TaskID, Epoch: a.Epoch, Path: a.Path}] = a
		}),
			`SELECT `+artifactColumns+` FROM `+l.Table("task uuid", "epoch bigint", "path text")+`
				JOIN runtime_artifacts a ON a.task_id = k.task AND a.epoch = k.epoch AND a.path = k.path`,
			l.Columns(Column(keys, func(k FileKey) string { return k.TaskID }), Column(keys, func(k FileKey) int64 { return k.Epoch }),
				Column(keys, func(k FileKey) string { return k.Path }))...)
	}
	if keys := l.ReadSet.FileCounts.List(); len(keys) > 0 {
		type count struct {
			OutcomeKey
			n int64
		}
		table, args := l.attempts(keys)
		l.Each(scan(func(c *count) []any { return []any{&c.TaskID, &c.Epoch, &c.n} }, func(c *count) { l.Rows.FileCounts[c.OutcomeKey] = c.n }),
			`SELECT k.task, k.epoch, (SELECT count(*) FROM runtime_artifacts a WHERE a.task_id = k.task AND a.epoch = k.epoch AND a.path IS NOT NULL) FROM `+table, args...)
	}
	for id := range l.ReadSet.Kept {
		l.Rows.Kept[id] = 0
	}
	l.Pick(scan(keyedFields[int64], func(k *keyed[int64]) { l.Rows.Kept[k.key] = k.value }),
		`SELECT t.id, r.upto FROM llm_tasks t JOIN run_transcripts r ON r.task = t.seq`, "t.id", "uuid", IDs(l.ReadSet.Kept.List()), "")
}

// Places locks artifacts whose content is moved.
func (l *Load) Places() {
	l.Pick(scan(func(p *keyed[ContentPlace]) []any { return []any{&p.key, &p.value.URL} }, func(p *keyed[ContentPlace]) { l.Rows.Places[p.key] = &p.value }),
		`SELECT a.id, a.url FROM runtime_artifacts a`, "a.id", "uuid", IDs(l.ReadSet.Places.List()), l.lock("a"))
}

// Old locks and reads what may be removed. It skips what others have locked.
func (l *Load) Old() {
	l.Pick(scan(func(e *Aged) []any {
		return append(agedFields(e), &e.First, &e.Last, &e.Leases, &e.Results, &e.Artifacts, &e.Content, &e.Kept)
	}, func(e *Aged) { l.Rows.Old[e.ID] = e }), `SELECT `+agedColumns+`,
			coalesce((SELECT e.seq FROM task_events e WHERE e.task = t.seq ORDER BY e.seq LIMIT 1), 0),
			coalesce((SELECT e.seq FROM task_events e WHERE e.task = t.seq ORDER BY e.seq DESC LIMIT 1), 0),
			(SELECT count(*) FROM leases x WHERE x.task_id = t.id AND x.status <> 'active'),
			(SELECT count(*) FROM llm_results x WHERE x.task_id = t.id),
			(SELECT count(*) FROM runtime_artifacts x WHERE x.task_id = t.id),
			(SELECT count(x.url) FROM runtime_artifacts x WHERE x.task_id = t.id),
			coalesce((SELECT r.upto FROM run_transcripts r WHERE r.task = t.seq), 0) FROM llm_tasks t`,
		"t.id", "uuid", IDs(l.ReadSet.Old.List()), l.lock("t"))
	if seqs := l.ReadSet.OldAudit.List(); len(seqs) > 0 {
		l.Each(scan(func(e *AgedAudit) []any { return []any{&e.Seq, &e.At, &e.Keep, &e.Only} }, func(e *AgedAudit) { l.Rows.OldAudit[e.Seq] = e }),
			`SELECT a.seq, a.timestamp, a.seq = (SELECT max(seq) FROM audit_logs) OR a.seq > (SELECT seq FROM audit_head)
				OR EXISTS (SELECT 1 FROM llm_tasks t WHERE t.id = `+l.TaskOf+` AND t.status IN ('queued','leased','running')),
				a.seq > (SELECT exported FROM audit_export)
			FROM audit_logs a WHERE `+l.In("a.seq", 1, "bigint")+l.lock("a"), l.Array(seqs))
	}
}

// Export reads how far the audit was exported, unless it is locked.
func (l *Load) Export() {
	if l.ReadSet.Export {
		l.Each(scan(exportFields, func(e *bloom.AuditExport) { l.Rows.Export = e }), selectExport+l.lock("e"))
	}
}

// Settings reads locked settings.
func (l *Load) Settings() {
	l.Pick(scan(keyedFields[string], func(s *keyed[string]) { l.Rows.Settings[s.key] = &s.value }),
		`SELECT x.key, x.value FROM runtime_settings x`, "x.key", "text", l.ReadSet.Settings.List(), l.lock("x"))
}

// Missing names rows that were to be locked and were not found: they do not exist, or
// another transaction has locked them.
type Missing struct {
	Tasks, Places, Leases, Active, Workers, Keys, Sessions, Contexts, Transcripts, Settings []string
}

// Missing returns the rows that were not found, and sets them to nil in Rows.
func (l *Load) Missing() Missing {
	w, r := l.ReadSet, l.Rows
	m := Missing{
		Tasks: absent(w.Tasks, r.Tasks), Places: absent(w.Places, r.Places), Leases: absent(w.Leases, r.Leases), Workers: absent(w.Workers, r.Workers),
		Keys: absent(w.APIKeys, r.APIKeys), Sessions: absent(w.Sessions, r.Sessions), Contexts: absent(w.Contexts, r.Contexts), Transcripts: absent(w.Transcripts, r.Transcripts),
		Settings: absent(w.Settings, r.Settings),
	}
	for task := range w.Active {
		if _, ok := r.Active[task]; !ok {
			r.Active[task] = ""
			m.Active = append(m.Active, task)
		}
	}
	return m
}

func absent[V any](ids Set[string], rows map[string]*V) (missing []string) {
	for id := range ids {
		if _, ok := rows[id]; !ok {
			rows[id] = nil
			missing = append(missing, id)
		}
	}
	return missing
}
