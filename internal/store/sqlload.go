package store

import (
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
)

// Batch collects the statements of a Load. It may run them at once or later, but in
// this order.
type Batch interface {
	// Each calls take with every row.
	Each(take func(Row) error, query string, args ...any)
	// Pick calls take with every row whose column, which is of type kind, is one of the
	// keys. The query has no parameters; tail is appended to it.
	Pick(take func(Row) error, query, column, kind string, keys []string, tail string)
}

// Load is the part of a transaction's Load that is the same for both databases. The
// database calls its methods in the order in which it locks.
type Load struct {
	*Dialect
	Batch
	ReadSet *ReadSet
	Rows    *Rows
	Now     any // for Dialect.Now
}

// scan returns a function that scans a row into fields and passes the value to take.
func scan[T any](fields func(*T) []any, take func(*T)) func(Row) error {
	return func(r Row) error {
		v := new(T)
		if err := r.Scan(fields(v)...); err != nil {
			return err
		}
		take(v)
		return nil
	}
}

// keyed is a value and its key.
type keyed[V any] struct {
	key   string
	value V
}

func keyedFields[V any](k *keyed[V]) []any { return []any{&k.key, &k.value} }

// Tasks reads locked tasks, and texts. A task of which both are asked for is read
// once; if it turns out to be locked by others, its text is asked for again.
func (l *Load) Tasks() {
	var states, whole, texts []string
	for id := range l.ReadSet.Tasks {
		if _, text := l.ReadSet.Texts[id]; text {
			whole = append(whole, id)
		} else {
			states = append(states, id)
		}
	}
	l.Pick(scan(TaskFields, func(t *Task) { l.Rows.Tasks[t.ID] = t }),
		`SELECT `+l.TaskColumns()+` FROM llm_tasks t`, "t.id", "uuid", IDs(states), l.lock("t"))
	l.Pick(scan(WholeFields, func(t *Task) {
		l.Rows.Tasks[t.ID], l.Rows.Texts[t.ID] = t, Text{Prompt: t.Prompt, Hints: t.ContextHints}
	}), `SELECT `+l.WholeColumns()+` FROM llm_tasks t`, "t.id", "uuid", IDs(whole), l.lock("t"))
	for id := range l.ReadSet.Views {
		l.Rows.Views[id] = nil
	}
	l.Pick(scan(WholeFields, func(t *Task) { l.Rows.Views[t.ID] = t }),
		`SELECT `+l.WholeColumns()+` FROM llm_tasks t`, "t.id", "uuid", IDs(l.ReadSet.Views.List()), "")
	for id := range l.ReadSet.Texts {
		_, have := l.Rows.Texts[id]
		if _, state := l.ReadSet.Tasks[id]; !have && !state {
			l.Rows.Texts[id] = Text{Hints: []string{}}
			texts = append(texts, id)
		}
	}
	l.Pick(scan(func(t *keyed[Text]) []any { return []any{&t.key, &t.value.Prompt, (*List)(&t.value.Hints)} },
		func(t *keyed[Text]) { l.Rows.Texts[t.key] = t.value }),
		`SELECT t.id, t.prompt, t.context_hints FROM llm_tasks t`, "t.id", "uuid", IDs(texts), "")
}

// locked adds a lease that is locked with its task.
func (l *Load) locked(is *bloom.Lease) {
	l.Rows.Leases[is.ID] = is
	if is.Status == bloom.LeaseActive {
		l.Rows.Active[is.TaskID] = is.ID
	}
}

// Leases reads locked leases, and which leases have expired.
func (l *Load) Leases() {
	const query = `SELECT ` + leaseColumns + ` FROM leases l`
	l.Pick(scan(leaseFields, l.locked), query, "l.id", "uuid", IDs(l.ReadSet.Leases.List()), l.lock("l"))
	l.Pick(scan(leaseFields, l.locked), query, "l.task_id", "uuid", IDs(l.ReadSet.Active.List()), " AND l.status = 'active'"+l.lock("l"))
	for id := range l.ReadSet.Expired {
		l.Rows.Expired[id] = false
	}
	l.Pick(scan(Self[string], func(id *string) { l.Rows.Expired[*id] = true }),
		`SELECT l.id FROM leases l`, "l.id", "uuid", IDs(l.ReadSet.Expired.List()), " AND l.status = 'expired'")
}

// Held locks the active leases of workers that can be locked, then reads all of them.
func (l *Load) Held() {
	var workers, renewing []string
	for worker, lock := range l.ReadSet.Held {
		workers = append(workers, worker)
		l.Rows.Held[worker] = nil
		if lock {
			renewing = append(renewing, worker)
		}
	}
	query := `SELECT ` + leaseColumns + `, ` + l.TaskColumns() + ` FROM leases l JOIN llm_tasks t ON t.id = l.task_id`
	fields := func(h *Holding) []any {
		h.Task = &Task{}
		return append(leaseFields(&h.Lease), TaskFields(h.Task)...)
	}
	locked := func(h *Holding) {
		l.locked(&h.Lease)
		l.Rows.Tasks[h.Task.ID] = h.Task
	}
	if lock := l.lock("l, t"); lock != "" {
		l.Pick(scan(fields, locked), query, "l.worker_id", "text", renewing, " AND l.status = 'active'"+lock)
		locked = func(*Holding) {}
	}
	l.Pick(scan(fields, func(h *Holding) {
		locked(h)
		l.Rows.Held[h.Lease.WorkerID] = append(l.Rows.Held[h.Lease.WorkerID], *h)
		l.count(h.Lease.WorkerID, len(l.Rows.Held[h.Lease.WorkerID]))
	}), query, "l.worker_id", "text", workers, " AND l.status = 'active' ORDER BY l.seq")
}

// count sets how many leases a locked worker holds.
func (l *Load) count(worker string, leases int) {
	if w := l.Rows.Workers[worker]; w != nil {
		w.ActiveLeases = leases
	}
}

// Workers reads locked workers with the number of their leases, and all workers that are
// online. Held counts the leases that it reads.
func (l *Load) Workers() {
	names := l.ReadSet.Workers.List()
	l.Pick(scan(workerFields, func(w *lifecycle.KnownWorker) { l.Rows.Workers[w.ID] = w }),
		`SELECT `+workerColumns+`, 0 FROM workers w`, "w.id", "text", names, l.lock("w"))
	counted := slices.DeleteFunc(l.ReadSet.Workers.List(), func(name string) bool { _, held := l.ReadSet.Held[name]; return held })
	l.Pick(scan(keyedFields[int], func(n *keyed[int]) { l.count(n.key, n.value) }), `SELECT l.worker_id, count(*) FROM leases l`, "l.worker_id", "text",
		counted, " AND l.status = 'active' GROUP BY l.worker_id")
	if l.ReadSet.Online {
		l.Rows.Online = []bloom.Worker{}
		l.Each(scan(candidateFields, func(w *bloom.Worker) { l.Rows.Online = append(l.Rows.Online, *w) }),
			`SELECT `+candidateColumns+heldColumn+` FROM `+l.present()+` AND w.status = 'online'`)
	}
}

// Context reads the workers that last held contexts, and those that hold them.
func (l *Load) Context() {
	for context := range l.ReadSet.Homes {
		l.Rows.Homes[context] = nil
	}
	if len(l.ReadSet.Homes) > 0 {
		l.Each(scan(func(h *keyed[Home]) []any {
			return append(append([]any{&h.key}, workerFields(&h.value.Worker)...), &h.value.Waiting)
		}, func(h *keyed[Home]) { l.Rows.Homes[h.key] = &h.value }),
			`SELECT x.id, `+workerColumns+heldColumn+`, (SELECT count(*) FROM llm_tasks p WHERE p.preferred_worker = w.id AND p.preferred_until > `+l.Dialect.Now+`) FROM contexts x JOIN workers w ON w.id = x.worker_id WHERE `+l.In("x.id", 2, "text"), l.Now, l.Array(l.ReadSet.Homes.List()))
	}
	for id := range l.ReadSet.ContextWorkers {
		l.Rows.ContextWorkers[id] = lifecycle.ContextWorkers{}
	}
	ids := IDs(l.ReadSet.ContextWorkers.List())
	take := func(set func(c *lifecycle.ContextWorkers, worker string)) func(Row) error {
		return scan(keyedFields[string], func(w *keyed[string]) {
			c := l.Rows.ContextWorkers[w.key]
			set(&c, w.value)
			l.Rows.ContextWorkers[w.key] = c
		})
	}
	l.Pick(take(func(c *lifecycle.ContextWorkers, worker string) { c.Holding = append(c.Holding, worker) }),
		`SELECT DISTINCT t.id, l.worker_id FROM llm_tasks t JOIN leases l`+l.Via("leases_held")+` ON l.context_id = t.context_id AND l.status = 'active'`,
		"t.id", "uuid", ids, "")
	l.Pick(take(func(c *lifecycle.ContextWorkers, worker string) { c.Last = worker }),
		`SELECT t.id, x.worker_id FROM llm_tasks t JOIN contexts x ON x.id = t.context_id`, "t.id", "uuid", ids, " AND x.worker_id IS NOT NULL")
}

// Contexts reads contexts and transcripts. It runs after Tasks: who has locked an
// older task then sees whether it was backfilled.
func (l *Load) Contexts() {
	if l.ReadSet.Filled {
		l.Each(scan(Self[int64], func(below *int64) { l.Rows.Filled = below }), `SELECT below FROM context_fill`)
	}
	l.Pick(scan(contextFields, func(x *bloom.Context) { l.Rows.Contexts[x.ID] = x }),
		`SELECT `+contextColumns+` FROM contexts x`, "x.id", "text", l.ReadSet.Contexts.List(), l.lock("x"))
	l.Pick(scan(transcriptFields, func(t *bloom.ContextTranscript) { l.Rows.Transcripts[t.ContextID] = &t.Transcript }),
		`SELECT `+transcriptColumns+` FROM transcripts x`, "x.context_id", "text", l.ReadSet.Transcripts.List(), l.lock("x"))
	for id := range l.ReadSet.Spent {
		l.Rows.Spent[id] = Spent{}
	}
	l.Pick(scan(func(s *keyed[Spent]) []any { return []any{&s.key, &s.value.Tokens, &s.value.CostNano} },
		func(s *keyed[Spent]) { l.Rows.Spent[s.key] = s.value }),
		`SELECT r.task_id, CAST(sum(`+l.Tokens+`) AS BIGINT), CAST(sum(`+l.Cost+`) AS BIGINT) FROM llm_results r`, "r.task_id", "uuid",
		IDs(l.ReadSet.Spent.List()), " GROUP BY r.task_id")
}

// Access reads locked keys and sessions.
func (l *Load) Access() {
	l.Pick(scan(keyFields, func(k *bloom.StoredKey) { l.Rows.APIKeys[k.ID] = k }),
		`SELECT `+keyColumns+` FROM api_keys x`, "x.id", "text", l.ReadSet.APIKeys.List(), l.lock("x"))
	l.Pick(scan(sessionFields, func(s *bloom.StoredSession) { l.Rows.Sessions[s.ID] = s }),
		`SELECT `+sessionColumns+` FROM sessions x`, "x.id", "text", l.ReadSet.Sessions.List(), l.lock("x"))
}
