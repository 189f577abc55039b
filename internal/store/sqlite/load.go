package sqlite

import (
	"context"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/store"
)

// Load reads what is wanted. Nothing needs a lock: this is the only transaction
// that writes.
func (t *tx) Load(_ context.Context, want *store.ReadSet, rows *store.Rows) error {
	rows.Now = t.now
	for _, load := range []func(*store.ReadSet, *store.Rows) error{
		t.loadTasks, t.loadLeases, t.loadWorkers, t.loadHeld, t.loadQueue, t.loadOrdered, t.loadRest, t.loadContexts, t.loadOld, t.loadAccess, t.loadChain,
	} {
		if err := load(want, rows); err != nil {
			return err
		}
	}
	return nil
}

// optional reads one row; nil when there is none.
func optional[T any](c *conn, scan func(row) T, query string, args ...any) (*T, error) {
	r, ok, err := c.one(query, args...)
	if err != nil || !ok {
		return nil, err
	}
	v := scan(r)
	return &v, nil
}

// each fills a map with what is read for every key.
func load[K comparable, V any](want store.Set[K], into map[K]V, read func(K) (V, error)) error {
	for k := range want {
		v, err := read(k)
		if err != nil {
			return err
		}
		into[k] = v
	}
	return nil
}

// picks are queries for 8, 4, 2 and 1 keys of a column. One query for many rows costs
// far less than many for one.
type picks [4]string

func newPicks(query, order string) (p picks) {
	for i := range p {
		p[i] = query + " IN (" + strings.Repeat("?,", 8>>i-1) + "?)" + order
	}
	return p
}

var (
	pickTasks   = newPicks(`SELECT `+taskColumns+` FROM llm_tasks t WHERE t.id`, "")
	pickWhole   = newPicks(`SELECT `+wholeColumns+` FROM llm_tasks t WHERE t.id`, "")
	pickLeases  = newPicks(`SELECT `+leaseColumns+` FROM leases l WHERE l.id`, "")
	pickWorkers = newPicks(`SELECT `+workerColumns+`, `+countHeld+` FROM workers w WHERE w.id`, "")
	pickHomes   = newPicks(`SELECT `+workerColumns+`, `+countHeld+`, x.id FROM contexts x JOIN workers w ON w.id = x.worker_id WHERE x.id`, "")
	pickHeld    = newPicks(`SELECT `+taskColumns+`, `+leaseColumns+` FROM leases l JOIN llm_tasks t ON t.id = l.task_id WHERE l.status = 'active' AND l.worker_id`, " ORDER BY l.seq")
)

// each calls fn with the rows of the keys.
func (p *picks) each(t *tx, keys []string, fn func(row) error) error {
	args := make([]any, 0, 8)
	for i, query := range p {
		for n := 8 >> i; len(keys) >= n; keys = keys[n:] {
			args = args[:0]
			for _, k := range keys[:n] {
				args = append(args, k)
			}
			if err := t.each(query, fn, args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// pick fills a map with the rows of the keys, nil where there is none.
func pick[V any](t *tx, p *picks, want store.Set[string], into map[string]*V, scan func(row) (string, V)) error {
	if len(want) == 0 {
		return nil
	}
	for k := range want {
		into[k] = nil
	}
	return p.each(t, want.List(), func(r row) error {
		k, v := scan(r)
		into[k] = &v
		return nil
	})
}

func namedTask(r row) (string, store.Task)   { k := scanTask(r); return k.ID, k }
func namedWhole(r row) (string, store.Task)  { k := scanWhole(r); return k.ID, k }
func namedLease(r row) (string, bloom.Lease) { l := scanLease(r); return l.ID, l }
func namedWorker(r row) (string, lifecycle.KnownWorker) {
	w := scanWorker(r)
	return w.ID, w
}

func (t *tx) loadTasks(want *store.ReadSet, rows *store.Rows) error {
	var plain, whole store.Set[string]
	for id := range want.Tasks {
		if _, text := want.Texts[id]; text {
			whole.Add(id)
		} else {
			plain.Add(id)
		}
	}
	if err := pick(t, &pickTasks, plain, rows.Tasks, namedTask); err != nil {
		return err
	}
	if err := pick(t, &pickWhole, whole, rows.Tasks, func(r row) (string, store.Task) {
		k := scanWhole(r)
		rows.Texts[k.ID] = store.Text{Prompt: k.Prompt, Hints: k.ContextHints}
		k.Prompt, k.ContextHints = "", nil
		return k.ID, k
	}); err != nil {
		return err
	}
	if err := pick(t, &pickWhole, want.Views, rows.Views, namedWhole); err != nil {
		return err
	}
	for id := range want.Texts {
		if _, have := rows.Texts[id]; have {
			continue
		}
		r, ok, err := t.one(`SELECT t.prompt, t.context_hints FROM llm_tasks t WHERE t.id = ?`, id)
		if err != nil {
			return err
		}
		if ok {
			rows.Texts[id] = store.Text{Prompt: r.str(0), Hints: r.list(1)}
		} else {
			rows.Texts[id] = store.Text{}
		}
	}
	return nil
}

func (t *tx) loadLeases(want *store.ReadSet, rows *store.Rows) error {
	if err := pick(t, &pickLeases, want.Leases, rows.Leases, namedLease); err != nil {
		return err
	}
	for task := range want.Active {
		l, err := optional(t.conn, scanLease, `SELECT `+leaseColumns+` FROM leases l WHERE l.task_id = ? AND l.status = 'active'`, task)
		if err != nil {
			return err
		}
		rows.Active[task] = ""
		if l != nil {
			rows.Active[task], rows.Leases[l.ID] = l.ID, l
		}
	}
	return load(want.Expired, rows.Expired, func(id string) (bool, error) {
		_, expired, err := t.one(`SELECT 1 FROM leases WHERE id = ? AND status = 'expired'`, id)
		return expired, err
	})
}

func (t *tx) loadWorkers(want *store.ReadSet, rows *store.Rows) (err error) {
	if err := pick(t, &pickWorkers, want.Workers, rows.Workers, namedWorker); err != nil {
		return err
	}
	if want.Online {
		if rows.Online, err = t.workers(`WHERE w.removed = 0 AND w.status = 'online'`); err != nil {
			return err
		}
	}
	if err := load(want.Holders, rows.Holders, func(task string) ([]string, error) {
		return collect(t.conn, func(r row) string { return r.str(0) }, `SELECT DISTINCT l.worker_id FROM leases l INDEXED BY leases_held
			WHERE l.status = 'active' AND l.context_id = (SELECT context_id FROM llm_tasks WHERE id = ?)`, task)
	}); err != nil {
		return err
	}
	return t.loadHomes(want, rows)
}

func (t *tx) loadHomes(want *store.ReadSet, rows *store.Rows) error {
	if err := pick(t, &pickHomes, want.Homes, rows.Homes, func(r row) (string, store.Home) {
		return r.str(workerWidth), store.Home{Worker: scanWorker(r)}
	}); err != nil {
		return err
	}
	for contextID := range want.Homes {
		h := rows.Homes[contextID]
		if h == nil {
			continue
		}
		waiting, err := t.number(`SELECT COUNT(*) FROM llm_tasks WHERE preferred_worker = ? AND preferred_until > ? AND status = 'queued'`, h.Worker.ID, rows.Now)
		if err != nil {
			return err
		}
		h.Waiting = int(waiting)
	}
	return nil
}

func (t *tx) loadHeld(want *store.ReadSet, rows *store.Rows) error {
	workers := make([]string, 0, len(want.Held))
	for worker := range want.Held {
		workers = append(workers, worker)
		rows.Held[worker] = []store.Holding{}
	}
	return pickHeld.each(t, workers, func(r row) error {
		k, l := scanTask(r), scanLease(r[taskWidth:])
		rows.Held[l.WorkerID] = append(rows.Held[l.WorkerID], store.Holding{Lease: l, Task: &k})
		rows.Tasks[k.ID], rows.Leases[l.ID], rows.Active[k.ID] = &k, &l, l.ID
		return nil
	})
}

// openTasks reads the best of one set of labels; what is short of their text, too.
const openTasks = `SELECT ` + taskColumns + `, CASE WHEN octet_length(t.prompt) + octet_length(t.context_hints) <= 4096 THEN t.prompt END, t.context_hints
	FROM llm_tasks t INDEXED BY llm_tasks_queue WHERE t.status = 'queued' AND t.gate = 'open' AND t.label_key = ?1
	  AND (t.preferred_worker IS NULL OR t.preferred_until <= ?2 OR t.preferred_worker IN (SELECT value FROM json_each(?3)))
	ORDER BY t.priority DESC, t.seq LIMIT +?4`

func (t *tx) loadQueue(want *store.ReadSet, rows *store.Rows) error {
	askers := ""
	if len(want.Queue) > 0 {
		askers = string(bloom.MustJSON(want.Askers.List()))
	}
	for key, most := range want.Queue {
		line := store.Line{}
		err := t.each(openTasks, func(r row) error {
			tk := scanTask(r)
			line.Tasks = append(line.Tasks, store.Place{ID: tk.ID, Seq: tk.Seq})
			rows.Tasks[tk.ID] = &tk
			if prompt := r.strp(taskWidth); prompt != nil {
				rows.Texts[tk.ID] = store.Text{Prompt: *prompt, Hints: r.list(taskWidth + 1)}
			}
			return nil
		}, key, rows.Now, askers, most)
		if err != nil {
			return err
		}
		line.Cut = len(line.Tasks) == most
		rows.Queue[key] = line
	}
	for from, most := range want.Sets {
		sets, err := t.sets(from, most)
		if err != nil {
			return err
		}
		rows.Sets[from] = sets
	}
	if want.Due {
		_, due, err := t.one(`SELECT 1 FROM llm_tasks INDEXED BY llm_tasks_delayed WHERE status = 'queued' AND gate = 'delayed' AND run_at <= ? LIMIT 1`, rows.Now)
		rows.Due = &due
		return err
	}
	return nil
}

// sets steps over the distinct sets of labels in the queue.
func (t *tx) sets(from string, most int) ([]store.LabelSet, error) {
	sets := []store.LabelSet{}
	for len(sets) < most {
		r, ok, err := t.one(`SELECT label_key, labels FROM llm_tasks INDEXED BY llm_tasks_queue
			WHERE status = 'queued' AND gate = 'open' AND label_key > ? ORDER BY label_key LIMIT 1`, from)
		if err != nil || !ok {
			return sets, err
		}
		from = r.str(0)
		sets = append(sets, store.LabelSet{Key: from, Labels: r.list(1)})
	}
	return sets, nil
}

func (t *tx) loadOrdered(want *store.ReadSet, rows *store.Rows) error {
	for context, most := range want.Ordered {
		places, err := collect(t.conn, func(r row) store.Place { return store.Place{ID: r.str(0), Seq: r.int(1), Open: r.bool(2)} },
			`SELECT id, seq, status = 'queued' AND gate <> 'ordered' FROM llm_tasks
			WHERE context_id = ? AND ordered = 1 AND status IN ('queued','leased','running') ORDER BY seq LIMIT +?`, context, most)
		if err != nil {
			return err
		}
		rows.Ordered[context] = store.Line{Tasks: places, Cut: len(places) == most}
	}
	return nil
}

func (t *tx) loadRest(want *store.ReadSet, rows *store.Rows) error {
	if err := load(want.Keys, rows.Keys, func(k store.Key) (*store.Keyed, error) {
		return optional(t.conn, func(r row) store.Keyed { return store.Keyed{TaskID: r.str(0), BodyHash: r.str(1)} },
			`SELECT id, body_hash FROM llm_tasks WHERE idempotency_scope = ? AND idempotency_key = ?`, k.Scope, k.Key)
	}); err != nil {
		return err
	}
	if err := load(want.Outcomes, rows.Outcomes, func(k store.OutcomeKey) (*store.Outcome, error) {
		return optional(t.conn, func(r row) store.Outcome {
			return store.Outcome{BodyHash: r.str(0), Result: scanResult(r[1:]), Artifact: scanArtifact(r[1+resultWidth:])}
		}, `SELECT r.body_hash, `+resultColumns+`, `+artifactColumns+` FROM llm_results r JOIN runtime_artifacts a ON a.id = r.artifact_id
			WHERE r.task_id = ? AND r.epoch = ?`, k.TaskID, k.Epoch)
	}); err != nil {
		return err
	}
	if err := load(want.Places, rows.Places, func(id string) (*store.ContentPlace, error) {
		return optional(t.conn, func(r row) store.ContentPlace { return store.ContentPlace{URL: r.strp(0)} }, `SELECT url FROM runtime_artifacts WHERE id = ?`, id)
	}); err != nil {
		return err
	}
	if err := t.loadFiles(want, rows); err != nil {
		return err
	}
	if err := load(want.Repeats, rows.Repeats, func(k store.EventKey) (bool, error) {
		_, stored, err := t.one(`SELECT 1 FROM task_events e JOIN llm_tasks t ON t.seq = e.task AND t.epoch = e.epoch WHERE t.id = ? AND e.worker_seq = ?`, k.TaskID, k.Seq)
		return stored, err
	}); err != nil || want.Numbers == 0 {
		return err
	}
	// A number is not used again while a context is listed by it.
	last, err := t.number(`SELECT MAX(COALESCE((SELECT MAX(seq) FROM llm_tasks), 0), COALESCE((SELECT MAX(seq) FROM contexts), 0))`)
	for range want.Numbers {
		rows.Numbers = append(rows.Numbers, last+int64(len(rows.Numbers))+1)
	}
	return err
}

// loadFiles reads what is known of runs' files and transcripts.
func (t *tx) loadFiles(want *store.ReadSet, rows *store.Rows) error {
	if err := load(want.Files, rows.Files, func(k store.FileKey) (*bloom.Artifact, error) {
		return optional(t.conn, scanArtifact, `SELECT `+artifactColumns+` FROM runtime_artifacts a WHERE a.task_id = ? AND a.epoch = ? AND a.path = ?`, k.TaskID, k.Epoch, k.Path)
	}); err != nil {
		return err
	}
	if err := load(want.FileCounts, rows.FileCounts, func(k store.OutcomeKey) (int64, error) {
		return t.number(`SELECT COUNT(*) FROM runtime_artifacts WHERE task_id = ? AND epoch = ? AND path IS NOT NULL`, k.TaskID, k.Epoch)
	}); err != nil {
		return err
	}
	return load(want.Kept, rows.Kept, func(id string) (int64, error) {
		return t.number(`SELECT COALESCE((SELECT r.upto FROM run_transcripts r JOIN llm_tasks t ON t.seq = r.task WHERE t.id = ?), 0)`, id)
	})
}

func (t *tx) loadOld(want *store.ReadSet, rows *store.Rows) error {
	if err := load(want.Old, rows.Old, t.aged); err != nil {
		return err
	}
	return load(want.OldAudit, rows.OldAudit, func(seq int64) (*store.AgedAudit, error) {
		return optional(t.conn, func(r row) store.AgedAudit {
			return store.AgedAudit{Seq: r.int(0), At: r.int(1), Keep: r.bool(2), Only: r.bool(3)}
		},
			`SELECT a.seq, a.timestamp, a.seq = (SELECT MAX(seq) FROM audit_logs) OR a.seq > (SELECT seq FROM audit_head)
				OR EXISTS (SELECT 1 FROM llm_tasks t WHERE t.id = a.entity_id AND t.status IN ('queued','leased','running')),
				a.seq > (SELECT exported FROM audit_export)
			FROM audit_logs a WHERE a.seq = ?`, seq)
	})
}

// aged reads a task that may go, and how much belongs to it.
func (t *tx) aged(id string) (*store.Aged, error) {
	r, ok, err := t.one(`SELECT `+agedColumns+`,
			(SELECT MIN(e.seq) FROM task_events e WHERE e.task = t.seq), (SELECT MAX(e.seq) FROM task_events e WHERE e.task = t.seq),
			(SELECT COUNT(*) FROM leases l WHERE l.task_id = t.id AND l.status <> 'active'),
			(SELECT COUNT(*) FROM llm_results x WHERE x.task_id = t.id),
			(SELECT COUNT(*) FROM runtime_artifacts x WHERE x.task_id = t.id),
			(SELECT COUNT(x.url) FROM runtime_artifacts x WHERE x.task_id = t.id),
			COALESCE((SELECT r.upto FROM run_transcripts r WHERE r.task = t.seq), 0)
		FROM llm_tasks t WHERE t.id = ?`, id)
	if err != nil || !ok {
		return nil, err
	}
	e := scanAged(r)
	e.First, e.Last, e.Leases, e.Results, e.Artifacts, e.Content, e.Kept = r.int(6), r.int(7), r.int(8), r.int(9), r.int(10), r.int(11), r.int(12)
	e.Home, err = t.isHome(e)
	return &e, err
}

// isHome reports that the task's lease is the last one of its context, by which
// the context's next task finds the worker that knows it, and that such a task
// waits or is under way.
func (t *tx) isHome(e store.Aged) (bool, error) {
	r, ok, err := t.one(`SELECT task_id FROM leases INDEXED BY leases_context WHERE context_id = ? ORDER BY seq DESC LIMIT 1`, e.ContextID)
	if err != nil || !ok || r.str(0) != e.ID {
		return false, err
	}
	states, err := collect(t.conn, func(r row) bloom.TaskStatus { return bloom.TaskStatus(r.str(0)) },
		`SELECT status FROM llm_tasks INDEXED BY llm_tasks_context WHERE context_id = ? ORDER BY seq DESC LIMIT +?`, e.ContextID, bloom.HomeWindow)
	lives := slices.ContainsFunc(states, func(s bloom.TaskStatus) bool { return !s.Terminal() })
	return lives || len(states) == bloom.HomeWindow, err
}
