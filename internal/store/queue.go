package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var (
	ordered   = derived[string, Line]()       // the first pending ordered tasks of contexts, which are locked
	open      = derived[string, Line]()       // the first open tasks by label key; locked, skipping those that others have locked
	claimers  = derived[string, struct{}]()   // the workers for which open is read: tasks reserved for another worker are excluded
	labelSets = derived[string, []LabelSet]() // label sets of the queue after a label key
	due       = derived[struct{}, bool]()     // whether delayed tasks are due
	homes     = derived[string, *Home]()      // contexts: the worker that last held them
)

// Line is the beginning of an ordered list of tasks.
type Line struct {
	Tasks []Place
	Cut   bool // there may be more
}

// Place is a task in a Line.
type Place struct {
	ID   string
	Seq  int64
	Open bool // queued, and its gate is not GateOrdered
}

// LabelSet is a set of labels that open tasks require.
type LabelSet struct {
	Key    string
	Labels []string
}

// Home is the worker that last held a context.
type Home struct {
	Worker  lifecycle.KnownWorker
	Waiting int // open tasks reserved for it
}

// FirstOrdered is the first pending ordered task of a context. Closed: its gate is closed.
type FirstOrdered struct {
	Context, ID string
	Closed      bool
}

// OpenColumns are the columns of an open task after its label key, with its texts if
// they are short. hints is an expression for the size of its hints.
func (d *Dialect) OpenColumns(hints string) string {
	return d.TaskColumns() + fmt.Sprintf(`, CASE WHEN octet_length(t.prompt) + %[1]s <= 4096 THEN t.prompt END,
		CASE WHEN octet_length(t.prompt) + %[1]s <= 4096 THEN t.context_hints END`, hints)
}

// TakeOpen adds an open task, a row of its label key and OpenColumns.
func (l *Load) TakeOpen(r Row) error {
	var key string
	var prompt *string
	var hints List
	t := &Task{}
	if err := r.Scan(append(append([]any{&key}, taskFields(t)...), &prompt, &hints)...); err != nil {
		return err
	}
	lines := open.of(l.Rows)
	line, _ := lines.Get(key)
	line.Tasks = append(line.Tasks, Place{ID: t.ID, Seq: t.Seq})
	line.Cut = len(line.Tasks) == lines.Want[key]
	lines.Set(key, line)
	if _, have := tasks.of(l.Rows).Get(t.ID); !have {
		tasks.of(l.Rows).Set(t.ID, t)
	}
	if prompt != nil {
		texts.of(l.Rows).Set(t.ID, Text{Prompt: *prompt, Hints: hints})
	}
	return nil
}

// sets returns a query that steps over the distinct label sets in the queue's index
// and selects query for each. first is a condition on the first one.
func (d *Dialect) sets(first, most, query string) string {
	open := ` FROM llm_tasks q` + d.Via("llm_tasks_queue") + ` WHERE q.gate = 'open'`
	return `WITH RECURSIVE s (label_key, n) AS (
			SELECT (SELECT q.label_key` + open + first + ` ORDER BY q.label_key LIMIT 1), 1
			UNION ALL
			SELECT (SELECT q.label_key` + open + ` AND q.label_key > s.label_key ORDER BY q.label_key LIMIT 1), s.n + 1
			FROM s WHERE s.label_key IS NOT NULL AND s.n < ` + most + `)
		SELECT ` + strings.ReplaceAll(query, "OPEN", open+` AND q.label_key = s.label_key`) + ` FROM s WHERE s.label_key IS NOT NULL ORDER BY s.n`
}

func loadLabelSets(l *Load, v *Values[string, []LabelSet]) {
	for from, most := range v.Want {
		l.Each(scan(func(s *LabelSet) []any { return []any{&s.Key, (*List)(&s.Labels)} }, func(s *LabelSet) {
			all, _ := v.Get(from)
			v.Set(from, append(all, *s))
		}), l.sets(` AND q.label_key > $1`, "$2", `s.label_key, (SELECT q.labels OPEN LIMIT 1)`), from, most)
	}
}

func loadDue(l *Load, v *Values[struct{}, bool]) {
	l.Each(scan(Self[bool], func(is *bool) { v.Set(one, *is) }), `SELECT EXISTS (SELECT 1 FROM llm_tasks t`+l.Via("llm_tasks_delayed")+
		` WHERE t.gate = 'delayed' AND t.run_at <= `+l.Dialect.Now+`)`, l.Now)
}

func loadHomes(l *Load, v *Values[string, *Home]) {
	l.Each(scan(func(h *keyed[Home]) []any {
		return append(append([]any{&h.key}, workerFields(&h.value.Worker)...), &h.value.Waiting)
	}, func(h *keyed[Home]) { v.Set(h.key, &h.value) }),
		`SELECT x.id, `+workerColumns+heldColumn+`, (SELECT count(*) FROM llm_tasks p WHERE p.preferred_worker = w.id AND p.preferred_until > `+l.Dialect.Now+`)
			FROM contexts x JOIN workers w ON w.id = x.worker_id WHERE `+l.In("x.id", 2, "text"), l.Now, l.Array(v.Keys()))
}

// enqueue decides behind which gate a newly queued task waits and which worker it
// prefers. before is its previous status, "" for a new task.
func (u *Unit) enqueue(t *Task, before bloom.TaskStatus) error {
	blocked := false
	if t.Policy.Ordered {
		var err error
		if blocked, err = u.blocked(t); err != nil {
			return err
		}
	}
	if err := u.open(t, lifecycle.OrderGate(t.TaskState, blocked, u.Now)); err != nil {
		return err
	}
	if t.Policy.Ordered && before.Terminal() {
		return u.closeLater(t)
	}
	return nil
}

// open sets the gate of a queued task. An open task is reserved for a moment for the
// worker that last held its context, if that has room. Tasks already reserved for the
// worker count against its room, so other workers skip a bounded number of tasks.
func (u *Unit) open(t *Task, gate contract.Gate) error {
	tasks.put(u, t.ID, t)
	t.Gate, t.Preferred, t.Until = gate, nil, 0
	if gate != contract.GateOpen {
		return nil
	}
	home, err := homes.get(u, t.ContextID)
	if err != nil || home == nil {
		return err
	}
	w := home.Worker
	if now, ok := workers.seen(u, w.ID); ok {
		w = *now
	}
	w.ActiveLeases = home.Worker.ActiveLeases + u.load[w.ID]
	if w.Removed || !w.CanTake(t.Labels) || home.Waiting+u.waiting[w.ID] >= w.Free() {
		return nil
	}
	u.waiting[w.ID]++
	t.Preferred, t.Until = &w.ID, u.Now+contract.StickyGrace.Milliseconds()
	return nil
}

// firstOrdered is how many pending tasks of a context the first read includes.
const firstOrdered = 16

// orderedTasks returns the pending ordered tasks of a context, the earliest first. The
// context is locked.
func (u *Unit) orderedTasks(contextID string) ([]Place, error) {
	read, err := ordered.getUpTo(u, contextID, firstOrdered)
	if err != nil {
		return nil, err
	}
	waiting := make([]Place, 0, len(read.Tasks))
	for _, p := range read.Tasks {
		if t, ok := tasks.seen(u, p.ID); ok {
			if t.Status.Terminal() {
				continue
			}
			p.Open = t.Status == bloom.TaskQueued && t.Gate != contract.GateOrdered
		}
		waiting = append(waiting, p)
	}
	if read.Cut && len(waiting) < 2 {
		ordered.wantUpTo(u.rows, contextID, 2*len(read.Tasks))
		return nil, u.stop(lacksRows)
	}
	return waiting, nil
}

// blocked reports whether an earlier ordered task of the context has not ended.
func (u *Unit) blocked(t *Task) (bool, error) {
	waiting, err := u.orderedTasks(t.ContextID)
	if err != nil {
		return false, err
	}
	if len(waiting) > 0 && waiting[0].Seq < t.Seq {
		return true, nil
	}
	// Tasks created or requeued by this transaction were not read.
	for o := range tasks.changes(&u.c) {
		if o.Policy.Ordered && o.ContextID == t.ContextID && o.Seq < t.Seq && !o.Status.Terminal() {
			return true, nil
		}
	}
	return false, nil
}

// openNext opens the gate of the next ordered task, in the transaction that ends its
// predecessor.
func (u *Unit) openNext(contextID string) error {
	waiting, err := u.orderedTasks(contextID)
	if err != nil {
		return err
	}
	next := Place{}
	if len(waiting) > 0 {
		next = waiting[0]
	}
	for o := range tasks.changes(&u.c) {
		if o.Policy.Ordered && o.ContextID == contextID && !o.Status.Terminal() && (next.ID == "" || o.Seq < next.Seq) {
			next = Place{ID: o.ID, Seq: o.Seq}
		}
	}
	if next.ID == "" || u.op.skipNext {
		return nil
	}
	t, err := u.task(next.ID)
	if err != nil || t.Gate != contract.GateOrdered {
		return err
	}
	u.op.openedNext = t.ID
	u.notifyTask(t, "")
	return u.open(t, lifecycle.OrderGate(t.TaskState, false, u.Now))
}

// closeLater closes the gates of later ordered tasks that were open because t, which
// is queued again, had ended.
func (u *Unit) closeLater(t *Task) error {
	waiting, err := u.orderedTasks(t.ContextID)
	if err != nil {
		return err
	}
	for _, p := range waiting {
		if p.Seq <= t.Seq || !p.Open {
			continue
		}
		later, err := u.task(p.ID)
		if err != nil {
			return err
		}
		if err := u.open(later, contract.GateOrdered); err != nil {
			return err
		}
	}
	return nil
}

// openBatch is how many delayed tasks are opened at once.
const openBatch = 100

// openDue opens delayed tasks whose time has come, each in its own operation, so that
// one that cannot be opened does not block the others.
func (s *Store) openDue(ctx context.Context) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	now, err := s.Time(ctx)
	if err != nil {
		return err
	}
	due, err := s.Due(ctx, now, openBatch, s.quarantined.list(notOpened))
	if err != nil {
		return err
	}
	s.forEach(due, func(id string) error {
		_, err := do(ctx, s, func(r *Rows) { tasks.want(r, id) }, func(u *Unit) (struct{}, error) {
			t, err := u.task(id)
			if err != nil || t.Gate != contract.GateDelayed || t.RunAt > u.Now {
				return struct{}{}, err
			}
			u.notifyTask(t, "")
			return struct{}{}, u.open(t, contract.GateOpen)
		})
		return err
	}, notOpened)
	return nil
}

// orderedBatch is how many contexts openOrdered looks at.
const orderedBatch = 1000

// openOrdered opens ordered tasks whose gates stayed closed although no earlier task of
// their context is pending: the transaction that ended that one could not open them. Each
// call looks at the next contexts with pending ordered tasks.
func (s *Store) openOrdered(ctx context.Context) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	first, err := s.FirstOrdered(ctx, s.ordered, orderedBatch)
	if err != nil {
		return err
	}
	s.ordered = ""
	if len(first) == orderedBatch {
		s.ordered = first[len(first)-1].Context
	}
	var closed []string
	for _, f := range first {
		if f.Closed && !s.quarantined.has(notOrdered, f.ID) {
			closed = append(closed, f.ID)
		}
	}
	s.forEach(closed, func(id string) error {
		_, err := do(ctx, s, func(r *Rows) { tasks.want(r, id) }, func(u *Unit) (struct{}, error) { return struct{}{}, u.openFirst(id) })
		return err
	}, notOrdered)
	return nil
}

// openFirst opens a task's gate if the task is the first of its context.
func (u *Unit) openFirst(id string) error {
	t, err := u.task(id)
	if err != nil || t.Gate != contract.GateOrdered {
		return err
	}
	if blocked, err := u.blocked(t); err != nil || blocked {
		return err
	}
	u.notifyTask(t, "")
	return u.open(t, lifecycle.OrderGate(t.TaskState, false, u.Now))
}

// forEach runs an operation for every id concurrently. An id whose operation fails
// because of a bad row is quarantined.
func (s *Store) forEach(ids []string, run func(id string) error, op failure) {
	errs := make([]error, len(ids))
	done := make(chan int, len(ids))
	for i, id := range ids {
		go func() {
			errs[i] = run(id)
			done <- i
		}()
	}
	for range ids {
		i := <-done
		switch err := errs[i]; {
		case err == nil, transient(err), isNotFound(err):
		default:
			s.quarantine(op, ids[i], err)
		}
	}
}

// QueuePlace reads what decides when a queued task starts.
func (s *Store) queuePlace(ctx context.Context, id string) (contract.QueuePlace, error) {
	if !storable.IsID(id) {
		return contract.QueuePlace{}, bloom.ErrTaskNotFound
	}
	return single(ctx, s, func(p *contract.QueuePlace) []any { return []any{&p.Before, &p.Preferred, &p.Until, &p.Gate} }, bloom.ErrTaskNotFound,
		`SELECT coalesce((SELECT CAST(o.id AS TEXT) FROM llm_tasks o WHERE t.ordered AND o.context_id = t.context_id AND o.seq < t.seq
				AND `+s.sql.pending("o")+` ORDER BY o.seq LIMIT 1), ''),
			coalesce(t.preferred_worker, ''), t.preferred_until, coalesce(t.gate, '') FROM llm_tasks t WHERE t.id = $1`, id)
}

// Due lists delayed tasks whose time has come.
func (s *Store) Due(ctx context.Context, now int64, limit int, except []string) ([]string, error) {
	return all(ctx, s, Self[string], `SELECT t.id FROM llm_tasks t`+s.sql.Via("llm_tasks_delayed")+` WHERE t.gate = 'delayed' AND t.run_at <= $1
		AND NOT (`+s.sql.In("t.id", 2, "uuid")+`) ORDER BY t.run_at LIMIT CAST($3 AS BIGINT)`, now, s.sql.Array(IDs(except)), limit)
}

// FirstOrdered steps from context to context along the index of pending ordered tasks.
func (s *Store) FirstOrdered(ctx context.Context, after string, limit int) ([]FirstOrdered, error) {
	pending := ` FROM llm_tasks t` + s.sql.Via("llm_tasks_ordered") + ` WHERE ` + s.sql.pending("t") + ` AND t.context_id `
	first := pending + `= c.id ORDER BY t.seq LIMIT 1`
	return all(ctx, s, func(f *FirstOrdered) []any { return []any{&f.Context, &f.ID, &f.Closed} }, `WITH RECURSIVE c (id, n) AS (
			SELECT (SELECT t.context_id`+pending+`> $1 ORDER BY t.context_id LIMIT 1), 1
			UNION ALL
			SELECT (SELECT t.context_id`+pending+`> c.id ORDER BY t.context_id LIMIT 1), c.n + 1 FROM c WHERE c.id IS NOT NULL AND c.n < $2)
		SELECT c.id, (SELECT t.id`+first+`), (SELECT coalesce(t.gate = 'ordered', 1 = 0)`+first+`) FROM c WHERE c.id IS NOT NULL ORDER BY c.n`, after, limit)
}

// QueueDepths lists the label sets in the queue with their depth.
func (s *Store) QueueDepths(ctx context.Context, sets, tasks int) ([]contract.QueueDepth, error) {
	return all(ctx, s, func(q *contract.QueueDepth) []any { return []any{(*List)(&q.Labels), &q.Tasks, &q.Since} },
		s.sql.sets("", "$1", `(SELECT q.labels OPEN LIMIT 1), (SELECT count(*) FROM (SELECT 1 OPEN LIMIT CAST($2 AS BIGINT)) c),
			(SELECT min(c.since) FROM (SELECT `+s.sql.Greatest+`(q.run_at, q.updated_at) AS since OPEN LIMIT CAST($2 AS BIGINT)) c)`), sets, tasks)
}

// HeldBack counts queued tasks behind a gate.
func (s *Store) HeldBack(ctx context.Context, gate contract.Gate, most int) (contract.HeldBack, error) {
	head := `SELECT created_at, run_at FROM llm_tasks t` + s.sql.Via("llm_tasks_delayed") + ` WHERE t.gate = 'delayed' ORDER BY t.run_at`
	if gate == contract.GateOrdered {
		head = `SELECT ` + s.sql.Greatest + `(t.created_at, t.updated_at) AS created_at, t.run_at FROM llm_tasks t` + s.sql.Via("llm_tasks_ordered") +
			` WHERE ` + s.sql.pending("t") + ` AND t.gate = 'ordered' ORDER BY t.context_id, t.seq`
	}
	return single(ctx, s, func(h *contract.HeldBack) []any { return []any{&h.Tasks, &h.Since, &h.Until} }, nil,
		`SELECT count(*), coalesce(min(created_at), 0), coalesce(min(run_at), 0) FROM (`+head+` LIMIT CAST($1 AS BIGINT)) q`, most)
}
