package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

const lockContext = 0x626c6d01 // class of the advisory locks of contexts with ordered tasks, by hash

// nowSQL is the store's time in a statement: the test's, or the server's.
const nowSQL = `(SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))`

// Load reads and locks what is wanted, in one round trip. Locks are tried and never
// waited for, and what depends on a lock is read by a later statement, which sees
// what was committed before the lock was free. What could not be found or locked is
// looked for once more without a lock: what is there is in use.
func (t *tx) Load(ctx context.Context, want *store.ReadSet, rows *store.Rows) error {
	l := &loader{t: t, b: &pgx.Batch{}, want: want, rows: rows, now: t.d.testNow()}
	l.ordered()
	l.workers()
	l.tasks()
	l.held()
	l.leases()
	l.queue()
	l.context()
	l.rest()
	l.contexts()
	l.places()
	l.files()
	l.old()
	l.access()
	l.export()
	l.b.Queue(`SELECT `+nowSQL, l.now).QueryRow(func(row pgx.Row) error { return row.Scan(&rows.Now) })
	if err := t.send(ctx, l.b); err != nil {
		return t.d.failed(err)
	}
	if want.Unsealed > 0 {
		if err := t.chain(ctx, want.Unsealed, rows); err != nil {
			return t.d.failed(err)
		}
	}
	l.b = &pgx.Batch{}
	if l.doubts(); l.b.Len() == 0 {
		return nil
	}
	return t.d.failed(t.send(ctx, l.b))
}

// loader puts together what one Load asks for.
type loader struct {
	t    *tx
	b    *pgx.Batch
	want *store.ReadSet
	rows *store.Rows
	now  *int64
}

// each has take called for every row of an answer.
func (l *loader) each(take func(pgx.Rows) error, query string, args ...any) {
	l.b.Queue(query, args...).Query(func(rows pgx.Rows) error {
		defer rows.Close()
		for rows.Next() {
			if err := take(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// ids are those of a set that can be ids.
func ids(set store.Set[string]) []string { return idsOnly(set.List()) }

func (l *loader) ordered() {
	if len(l.want.Ordered) == 0 {
		return
	}
	names, most := make([]string, 0, len(l.want.Ordered)), make([]int32, 0, len(l.want.Ordered))
	for context, n := range l.want.Ordered {
		names, most = append(names, context), append(most, int32(n))
	}
	l.each(func(r pgx.Rows) error {
		var context string
		err := r.Scan(&context)
		l.rows.Ordered[context] = store.Line{}
		return err
	}, `SELECT c FROM unnest($2::text[]) c WHERE pg_try_advisory_xact_lock($1, hashtext(c))`, lockContext, names)
	l.each(func(r pgx.Rows) error {
		var context string
		var p store.Place
		if err := r.Scan(&context, &p.ID, &p.Seq, &p.Open); err != nil {
			return err
		}
		if line, locked := l.rows.Ordered[context]; locked {
			line.Tasks = append(line.Tasks, p)
			line.Cut = len(line.Tasks) == l.want.Ordered[context]
			l.rows.Ordered[context] = line
		}
		return nil
	}, `SELECT k.c, t.* FROM unnest($1::text[], $2::int[]) k (c, most) CROSS JOIN LATERAL (
			SELECT t.id, t.seq, t.status = 'queued' AND t.gate <> 'ordered' FROM llm_tasks t WHERE t.context_id = k.c AND t.pending ORDER BY t.seq LIMIT k.most) t
		ORDER BY t.seq`, names, most)
}

func (l *loader) workers() {
	if names := l.want.Workers.List(); len(names) > 0 {
		l.each(func(r pgx.Rows) error {
			w, err := scanWorker(r)
			l.rows.Workers[w.ID] = w
			return err
		}, `SELECT `+workerColumns+`, 0 FROM workers w WHERE w.id = ANY($1::text[]) FOR UPDATE SKIP LOCKED`, names)
		l.each(func(r pgx.Rows) error {
			var name string
			var n int
			err := r.Scan(&name, &n)
			if w := l.rows.Workers[name]; w != nil {
				w.ActiveLeases = n
			}
			return err
		}, `SELECT l.worker_id, count(*) FROM leases l WHERE l.worker_id = ANY($1::text[]) AND l.status = 'active' GROUP BY l.worker_id`, names)
	}
	if l.want.Online {
		l.rows.Online = []bloom.Worker{}
		l.each(func(r pgx.Rows) error {
			w, err := scanWorker(r)
			l.rows.Online = append(l.rows.Online, w.Worker)
			return err
		}, `SELECT `+workerColumns+`, `+countHeld+` FROM workers w WHERE NOT w.removed AND w.status = 'online'`)
	}
}

func (l *loader) tasks() {
	if tasks := ids(l.want.Tasks); len(tasks) > 0 {
		l.each(func(r pgx.Rows) error {
			t, err := scanTask(r)
			l.rows.Tasks[t.ID] = t
			return err
		}, `SELECT `+taskColumns+` FROM llm_tasks t WHERE t.id = ANY($1::text[]::uuid[]) FOR UPDATE SKIP LOCKED`, tasks)
	}
	for id := range l.want.Views {
		l.rows.Views[id] = nil
	}
	if views := ids(l.want.Views); len(views) > 0 {
		l.each(func(r pgx.Rows) error {
			t, err := scanWhole(r)
			l.rows.Views[t.ID] = t
			return err
		}, `SELECT `+wholeColumns+` FROM llm_tasks t WHERE t.id = ANY($1::text[]::uuid[])`, views)
	}
	for id := range l.want.Texts {
		if _, have := l.rows.Texts[id]; !have {
			l.rows.Texts[id] = store.Text{Hints: []string{}}
		}
	}
	if texts := ids(l.want.Texts); len(texts) > 0 {
		l.each(func(r pgx.Rows) error {
			var id string
			var text store.Text
			err := r.Scan(&id, &text.Prompt, (*list)(&text.Hints))
			l.rows.Texts[id] = text
			return err
		}, `SELECT t.id, t.prompt, t.context_hints FROM llm_tasks t WHERE t.id = ANY($1::text[]::uuid[])`, texts)
	}
}

// lock takes a lease that is locked with its task.
func (l *loader) locked(is bloom.Lease) {
	l.rows.Leases[is.ID] = &is
	if is.Status == bloom.LeaseActive {
		l.rows.Active[is.TaskID] = is.ID
	}
}

func (l *loader) leases() {
	named, active := ids(l.want.Leases), ids(l.want.Active)
	take := func(r pgx.Rows) error {
		is, err := scanLease(r)
		l.locked(is)
		return err
	}
	if len(named) > 0 {
		l.each(take, `SELECT `+leaseColumns+` FROM leases l WHERE l.id = ANY($1::text[]::uuid[]) FOR UPDATE SKIP LOCKED`, named)
	}
	if len(active) > 0 {
		l.each(take, `SELECT `+leaseColumns+` FROM leases l WHERE l.task_id = ANY($1::text[]::uuid[]) AND l.status = 'active' FOR UPDATE SKIP LOCKED`, active)
	}
	for id := range l.want.Expired {
		l.rows.Expired[id] = false
	}
	if expired := ids(l.want.Expired); len(expired) > 0 {
		l.each(func(r pgx.Rows) error {
			var id string
			err := r.Scan(&id)
			l.rows.Expired[id] = true
			return err
		}, `SELECT l.id FROM leases l WHERE l.id = ANY($1::text[]::uuid[]) AND l.status = 'expired'`, expired)
	}
}

const holdings = `SELECT ` + leaseColumns + `, ` + taskColumns + ` FROM leases l JOIN llm_tasks t ON t.id = l.task_id
	WHERE l.worker_id = ANY($1::text[]) AND l.status = 'active' `

// held locks what can be locked of what workers hold, then reads all of it.
func (l *loader) held() {
	var all, renewing []string
	for worker, lock := range l.want.Held {
		all = append(all, worker)
		l.rows.Held[worker] = nil
		if lock {
			renewing = append(renewing, worker)
		}
	}
	if len(renewing) > 0 {
		l.each(func(r pgx.Rows) error {
			h, err := scanHolding(r)
			l.locked(h.Lease)
			l.rows.Tasks[h.Task.ID] = h.Task
			return err
		}, holdings+`FOR UPDATE SKIP LOCKED`, renewing)
	}
	if len(all) > 0 {
		l.each(func(r pgx.Rows) error {
			h, err := scanHolding(r)
			l.rows.Held[h.Lease.WorkerID] = append(l.rows.Held[h.Lease.WorkerID], h)
			return err
		}, holdings+`ORDER BY l.seq`, all)
	}
}

// open locks open tasks, for each set of labels the best; what is short of their
// text is read, too. Rows that another transaction holds are passed over.
const open = `SELECT k.key, ` + taskColumns + `,
		CASE WHEN octet_length(t.prompt) + pg_column_size(t.context_hints) <= 4096 THEN t.prompt END,
		CASE WHEN octet_length(t.prompt) + pg_column_size(t.context_hints) <= 4096 THEN t.context_hints END
	FROM unnest($2::text[], $3::int[]) k (key, most) CROSS JOIN LATERAL (
		SELECT * FROM llm_tasks t WHERE t.gate = 'open' AND t.label_key = k.key
		  AND (t.preferred_worker IS NULL OR t.preferred_worker = ANY($4::text[]) OR t.preferred_until <= ` + nowSQL + `)
		ORDER BY t.priority DESC, t.seq LIMIT k.most FOR UPDATE SKIP LOCKED) t`

// sets steps over the distinct sets of labels in the queue's index.
const sets = `WITH RECURSIVE s (label_key, n) AS (
		(SELECT q.label_key, 1 FROM llm_tasks q WHERE q.gate = 'open' AND q.label_key > $1 ORDER BY q.label_key LIMIT 1)
		UNION ALL
		SELECT (SELECT q.label_key FROM llm_tasks q WHERE q.gate = 'open' AND q.label_key > s.label_key ORDER BY q.label_key LIMIT 1), s.n + 1
		FROM s WHERE s.label_key IS NOT NULL AND s.n < $2)
	SELECT s.label_key, (SELECT q.labels FROM llm_tasks q WHERE q.gate = 'open' AND q.label_key = s.label_key LIMIT 1) FROM s WHERE s.label_key IS NOT NULL ORDER BY s.n`

func (l *loader) queue() {
	if len(l.want.Queue) > 0 {
		keys, most := make([]string, 0, len(l.want.Queue)), make([]int32, 0, len(l.want.Queue))
		for key, n := range l.want.Queue {
			keys, most = append(keys, key), append(most, int32(n))
			l.rows.Queue[key] = store.Line{}
		}
		l.each(l.takeOpen, open, l.now, keys, most, l.want.Askers.List())
	}
	for from, most := range l.want.Sets {
		l.rows.Sets[from] = []store.LabelSet{}
		l.each(func(r pgx.Rows) error {
			var set store.LabelSet
			err := r.Scan(&set.Key, (*list)(&set.Labels))
			l.rows.Sets[from] = append(l.rows.Sets[from], set)
			return err
		}, sets, from, most)
	}
	if l.want.Due {
		l.rows.Due = new(bool)
		l.b.Queue(`SELECT EXISTS (SELECT FROM llm_tasks t WHERE t.gate = 'delayed' AND t.run_at <= `+nowSQL+`)`, l.now).
			QueryRow(func(row pgx.Row) error { return row.Scan(l.rows.Due) })
	}
}

func (l *loader) takeOpen(r pgx.Rows) error {
	var key string
	var prompt *string
	var hints list
	t := &store.Task{}
	if err := r.Scan(append(append([]any{&key}, taskFields(t)...), &prompt, &hints)...); err != nil {
		return err
	}
	line := l.rows.Queue[key]
	line.Tasks = append(line.Tasks, store.Place{ID: t.ID, Seq: t.Seq})
	line.Cut = len(line.Tasks) == l.want.Queue[key]
	l.rows.Queue[key] = line
	if _, have := l.rows.Tasks[t.ID]; !have {
		l.rows.Tasks[t.ID] = t
	}
	if prompt != nil {
		l.rows.Texts[t.ID] = store.Text{Prompt: *prompt, Hints: hints}
	}
	return nil
}

// context reads who knows a context and who holds it.
func (l *loader) context() {
	if contexts := l.want.Homes.List(); len(contexts) > 0 {
		for _, c := range contexts {
			l.rows.Homes[c] = nil
		}
		l.each(func(r pgx.Rows) error {
			h := &store.Home{}
			var context string
			err := r.Scan(append(append([]any{&context}, workerFields(&h.Worker)...), &h.Waiting)...)
			l.rows.Homes[context] = h
			return err
		}, `SELECT c.id, `+workerColumns+`, `+countHeld+`,
				(SELECT count(*) FROM llm_tasks p WHERE p.preferred_worker = w.id AND p.preferred_until > `+nowSQL+`)
			FROM unnest($2::text[]) c (id) JOIN contexts x ON x.id = c.id JOIN workers w ON w.id = x.worker_id`, l.now, contexts)
	}
	for id := range l.want.Holders {
		l.rows.Holders[id] = nil
	}
	if tasks := ids(l.want.Holders); len(tasks) > 0 {
		l.each(func(r pgx.Rows) error {
			var task, worker string
			err := r.Scan(&task, &worker)
			l.rows.Holders[task] = append(l.rows.Holders[task], worker)
			return err
		}, `SELECT DISTINCT t.id, l.worker_id FROM llm_tasks t JOIN leases l ON l.context_id = t.context_id AND l.status = 'active'
			WHERE t.id = ANY($1::text[]::uuid[])`, tasks)
	}
}

func (l *loader) rest() {
	if keys := l.want.Keys.List(); len(keys) > 0 {
		for _, k := range keys {
			l.rows.Keys[k] = nil
		}
		l.each(func(r pgx.Rows) error {
			var k store.Key
			is := &store.Keyed{}
			err := r.Scan(&k.Scope, &k.Key, &is.TaskID, &is.BodyHash)
			l.rows.Keys[k] = is
			return err
		}, `SELECT k.scope, k.key, t.id, t.body_hash FROM unnest($1::text[], $2::text[]) k (scope, key)
			JOIN llm_tasks t ON t.idempotency_scope = k.scope AND t.idempotency_key = k.key`,
			column(keys, func(k store.Key) string { return k.Scope }), column(keys, func(k store.Key) string { return k.Key }))
	}
	if keys := l.want.Outcomes.List(); len(keys) > 0 {
		for _, k := range keys {
			l.rows.Outcomes[k] = nil
		}
		l.each(func(r pgx.Rows) error {
			o := &store.Outcome{}
			err := r.Scan(append(append([]any{&o.BodyHash}, resultFields(&o.Result)...), artifactFields(&o.Artifact)...)...)
			l.rows.Outcomes[store.OutcomeKey{TaskID: o.Result.TaskID, Epoch: o.Result.Epoch}] = o
			return err
		}, `SELECT r.body_hash, `+resultColumns+`, `+artifactColumns+` FROM unnest($1::text[], $2::bigint[]) k (task, epoch)
			JOIN llm_results r ON r.task_id = k.task::uuid AND r.epoch = k.epoch JOIN runtime_artifacts a ON a.id = r.artifact_id`,
			column(keys, func(k store.OutcomeKey) string { return k.TaskID }), column(keys, func(k store.OutcomeKey) int64 { return k.Epoch }))
	}
	if keys := slices.DeleteFunc(l.want.Repeats.List(), l.new); len(keys) > 0 {
		l.each(func(r pgx.Rows) error {
			var k store.EventKey
			err := r.Scan(&k.TaskID, &k.Seq)
			l.rows.Repeats[k] = true
			return err
		}, `SELECT t.id, e.worker_seq FROM unnest($1::text[], $2::bigint[]) w (id, seq)
			JOIN llm_tasks t ON t.id = w.id::uuid
			JOIN task_events e ON e.task = t.seq AND e.epoch = t.epoch AND e.worker_seq = w.seq`,
			column(keys, func(k store.EventKey) string { return k.TaskID }), column(keys, func(k store.EventKey) int64 { return k.Seq }))
	}
	if l.want.Numbers > 0 {
		l.each(func(r pgx.Rows) error {
			var n int64
			err := r.Scan(&n)
			l.rows.Numbers = append(l.rows.Numbers, n)
			return err
		}, `SELECT nextval('llm_tasks_seq') FROM generate_series(1, $1)`, l.want.Numbers)
	}
}

// new notes that an event is not stored, for now, and reports whether its task
// cannot be there.
func (l *loader) new(k store.EventKey) bool {
	l.rows.Repeats[k] = false
	return !isID(k.TaskID)
}

// places locks artifacts that are to be moved.
func (l *loader) places() {
	if artifacts := ids(l.want.Places); len(artifacts) > 0 {
		l.each(func(r pgx.Rows) error {
			var id string
			p := &store.ContentPlace{}
			err := r.Scan(&id, &p.URL)
			l.rows.Places[id] = p
			return err
		}, `SELECT a.id, a.url FROM runtime_artifacts a WHERE a.id = ANY($1::text[]::uuid[]) FOR UPDATE OF a SKIP LOCKED`, artifacts)
	}
}

// files reads what is known of runs' files and transcripts.
func (l *loader) files() {
	task, epoch := func(k store.FileKey) string { return k.TaskID }, func(k store.FileKey) int64 { return k.Epoch }
	if keys := l.want.Files.List(); len(keys) > 0 {
		for _, k := range keys {
			l.rows.Files[k] = nil
		}
		l.each(func(r pgx.Rows) error {
			a, err := scanArtifact(r)
			l.rows.Files[store.FileKey{TaskID: a.TaskID, Epoch: a.Epoch, Path: a.Path}] = &a
			return err
		}, `SELECT `+artifactColumns+` FROM unnest($1::text[], $2::bigint[], $3::text[]) k (task, epoch, path)
			JOIN runtime_artifacts a ON a.task_id = k.task::uuid AND a.epoch = k.epoch AND a.path = k.path`,
			column(keys, task), column(keys, epoch), column(keys, func(k store.FileKey) string { return k.Path }))
	}
	if keys := l.want.FileCounts.List(); len(keys) > 0 {
		l.each(func(r pgx.Rows) (err error) {
			var k store.OutcomeKey
			var n int64
			err = r.Scan(&k.TaskID, &k.Epoch, &n)
			l.rows.FileCounts[k] = n
			return err
		}, `SELECT k.task, k.epoch, (SELECT count(*) FROM runtime_artifacts a WHERE a.task_id = k.task::uuid AND a.epoch = k.epoch AND a.path IS NOT NULL)
			FROM unnest($1::text[], $2::bigint[]) k (task, epoch)`,
			column(keys, func(k store.OutcomeKey) string { return k.TaskID }), column(keys, func(k store.OutcomeKey) int64 { return k.Epoch }))
	}
	if tasks := ids(l.want.Kept); len(tasks) > 0 {
		for _, id := range tasks {
			l.rows.Kept[id] = 0
		}
		l.each(func(r pgx.Rows) error {
			var id string
			var upto int64
			err := r.Scan(&id, &upto)
			l.rows.Kept[id] = upto
			return err
		}, `SELECT t.id, r.upto FROM llm_tasks t JOIN run_transcripts r ON r.task = t.seq WHERE t.id = ANY($1::text[]::uuid[])`, tasks)
	}
}

// old locks what may be removed. Of what others have locked nothing is known.
func (l *loader) old() {
	if tasks := ids(l.want.Old); len(tasks) > 0 {
		l.each(func(r pgx.Rows) error {
			e := &store.Aged{}
			err := r.Scan(append(agedFields(e), &e.First, &e.Last, &e.Leases, &e.Results, &e.Artifacts, &e.Content, &e.Kept, &e.Home)...)
			l.rows.Old[e.ID] = e
			return err
		}, `SELECT `+agedColumns+`, coalesce((SELECT e.seq FROM task_events e WHERE e.task = t.seq ORDER BY e.seq LIMIT 1), 0),
				coalesce((SELECT e.seq FROM task_events e WHERE e.task = t.seq ORDER BY e.seq DESC LIMIT 1), 0),
				(SELECT count(*) FROM leases x WHERE x.task_id = t.id AND x.status <> 'active'),
				(SELECT count(*) FROM llm_results x WHERE x.task_id = t.id),
				(SELECT count(*) FROM runtime_artifacts x WHERE x.task_id = t.id),
				(SELECT count(x.url) FROM runtime_artifacts x WHERE x.task_id = t.id),
				coalesce((SELECT r.upto FROM run_transcripts r WHERE r.task = t.seq), 0),
				`+isHome+`
			FROM llm_tasks t WHERE t.id = ANY($1::text[]::uuid[]) FOR UPDATE OF t SKIP LOCKED`, tasks, bloom.HomeWindow)
	}
	if seqs := l.want.OldAudit.List(); len(seqs) > 0 {
		l.each(func(r pgx.Rows) error {
			e := &store.AgedAudit{}
			err := r.Scan(&e.Seq, &e.At, &e.Keep, &e.Only)
			l.rows.OldAudit[e.Seq] = e
			return err
		}, `SELECT a.seq, a.timestamp, a.seq = (SELECT max(seq) FROM audit_logs) OR a.seq > (SELECT seq FROM audit_head) OR EXISTS (SELECT FROM llm_tasks t
				WHERE t.id = CASE WHEN a.entity_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN a.entity_id::uuid END
				AND t.status IN ('queued','leased','running')),
				a.seq > (SELECT exported FROM audit_export)
			FROM audit_logs a WHERE a.seq = ANY($1::bigint[]) FOR UPDATE OF a SKIP LOCKED`, seqs)
	}
}

// isHome tells that a task's lease is the last one of its context, by which the
// context's next task finds the worker that knows it, where such a task waits or is
// under way.
const isHome = `coalesce((SELECT l.task_id FROM leases l WHERE l.context_id = t.context_id ORDER BY l.seq DESC LIMIT 1) = t.id AND (
	SELECT count(*) = $2 OR bool_or(x.status IN ('queued','leased','running'))
	FROM (SELECT o.status FROM llm_tasks o WHERE o.context_id = t.context_id ORDER BY o.seq DESC LIMIT $2) x), false)`

// doubts looks for what was not found: either it is not there, or somebody else has
// locked it.
func (l *loader) doubts() {
	r := l.rows
	busy := func(rows pgx.Rows) error {
		var id string
		err := rows.Scan(&id)
		delete(r.Tasks, id)
		delete(r.Leases, id)
		delete(r.Workers, id)
		delete(r.Active, id)
		delete(r.APIKeys, id)
		delete(r.Sessions, id)
		delete(r.Places, id)
		r.Busy.Add(id)
		return err
	}
	for context := range l.want.Ordered {
		if _, locked := r.Ordered[context]; !locked {
			r.Busy.Add(context)
		}
	}
	ask := func(missing []string, query string) {
		if missing = idsOnly(missing); len(missing) > 0 {
			l.each(busy, query, missing)
		}
	}
	ask(absent(l.want.Tasks, r.Tasks), `SELECT t.id FROM llm_tasks t WHERE t.id = ANY($1::text[]::uuid[])`)
	ask(absent(l.want.Places, r.Places), `SELECT a.id FROM runtime_artifacts a WHERE a.id = ANY($1::text[]::uuid[])`)
	ask(absent(l.want.Leases, r.Leases), `SELECT l.id FROM leases l WHERE l.id = ANY($1::text[]::uuid[])`)
	if missing := absent(l.want.Workers, r.Workers); len(missing) > 0 {
		l.each(busy, `SELECT w.id FROM workers w WHERE w.id = ANY($1::text[])`, missing)
	}
	if missing := absent(l.want.APIKeys, r.APIKeys); len(missing) > 0 {
		l.each(busy, `SELECT x.id FROM api_keys x WHERE x.id = ANY($1::text[])`, missing)
	}
	if missing := absent(l.want.Sessions, r.Sessions); len(missing) > 0 {
		l.each(busy, `SELECT x.id FROM sessions x WHERE x.id = ANY($1::text[])`, missing)
	}
	ours := func(missing []string, query string) {
		if len(missing) > 0 {
			l.each(func(rows pgx.Rows) error {
				var id, key string
				err := rows.Scan(&id, &key)
				delete(r.Contexts, id)
				delete(r.Scripts, id)
				r.Busy.Add(key)
				return err
			}, query, missing)
		}
	}
	ours(absent(l.want.Contexts, r.Contexts), `SELECT x.id, 'context:' || x.id FROM contexts x WHERE x.id = ANY($1::text[])`)
	ours(absent(l.want.Scripts, r.Scripts), `SELECT x.context_id, 'transcript:' || x.context_id FROM transcripts x WHERE x.context_id = ANY($1::text[])`)
	var held []string
	for task := range l.want.Active {
		if _, ok := r.Active[task]; !ok {
			r.Active[task] = ""
			held = append(held, task)
		}
	}
	ask(held, `SELECT l.task_id FROM leases l WHERE l.task_id = ANY($1::text[]::uuid[]) AND l.status = 'active'`)
}

// absent notes as not there what was not found.
func absent[V any](want store.Set[string], have map[string]*V) (missing []string) {
	for id := range want {
		if _, ok := have[id]; !ok {
			have[id] = nil
			missing = append(missing, id)
		}
	}
	return missing
}

// testNow is the injected clock's time, nil for the server's.
func (d *database) testNow() *int64 {
	if d.cfg.Clock == nil {
		return nil
	}
	now := bloom.Millis(d.cfg.Clock.Now())
	return &now
}
