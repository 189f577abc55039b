package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Task is a task with its row's other columns. Only a new task and one in views have
// their prompt and hints.
type Task struct {
	bloom.Task
	Seq       int64         // its number; numbers grow with creation
	Gate      contract.Gate // "" unless queued
	Preferred *string       // the worker that it is reserved for
	Until     int64         // of Preferred, Unix milliseconds
	LastEvent int64         // the number of its last event

	// Only of a new task.
	Scope    *string // of its idempotency key
	BodyHash string
	Actor    string // who created it

	fresh bool // it is new
}

// Text is a task's long texts.
type Text struct {
	Prompt string
	Hints  []string
}

// Key is an idempotency key.
type Key struct{ Scope, Key string }

// Keyed is the task that first used an idempotency key.
type Keyed struct{ TaskID, BodyHash string }

// EventKey identifies a worker's event under its task's current lease.
type EventKey struct {
	TaskID string
	Seq    int64
}

var (
	tasks = table("llm_tasks", "seq bigint, status text, gate text, updated_at bigint, lease_id uuid, worker_id text, attempts int, errors int, run_at bigint, "+
		"error_class text, cancel_requested bool, epoch bigint, preferred_worker text, preferred_until bigint, last_event bigint, approval text",
		"id uuid, max_attempts int, ordered bool, priority int, label_key text, context_id text, agent_slug text, created_at bigint, desired_format text, "+
			"timeout_sec int, budget bigint, labels jsonb, idempotency_scope text, idempotency_key text, body_hash text, context_hints jsonb, prompt text, "+
			"created_by text, workspace text, artifact_globs jsonb, request_id text, attachments text, ask text",
		func(v []any, _ string, k *Task) []any {
			return append(v, k.Seq, string(k.Status), gateValue(k.Gate), k.UpdatedAt, k.LeaseID, k.WorkerID, k.Attempts, k.Errors, k.RunAt,
				k.ErrorClass, k.CancelRequested, k.Epoch, k.Preferred, k.Until, k.LastEvent, approvalText(k.Approval))
		}, func(v []any, id string, k *Task) []any {
			return append(v, id, k.MaxAttempts, k.Policy.Ordered, k.Priority, schema.LabelKey(k.Labels), k.ContextID, k.AgentSlug, k.CreatedAt, string(k.DesiredFormat),
				k.Policy.TimeoutSec, k.Policy.Budget, schema.ListJSON(k.Labels), k.Scope, k.IdempotencyKey, k.BodyHash, schema.ListJSON(k.ContextHints), k.Prompt,
				k.Actor, string(k.Policy.Workspace), schema.ListJSON(k.Policy.Artifacts), k.RequestID, attachmentsJSON(k.Attachments), askText(k.Policy))
		}).lockedBy("id", "uuid")
	views      = derived[string, *Task]()     // tasks by id, with their texts; not locked
	texts      = derived[string, Text]()      // which never change
	sizes      = derived[string, int]()       // of texts, in bytes
	numbers    = derived[struct{}, []int64]() // for new tasks
	idempotent = derived[Key, *Keyed]()       // first uses of idempotency keys
	repeats    = derived[EventKey, bool]()    // workers' events that are stored already
)

// attachmentsJSON returns the column's value, "" for none.
func attachmentsJSON(list []bloom.Attachment) string {
	if len(list) == 0 {
		return ""
	}
	return string(storable.MustJSON(list))
}

// gateValue returns the column's value, NULL for a task that is not queued.
func gateValue(g contract.Gate) any {
	if g == "" {
		return nil
	}
	return string(g)
}

// TaskColumns are a task's columns without its texts, which may be long.
func (d *Dialect) TaskColumns() string {
	return `t.seq, t.id, t.status, coalesce(t.gate, ''), t.updated_at, t.lease_id, t.worker_id, t.attempts, t.errors, t.max_attempts,
	t.run_at, t.error_class, t.cancel_requested, t.epoch, t.ordered, t.context_id, t.preferred_worker,
	t.preferred_until, ` + d.LastEvent + `, t.priority, t.agent_slug, t.created_at, t.desired_format, t.timeout_sec, t.budget,
	t.labels, t.idempotency_key, t.workspace, t.artifact_globs, t.request_id, t.attachments, t.ask, t.approval`
}

func taskFields(t *Task) []any {
	return []any{
		&t.Seq, &t.ID, &t.Status, &t.Gate, &t.UpdatedAt, &t.LeaseID, &t.WorkerID, &t.Attempts, &t.Errors, &t.MaxAttempts,
		&t.RunAt, &t.ErrorClass, &t.CancelRequested, &t.Epoch, &t.Policy.Ordered, &t.ContextID, &t.Preferred,
		&t.Until, &t.LastEvent, &t.Priority, &t.AgentSlug, &t.CreatedAt, &t.DesiredFormat, &t.Policy.TimeoutSec, &t.Policy.Budget,
		(*List)(&t.Labels), &t.IdempotencyKey, &t.Policy.Workspace, (*globs)(&t.Policy.Artifacts), &t.RequestID, &object{&t.Attachments}, (*asking)(&t.Policy), (*standing)(&t.Task),
	}
}

// wholeColumns are TaskColumns and the texts.
func (d *Dialect) wholeColumns() string { return d.TaskColumns() + `, t.context_hints, t.prompt` }

func wholeFields(t *Task) []any { return append(taskFields(t), (*List)(&t.ContextHints), &t.Prompt) }

// loadTasks reads a task whose text is wanted together with it. If it turns out to be
// locked by others, its text is asked for again.
func loadTasks(l *Load, v *Values[string, *Task]) {
	var states, whole []string
	read := texts.of(l.Rows)
	for id := range v.Want {
		if _, text := read.Want[id]; text {
			whole = append(whole, id)
			delete(read.Want, id)
		} else {
			states = append(states, id)
		}
	}
	l.Pick(scan(taskFields, func(t *Task) { v.Set(t.ID, t) }), `SELECT `+l.TaskColumns()+` FROM llm_tasks t`, "t.id", "uuid", IDs(states), l.lock("t"))
	l.Pick(scan(wholeFields, func(t *Task) {
		v.Set(t.ID, t)
		read.Set(t.ID, Text{Prompt: t.Prompt, Hints: t.ContextHints})
	}), `SELECT `+l.wholeColumns()+` FROM llm_tasks t`, "t.id", "uuid", IDs(whole), l.lock("t"))
}

func loadViews(l *Load, v *Values[string, *Task]) {
	l.Pick(scan(wholeFields, func(t *Task) { v.Set(t.ID, t) }), `SELECT `+l.wholeColumns()+` FROM llm_tasks t`, "t.id", "uuid", IDs(v.Keys()), "")
}

func loadTexts(l *Load, v *Values[string, Text]) {
	l.Pick(scan(func(t *keyed[Text]) []any { return []any{&t.key, &t.value.Prompt, (*List)(&t.value.Hints)} },
		func(t *keyed[Text]) { v.Set(t.key, t.value) }), `SELECT t.id, t.prompt, t.context_hints FROM llm_tasks t`, "t.id", "uuid", IDs(v.Keys()), "")
}

func loadSizes(l *Load, v *Values[string, int]) {
	l.Pick(scan(keyedFields[int], func(s *keyed[int]) { v.Set(s.key, s.value) }),
		`SELECT t.id, octet_length(t.prompt) + octet_length(`+fmt.Sprintf(l.ListText, "t.context_hints")+`) FROM llm_tasks t`, "t.id", "uuid", IDs(v.Keys()), "")
}

func loadIdempotent(l *Load, v *Values[Key, *Keyed]) {
	type first struct {
		Key
		Keyed
	}
	keys := v.Keys()
	l.Each(scan(func(f *first) []any { return []any{&f.Scope, &f.Key.Key, &f.TaskID, &f.BodyHash} }, func(f *first) { v.Set(f.Key, &f.Keyed) }),
		`SELECT k.scope, k.key, t.id, t.body_hash FROM `+l.Table("scope text", "key text")+`
			JOIN llm_tasks t ON t.idempotency_scope = k.scope AND t.idempotency_key = k.key`,
		l.Columns(Column(keys, func(k Key) string { return k.Scope }), Column(keys, func(k Key) string { return k.Key }))...)
}

func loadRepeats(l *Load, v *Values[EventKey, bool]) {
	keys := slices.DeleteFunc(v.Keys(), func(k EventKey) bool { return !storable.IsID(k.TaskID) })
	if len(keys) == 0 {
		return
	}
	l.Each(scan(func(k *EventKey) []any { return []any{&k.TaskID, &k.Seq} }, func(k *EventKey) { v.Set(*k, true) }),
		`SELECT t.id, e.worker_seq FROM `+l.Table("task uuid", "seq bigint")+` JOIN llm_tasks t ON t.id = k.task
			JOIN task_events e ON e.task = t.seq AND e.epoch = t.epoch AND e.worker_seq = k.seq`,
		l.Columns(Column(keys, func(k EventKey) string { return k.TaskID }), Column(keys, func(k EventKey) int64 { return k.Seq }))...)
}

var eventLayout = layout("task_events", "task bigint, seq bigint, at bigint, epoch bigint, worker_seq bigint, type text, data text", Insert)

func eventValues(v []any, e Event) []any {
	return append(v, e.Task, e.Seq, e.At, e.Epoch, e.WorkerSeq, e.Type, string(e.Data))
}

// task returns a locked task.
func (u *Unit) task(id string) (*Task, error) {
	t, err := tasks.get(u, id)
	if err == nil && t == nil {
		err = bloom.ErrTaskNotFound
	}
	return t, err
}

// view returns a task with its texts, without a lock.
func (u *Unit) view(id string) (bloom.Task, error) {
	if t, ok := tasks.seen(u, id); ok && t != nil {
		return u.withText(t)
	}
	t, err := views.get(u, id)
	switch {
	case err != nil:
		return bloom.Task{}, err
	case t == nil:
		return bloom.Task{}, bloom.ErrTaskNotFound
	}
	return t.Task, nil
}

// withText returns a task with its texts.
func (u *Unit) withText(t *Task) (bloom.Task, error) {
	is := t.Task
	if t.fresh {
		return is, nil
	}
	text, err := texts.get(u, t.ID)
	is.Prompt, is.ContextHints = text.Prompt, text.Hints
	return is, err
}

// textBytes returns the size of a task's texts. A short text is read with its open task.
func (u *Unit) textBytes(t *Task) (int, error) {
	text, read := texts.of(u.rows).Get(t.ID)
	if t.fresh {
		text, read = Text{t.Prompt, t.ContextHints}, true
	}
	if _, sized := sizes.of(u.rows).Get(t.ID); sized || !read {
		return sizes.get(u, t.ID)
	}
	return len(text.Prompt) + len(strings.Join(text.Hints, "")), nil
}

// CreateTask queues a task. It reports whether the task existed already.
func (s *Store) CreateTask(ctx context.Context, n contract.NewTask) (bloom.Task, bool, error) {
	if !storable.IsID(n.ID) {
		return bloom.Task{}, false, bloom.Invalid("The task's id must be a UUID")
	}
	type answer struct {
		task     bloom.Task
		replayed bool
	}
	var key Key
	a, err := do(ctx, s, func(r *Rows) { key = wantNew(r, n) }, func(u *Unit) (a answer, err error) {
		a.task, a.replayed, err = u.create(n, key)
		return a, err
	})
	return a.task, a.replayed, err
}

// wantNew has what create needs read, and returns the task's key.
func wantNew(r *Rows, n contract.NewTask) Key {
	key := Key{n.IdempotencyScope, n.Spec.IdempotencyKey}
	views.want(r, n.ID)
	homes.want(r, n.Spec.ContextID)
	numbers.wantMore(r, one, 1)
	if key.Key != "" {
		idempotent.want(r, key)
	}
	if n.Spec.Policy.Ordered {
		ordered.wantUpTo(r, n.Spec.ContextID, firstOrdered)
	}
	return key
}

func (u *Unit) create(n contract.NewTask, key Key) (bloom.Task, bool, error) {
	if key.Key != "" {
		first, err := idempotent.get(u, key)
		switch {
		case err != nil:
			return bloom.Task{}, false, err
		case first != nil && first.BodyHash != n.BodyHash:
			return bloom.Task{}, false, bloom.ErrIdempotency
		case first != nil:
			task, err := u.view(first.TaskID)
			return task, true, err
		}
	}
	if first, err := u.view(n.ID); !isNotFound(err) {
		return first, true, err
	}
	if n.Full {
		return bloom.Task{}, false, bloom.ErrQueueFull
	}
	t := &Task{Task: n.Task(u.Now), BodyHash: n.BodyHash, Actor: n.Actor, fresh: true}
	var err error
	if t.Seq, err = u.number(); err != nil {
		return bloom.Task{}, false, err
	}
	if t.IdempotencyKey != nil {
		t.Scope = &key.Scope
	}
	tasks.put(u, t.ID, t)
	for _, a := range n.Attachments {
		u.c.Files = append(u.c.Files, NewArtifact{a.Artifact(0, u.Now), a.PendingUpload})
	}
	if err := u.enqueue(t, ""); err != nil {
		return bloom.Task{}, false, err
	}
	if t.Scope != nil {
		idempotent.set(u, key, &Keyed{t.ID, t.BodyHash})
	}
	u.count("", bloom.TaskQueued)
	u.newInContext(t)
	u.record(t, lifecycle.Created(t.Task), n.Actor)
	return t.Task, false, nil
}

// number returns the number of a new task.
func (u *Unit) number() (int64, error) {
	read, _ := numbers.of(u.rows).Get(one)
	if u.numbers == len(read) {
		numbers.wantMore(u.rows, one, 1)
		return 0, u.stop(lacksRows)
	}
	u.numbers++
	return read[u.numbers-1], nil
}

// Cancel cancels a task.
func (s *Store) Cancel(ctx context.Context, id, actor string) (bloom.Task, error) {
	return s.move(ctx, id, actor, lifecycle.Cancel)
}

// Requeue requeues an ended task.
func (s *Store) Requeue(ctx context.Context, id, actor string) (bloom.Task, error) {
	return s.move(ctx, id, actor, lifecycle.Requeue)
}

// move applies a rule that concerns no lease.
func (s *Store) move(ctx context.Context, id, actor string, rule func(bloom.TaskState, int64) (lifecycle.Transition, error)) (bloom.Task, error) {
	reads := func(r *Rows) {
		tasks.want(r, id)
		texts.want(r, id)
	}
	return do(ctx, s, reads, func(u *Unit) (bloom.Task, error) {
		t, err := u.task(id)
		if err != nil {
			return bloom.Task{}, err
		}
		tr, err := rule(t.TaskState, u.Now)
		if err != nil {
			return bloom.Task{}, err
		}
		if err := u.apply(t, nil, tr, actor); err != nil {
			return bloom.Task{}, err
		}
		return u.withText(t)
	})
}

// AppendEvents appends a worker's events to a task's stream. Events that are stored
// already are skipped.
func (s *Store) AppendEvents(ctx context.Context, taskID, leaseID string, events []bloom.WorkerEvent) (int64, error) {
	reads := func(r *Rows) {
		wantNamed(r, taskID, leaseID)
		for _, e := range events {
			repeats.want(r, EventKey{taskID, e.Seq})
		}
	}
	return do(ctx, s, reads, func(u *Unit) (int64, error) {
		t, l, err := u.named(taskID, leaseID)
		if err != nil {
			return 0, err
		}
		if _, err := lifecycle.Heartbeat(t.TaskState, *l, u.Now); err != nil {
			return 0, err
		}
		added := false
		for _, e := range events {
			key := EventKey{taskID, e.Seq}
			stored, err := repeats.get(u, key)
			if err != nil {
				return 0, err
			}
			if stored {
				continue
			}
			repeats.set(u, key, true)
			added = true
			seq := e.Seq
			u.event(t, Event{
				Type: e.Type, At: cmp.Or(e.At, u.Now), Epoch: l.Epoch, WorkerSeq: &seq, Data: e.Data,
			})
		}
		if added {
			u.notify = append(u.notify, bloom.Change{Kind: bloom.ChangeEvents, TaskID: taskID, WorkerID: l.WorkerID})
		}
		return t.LastEvent, nil
	})
}

// Task reads one task.
func (s *Store) Task(ctx context.Context, id string) (bloom.Task, error) {
	if !storable.IsID(id) {
		return bloom.Task{}, bloom.ErrTaskNotFound
	}
	t, err := single(ctx, s, wholeFields, bloom.ErrTaskNotFound, `SELECT `+s.sql.wholeColumns()+` FROM llm_tasks t WHERE t.id = $1`, id)
	if err != nil {
		return bloom.Task{}, err
	}
	whole := []bloom.Task{t.Task}
	err = s.addTaskUsage(ctx, whole)
	return whole[0], err
}

// addTaskUsage sets what the attempts of tasks have used, and when the current or last one began.
func (s *Store) addTaskUsage(ctx context.Context, tasks []bloom.Task) error {
	places, leases := make(map[string]*bloom.Task, len(tasks)), make(map[string]*bloom.Task, len(tasks))
	for i := range tasks {
		if tasks[i].Epoch > 0 {
			places[tasks[i].ID] = &tasks[i]
		}
		if tasks[i].LeaseID != nil {
			leases[*tasks[i].LeaseID] = &tasks[i]
		}
	}
	if len(leases) > 0 {
		starts, err := all(ctx, s, keyedFields[int64], `SELECT l.id, l.started_at FROM leases l WHERE `+s.sql.In("l.id", 1, "uuid"), s.sql.Array(slices.Collect(maps.Keys(leases))))
		if err != nil {
			return err
		}
		for _, l := range starts {
			leases[l.key].StartedAt = l.value
		}
	}
	return s.usage(ctx, "task_id", "uuid", slices.Collect(maps.Keys(places)), func(id string, u bloom.Usage) { places[id].Usage = &u },
		s.sql.Via("leases_one_active")+" WHERE l.status = 'active'", s.sql.Via("leases_ended")+" WHERE l.status <> 'active'")
}

// ofTask reads what belongs to a task, or returns ErrTaskNotFound.
func ofTask[T any](ctx context.Context, s *Store, taskID string, list func(c Conn, seq int64) ([]T, error)) ([]T, error) {
	if !storable.IsID(taskID) {
		return nil, bloom.ErrTaskNotFound
	}
	return Read(ctx, s.db, func(c Conn) ([]T, error) {
		seq, err := One(ctx, c, Self[int64], bloom.ErrTaskNotFound, `SELECT seq FROM llm_tasks WHERE id = $1`, taskID)
		if err != nil {
			return nil, err
		}
		return list(c, seq)
	})
}

// Events lists a task's stream after the given number.
func (s *Store) Events(ctx context.Context, taskID string, after int64, limit int) ([]bloom.Event, error) {
	return ofTask(ctx, s, taskID, func(c Conn, seq int64) ([]bloom.Event, error) {
		return Collect(ctx, c, func(e *bloom.Event) []any { return []any{&e.Seq, &e.Type, &e.At, &e.Epoch, (*verbatim)(&e.Data)} },
			`SELECT seq, type, at, epoch, data FROM (
				SELECT seq, type, at, epoch, data, sum(octet_length(data)) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) - octet_length(data) AS sofar
				FROM task_events WHERE task = $1 AND seq > $2 ORDER BY seq LIMIT CAST($3 AS BIGINT)) b WHERE sofar < $4`, seq, after, bloom.Page{Limit: limit}.Size(), contract.MaxEventPageBytes)
	})
}

// Results lists a task's results, newest first.
func (s *Store) Results(ctx context.Context, taskID string) ([]bloom.Result, error) {
	return ofTask(ctx, s, taskID, func(c Conn, _ int64) ([]bloom.Result, error) {
		const from = ` FROM llm_results r JOIN runtime_artifacts a ON a.id = r.artifact_id WHERE r.task_id = $1 ORDER BY r.epoch DESC LIMIT %d OFFSET %d`
		newest, err := Collect(ctx, c, resultFields, `SELECT `+resultColumns+fmt.Sprintf(from, contract.ResultsWithOutput, 0), taskID)
		if err != nil || len(newest) < contract.ResultsWithOutput {
			return newest, err
		}
		older, err := Collect(ctx, c, resultFields, `SELECT `+strings.TrimSuffix(resultColumns, "a.content")+`CAST(NULL AS TEXT)`+
			fmt.Sprintf(from, bloom.MaxPageSize, contract.ResultsWithOutput), taskID)
		return append(newest, older...), err
	})
}

// Tasks lists tasks, the newest first.
func (s *Store) Tasks(ctx context.Context, q bloom.TaskQuery) (tasks []bloom.Task, next bloom.Cursor, err error) {
	columns := s.sql.wholeColumns()
	if n := q.TextWindow(); q.TextBytes > 0 {
		columns = s.sql.TaskColumns() + fmt.Sprintf(`, CASE WHEN length(%s) <= %d THEN t.context_hints ELSE 'null' END, `, fmt.Sprintf(s.sql.ListText, "t.context_hints"), n) +
			cut("t.prompt", n)
	}
	l := &listing[Task]{from: "llm_tasks", as: "t", columns: columns, fields: wholeFields}
	l.also("t.context_id", q.ContextID)
	l.also("t.worker_id", q.WorkerID)
	s.status(l, q.Status)
	l.also("t.agent_slug", q.AgentSlug)
	if q.Error != "" { // it has no index
		l.only("t.error_class", q.Error)
	}
	l.ending(fmt.Sprintf(s.sql.ShortID, "t.id"), q.ShortID)
	for _, label := range q.Labels { // nor have they
		l.filter += " AND " + fmt.Sprintf(s.sql.Has, "t.labels", l.arg(label))
	}
	if q.Status == bloom.TaskCompleted { // nearly all tasks are, so the table is scanned
		l.only("t.status", string(q.Status))
	}
	var since int64 // the number of the first task of the time range
	if q.Since > 0 {
		if since, err = s.numberAt(ctx, q.Since); err != nil {
			return nil, next, err
		}
	}
	if q.Until > 0 {
		until, err := s.numberAt(ctx, q.Until)
		if err != nil || until <= since {
			return []bloom.Task{}, next, err
		}
		q.Cursor.Before = min(cmp.Or(q.Cursor.Before, until), until)
	}
	var found []Task
	if q.Text == "" {
		found, next, err = list(ctx, s, l, q.Page)
	} else {
		l.Dialect = s.sql
		err = s.db.Run(ctx, func(c Conn) (err error) {
			found, next, err = l.finder(ctx, s.db, c).Search(q.Text, q.Page)
			return err
		})
	}
	if i := slices.IndexFunc(found, func(t Task) bool { return t.Seq < since }); i >= 0 {
		found, next = found[:i], bloom.Cursor{}
	}
	if next.Before <= since {
		next = bloom.Cursor{}
	}
	tasks = make([]bloom.Task, 0, len(found))
	for i := range found {
		contract.CutPrompt(&found[i].Task, q.TextBytes)
		tasks = append(tasks, found[i].Task)
	}
	if err == nil {
		err = s.addTaskUsage(ctx, tasks)
	}
	return tasks, next, err
}

// numberAt returns the number from which on tasks were created at a time or later. Numbers grow with
// creation, so it takes some thirty look-ups, however many tasks there are.
func (s *Store) numberAt(ctx context.Context, at int64) (int64, error) {
	type created struct{ seq, at int64 }
	fields := func(c *created) []any { return []any{&c.seq, &c.at} }
	return Read(ctx, s.db, func(c Conn) (int64, error) {
		newest, err := One(ctx, c, Self[int64], nil, `SELECT t.seq FROM llm_tasks t WHERE t.seq < $1 ORDER BY t.seq DESC LIMIT 1`, int64(math.MaxInt64))
		low, high := int64(1), newest+1
		for err == nil && low < high {
			middle := low + (high-low)/2
			var first created // from the middle on
			first, err = One(ctx, c, fields, nil, `SELECT t.seq, t.created_at FROM llm_tasks t WHERE t.seq >= $1 ORDER BY t.seq LIMIT 1`, middle)
			if first.seq == 0 || first.at >= at {
				high = middle
			} else {
				low = first.seq + 1
			}
		}
		return low, err
	})
}

// status restricts tasks to a status. An index has the failed and waiting ones. Tasks
// that are leased are found by their active leases, of which there are no more than
// slots.
func (s *Store) status(l *listing[Task], status bloom.TaskStatus) {
	switch {
	case status == "" || status == bloom.TaskCompleted:
	case l.by != "":
		l.only("t.status", string(status))
	case status.Held():
		l.first(fmt.Sprintf(s.sql.Among, "t.id", "SELECT h.task_id FROM leases h WHERE h.status = 'active'")+" AND t.status || '' = %s", string(status))
	default:
		l.first(s.sql.Phase, string(status))
	}
}

// QueuedBy counts an actor's queued tasks.
func (s *Store) QueuedBy(ctx context.Context, actor string, most int64) (int64, error) {
	return single(ctx, s, Self[int64], nil, `SELECT count(*) FROM (SELECT 1 FROM llm_tasks`+s.sql.Via("llm_tasks_created_by")+
		` WHERE created_by = $1 AND gate IS NOT NULL LIMIT CAST($2 AS BIGINT)) q`, actor, most)
}

// Event is an entry of a task's stream to insert.
type Event struct {
	Task, Seq, At, Epoch int64
	WorkerSeq            *int64
	Type                 string
	Data                 []byte
}
