package sqldb

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/store"
)

// Batch is the statements of a Load. They may run at once or later, but in this order.
type Batch interface {
	// Each has take called with every row.
	Each(take func(Row) error, query string, args ...any)
	// Pick has take called with every row of a query without parameters whose column,
	// of a type, is one of the keys; more ends the query.
	Pick(take func(Row) error, query, column, kind string, keys []string, more string)
}

// Load is what one Load of a transaction reads in the same way on both databases. A
// database calls its parts in the order in which it locks.
type Load struct {
	*Dialect
	Batch
	Want *store.ReadSet
	Rows *store.Rows
	Now  any // for Dialect.Now
}

// scan reads rows of one shape.
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

// Tasks reads tasks under their locks, and texts: of a task of which both are wanted at
// once. When that is in use, its text is asked for again.
func (l *Load) Tasks() {
	var states, whole, texts []string
	for id := range l.Want.Tasks {
		if _, text := l.Want.Texts[id]; text {
			whole = append(whole, id)
		} else {
			states = append(states, id)
		}
	}
	l.Pick(scan(TaskFields, func(t *store.Task) { l.Rows.Tasks[t.ID] = t }),
		`SELECT `+l.TaskColumns()+` FROM llm_tasks t`, "t.id", "uuid", IDs(states), l.lock("t"))
	l.Pick(scan(WholeFields, func(t *store.Task) {
		l.Rows.Tasks[t.ID], l.Rows.Texts[t.ID] = t, store.Text{Prompt: t.Prompt, Hints: t.ContextHints}
	}), `SELECT `+l.WholeColumns()+` FROM llm_tasks t`, "t.id", "uuid", IDs(whole), l.lock("t"))
	for id := range l.Want.Views {
		l.Rows.Views[id] = nil
	}
	l.Pick(scan(WholeFields, func(t *store.Task) { l.Rows.Views[t.ID] = t }),
		`SELECT `+l.WholeColumns()+` FROM llm_tasks t`, "t.id", "uuid", IDs(l.Want.Views.List()), "")
	for id := range l.Want.Texts {
		_, have := l.Rows.Texts[id]
		if _, state := l.Want.Tasks[id]; !have && !state {
			l.Rows.Texts[id] = store.Text{Hints: []string{}}
			texts = append(texts, id)
		}
	}
	l.Pick(scan(func(t *keyed[store.Text]) []any { return []any{&t.key, &t.value.Prompt, (*List)(&t.value.Hints)} },
		func(t *keyed[store.Text]) { l.Rows.Texts[t.key] = t.value }),
		`SELECT t.id, t.prompt, t.context_hints FROM llm_tasks t`, "t.id", "uuid", IDs(texts), "")
}

// locked takes a lease that is locked with its task.
func (l *Load) locked(is *bloom.Lease) {
	l.Rows.Leases[is.ID] = is
	if is.Status == bloom.LeaseActive {
		l.Rows.Active[is.TaskID] = is.ID
	}
}

// Leases reads leases under their locks.
func (l *Load) Leases() {
	const query = `SELECT ` + leaseColumns + ` FROM leases l`
	l.Pick(scan(leaseFields, l.locked), query, "l.id", "uuid", IDs(l.Want.Leases.List()), l.lock("l"))
	l.Pick(scan(leaseFields, l.locked), query, "l.task_id", "uuid", IDs(l.Want.Active.List()), " AND l.status = 'active'"+l.lock("l"))
	for id := range l.Want.Expired {
		l.Rows.Expired[id] = false
	}
	l.Pick(scan(Self[string], func(id *string) { l.Rows.Expired[*id] = true }),
		`SELECT l.id FROM leases l`, "l.id", "uuid", IDs(l.Want.Expired.List()), " AND l.status = 'expired'")
}

// Held locks what can be locked of what workers hold, then reads all of it.
func (l *Load) Held() {
	var all, renewing []string
	for worker, lock := range l.Want.Held {
		all = append(all, worker)
		l.Rows.Held[worker] = nil
		if lock {
			renewing = append(renewing, worker)
		}
	}
	query := `SELECT ` + leaseColumns + `, ` + l.TaskColumns() + ` FROM leases l JOIN llm_tasks t ON t.id = l.task_id`
	fields := func(h *store.Holding) []any {
		h.Task = &store.Task{}
		return append(leaseFields(&h.Lease), TaskFields(h.Task)...)
	}
	locked := func(h *store.Holding) {
		l.locked(&h.Lease)
		l.Rows.Tasks[h.Task.ID] = h.Task
	}
	if lock := l.lock("l, t"); lock != "" {
		l.Pick(scan(fields, locked), query, "l.worker_id", "text", renewing, " AND l.status = 'active'"+lock)
		locked = func(*store.Holding) {}
	}
	l.Pick(scan(fields, func(h *store.Holding) {
		locked(h)
		l.Rows.Held[h.Lease.WorkerID] = append(l.Rows.Held[h.Lease.WorkerID], *h)
		l.count(h.Lease.WorkerID, len(l.Rows.Held[h.Lease.WorkerID]))
	}), query, "l.worker_id", "text", all, " AND l.status = 'active' ORDER BY l.seq")
}

// count notes how many leases a locked worker holds.
func (l *Load) count(worker string, leases int) {
	if w := l.Rows.Workers[worker]; w != nil {
		w.ActiveLeases = leases
	}
}

// Workers reads workers under their locks and then how many leases they hold, which Held
// counts of those that it reads; and all that are online.
func (l *Load) Workers() {
	names := l.Want.Workers.List()
	l.Pick(scan(workerFields, func(w *lifecycle.KnownWorker) { l.Rows.Workers[w.ID] = w }),
		`SELECT `+workerColumns+`, 0 FROM workers w`, "w.id", "text", names, l.lock("w"))
	counted := slices.DeleteFunc(l.Want.Workers.List(), func(name string) bool { _, held := l.Want.Held[name]; return held })
	l.Pick(scan(keyedFields[int], func(n *keyed[int]) { l.count(n.key, n.value) }), `SELECT l.worker_id, count(*) FROM leases l`, "l.worker_id", "text",
		counted, " AND l.status = 'active' GROUP BY l.worker_id")
	if l.Want.Online {
		l.Rows.Online = []bloom.Worker{}
		l.Each(scan(workerFields, func(w *lifecycle.KnownWorker) { l.Rows.Online = append(l.Rows.Online, w.Worker) }),
			`SELECT `+workerColumns+heldColumn+` FROM workers w WHERE NOT w.removed AND w.status = 'online'`)
	}
}

// Context reads who knows a context and who holds it.
func (l *Load) Context() {
	for context := range l.Want.Homes {
		l.Rows.Homes[context] = nil
	}
	if len(l.Want.Homes) > 0 {
		l.Each(scan(func(h *keyed[store.Home]) []any {
			return append(append([]any{&h.key}, workerFields(&h.value.Worker)...), &h.value.Waiting)
		}, func(h *keyed[store.Home]) { l.Rows.Homes[h.key] = &h.value }),
			`SELECT x.id, `+workerColumns+heldColumn+`, (SELECT count(*) FROM llm_tasks p WHERE p.preferred_worker = w.id AND p.preferred_until > `+l.Dialect.Now+`) FROM contexts x JOIN workers w ON w.id = x.worker_id WHERE `+l.In("x.id", 2, "text"), l.Now, l.Array(l.Want.Homes.List()))
	}
	for id := range l.Want.Knowing {
		l.Rows.Knowing[id] = lifecycle.ContextWorkers{}
	}
	ids := IDs(l.Want.Knowing.List())
	knowing := func(note func(c *lifecycle.ContextWorkers, worker string)) func(Row) error {
		return scan(keyedFields[string], func(w *keyed[string]) {
			c := l.Rows.Knowing[w.key]
			note(&c, w.value)
			l.Rows.Knowing[w.key] = c
		})
	}
	l.Pick(knowing(func(c *lifecycle.ContextWorkers, worker string) { c.Holding = append(c.Holding, worker) }),
		`SELECT DISTINCT t.id, l.worker_id FROM llm_tasks t JOIN leases l`+l.Via("leases_held")+` ON l.context_id = t.context_id AND l.status = 'active'`,
		"t.id", "uuid", ids, "")
	l.Pick(knowing(func(c *lifecycle.ContextWorkers, worker string) { c.Last = worker }),
		`SELECT t.id, x.worker_id FROM llm_tasks t JOIN contexts x ON x.id = t.context_id`, "t.id", "uuid", ids, " AND x.worker_id IS NOT NULL")
}

// OpenColumns are those of an open task after its label key: what is short of its text is
// read, too. hints is the size of its hints.
func (d *Dialect) OpenColumns(hints string) string {
	return d.TaskColumns() + fmt.Sprintf(`, CASE WHEN octet_length(t.prompt) + %[1]s <= 4096 THEN t.prompt END,
		CASE WHEN octet_length(t.prompt) + %[1]s <= 4096 THEN t.context_hints END`, hints)
}

// TakeOpen takes an open task: its label key and OpenColumns.
func (l *Load) TakeOpen(r Row) error {
	var key string
	var prompt *string
	var hints List
	t := &store.Task{}
	if err := r.Scan(append(append([]any{&key}, TaskFields(t)...), &prompt, &hints)...); err != nil {
		return err
	}
	line := l.Rows.Queue[key]
	line.Tasks = append(line.Tasks, store.Place{ID: t.ID, Seq: t.Seq})
	line.Cut = len(line.Tasks) == l.Want.Queue[key]
	l.Rows.Queue[key] = line
	if _, have := l.Rows.Tasks[t.ID]; !have {
		l.Rows.Tasks[t.ID] = t
	}
	if prompt != nil {
		l.Rows.Texts[t.ID] = store.Text{Prompt: *prompt, Hints: hints}
	}
	return nil
}

// sets steps over the distinct sets of labels in the queue's index, after a first one that
// meets a condition, and says of each what a query says.
func (d *Dialect) sets(first, most, query string) string {
	open := ` FROM llm_tasks q` + d.Via("llm_tasks_queue") + ` WHERE q.gate = 'open'`
	return `WITH RECURSIVE s (label_key, n) AS (
			SELECT (SELECT q.label_key` + open + first + ` ORDER BY q.label_key LIMIT 1), 1
			UNION ALL
			SELECT (SELECT q.label_key` + open + ` AND q.label_key > s.label_key ORDER BY q.label_key LIMIT 1), s.n + 1
			FROM s WHERE s.label_key IS NOT NULL AND s.n < ` + most + `)
		SELECT ` + strings.ReplaceAll(query, "OPEN", open+` AND q.label_key = s.label_key`) + ` FROM s WHERE s.label_key IS NOT NULL ORDER BY s.n`
}

// Queue reads which sets of labels are in the queue, and whether delayed tasks are due.
func (l *Load) Queue() {
	for from, most := range l.Want.Sets {
		l.Rows.Sets[from] = []store.LabelSet{}
		l.Each(scan(func(s *store.LabelSet) []any { return []any{&s.Key, (*List)(&s.Labels)} },
			func(s *store.LabelSet) { l.Rows.Sets[from] = append(l.Rows.Sets[from], *s) }),
			l.sets(` AND q.label_key > $1`, "$2", `s.label_key, (SELECT q.labels OPEN LIMIT 1)`), from, most)
	}
	if l.Want.Due {
		l.Each(scan(Self[bool], func(due *bool) { l.Rows.Due = due }), `SELECT EXISTS (SELECT 1 FROM llm_tasks t`+l.Via("llm_tasks_delayed")+
			` WHERE t.gate = 'delayed' AND t.run_at <= `+l.Dialect.Now+`)`, l.Now)
	}
}

// Contexts comes after the tasks: who has locked an older task sees whether it was
// taken in before.
func (l *Load) Contexts() {
	if l.Want.Filled {
		l.Each(scan(Self[int64], func(below *int64) { l.Rows.Filled = below }), `SELECT below FROM context_fill`)
	}
	l.Pick(scan(contextFields, func(x *bloom.Context) { l.Rows.Contexts[x.ID] = x }),
		`SELECT `+contextColumns+` FROM contexts x`, "x.id", "text", l.Want.Contexts.List(), l.lock("x"))
	l.Pick(scan(transcriptFields, func(t *bloom.ContextTranscript) { l.Rows.Scripts[t.ContextID] = &t.Transcript }),
		`SELECT `+transcriptColumns+` FROM transcripts x`, "x.context_id", "text", l.Want.Scripts.List(), l.lock("x"))
	for id := range l.Want.Spent {
		l.Rows.Spent[id] = store.Spent{}
	}
	l.Pick(scan(func(s *keyed[store.Spent]) []any { return []any{&s.key, &s.value.Tokens, &s.value.CostNano} },
		func(s *keyed[store.Spent]) { l.Rows.Spent[s.key] = s.value }),
		`SELECT r.task_id, CAST(sum(`+l.Tokens+`) AS BIGINT), CAST(sum(`+l.Cost+`) AS BIGINT) FROM llm_results r`, "r.task_id", "uuid",
		IDs(l.Want.Spent.List()), " GROUP BY r.task_id")
}

// Access reads keys and sessions under their locks.
func (l *Load) Access() {
	l.Pick(scan(keyFields, func(k *bloom.StoredKey) { l.Rows.APIKeys[k.ID] = k }),
		`SELECT `+keyColumns+` FROM api_keys x`, "x.id", "text", l.Want.APIKeys.List(), l.lock("x"))
	l.Pick(scan(sessionFields, func(s *bloom.StoredSession) { l.Rows.Sessions[s.ID] = s }),
		`SELECT `+sessionColumns+` FROM sessions x`, "x.id", "text", l.Want.Sessions.List(), l.lock("x"))
}
