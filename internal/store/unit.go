package store

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
)

var (
	// errMissing: rows must be loaded first, which Unit.missing names.
	errMissing = errors.New("store: more rows must be loaded")
	// errBusy: another transaction has locked a row.
	errBusy = errors.New("store: a row is locked")
	// errDue: delayed tasks must be opened first.
	errDue = errors.New("store: delayed tasks are due")
)

// Unit is a transaction as its operations see it: the rows, including what earlier
// operations changed, and the changes to write. Nothing reaches the database before
// all operations have run, so they may run again on the same rows.
type Unit struct {
	Now     int64 // Unix milliseconds
	s       *Store
	rows    *Rows
	missing ReadSet // rows that an operation needs and that are not loaded
	op      *op     // the running operation
	dirty   bool    // it has changed something

	c       Changes
	notify  []bloom.Change // to publish after the commit
	tasks   map[string]*Task
	leases  map[string]*Lease
	active  map[string]string // lease ids by task, where that was changed
	workers map[string]*lifecycle.KnownWorker
	saved   Set[string] // workers in c
	access  access
	load    map[string]int // leases granted minus leases ended, by worker
	waiting map[string]int // tasks reserved for a worker
	keys    map[Key]*Keyed
	done    map[OutcomeKey]*Outcome
	events  map[EventKey]bool
	moved   map[string]string           // URLs by artifact, where that was changed
	files   map[FileKey]*bloom.Artifact // new ones
	kept    map[int64]*Kept             // by task
	numbers int
	scans   []labelScan
	tx      Tx
}

func newUnit(s *Store, rows *Rows) *Unit {
	return &Unit{
		Now: rows.Now, s: s, rows: rows, c: Changes{Now: rows.Now}, tasks: map[string]*Task{}, leases: map[string]*Lease{}, active: map[string]string{},
		workers: map[string]*lifecycle.KnownWorker{}, saved: Set[string]{}, load: map[string]int{}, waiting: map[string]int{}, keys: map[Key]*Keyed{},
		done: map[OutcomeKey]*Outcome{}, events: map[EventKey]bool{}, moved: map[string]string{}, files: map[FileKey]*bloom.Artifact{}, kept: map[int64]*Kept{},
	}
}

// task returns a locked task.
func (u *Unit) task(id string) (*Task, error) {
	if t, ok := u.tasks[id]; ok {
		return t, nil
	}
	was, ok := u.rows.Tasks[id]
	switch {
	case !ok:
		return nil, u.require(id, func() { u.missing.Tasks.Add(id) })
	case was == nil:
		return nil, bloom.ErrTaskNotFound
	}
	t := new(Task)
	*t = *was
	t.Was = was
	u.tasks[id] = t
	return t, nil
}

// require adds a row to the missing ones, unless another transaction has locked it.
func (u *Unit) require(id string, ask func()) error {
	if _, busy := u.rows.Busy[id]; busy {
		return errBusy
	}
	ask()
	return errMissing
}

// view returns a task with its texts, without a lock.
func (u *Unit) view(id string) (bloom.Task, error) {
	if t, ok := u.tasks[id]; ok {
		return u.withText(t)
	}
	t, ok := u.rows.Views[id]
	switch {
	case !ok:
		u.missing.Views.Add(id)
		return bloom.Task{}, errMissing
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
	text, ok := u.rows.Texts[t.ID]
	if !ok {
		u.missing.Texts.Add(t.ID)
		return is, errMissing
	}
	is.Prompt, is.ContextHints = text.Prompt, text.Hints
	return is, nil
}

// lease returns a lease, which its task's lock covers; ErrLeaseLost if it does not
// exist.
func (u *Unit) lease(id string) (*Lease, error) {
	if l, ok := u.leases[id]; ok {
		return l, nil
	}
	was, ok := u.rows.Leases[id]
	switch {
	case !ok:
		return nil, u.require(id, func() { u.missing.Leases.Add(id) })
	case was == nil:
		return nil, bloom.ErrLeaseLost
	}
	l := &Lease{Lease: *was, Was: was}
	u.leases[id] = l
	return l, nil
}

// activeLease returns a task's active lease, or ErrLeaseNotFound.
func (u *Unit) activeLease(taskID string) (*Lease, error) {
	id, ok := u.active[taskID]
	if !ok {
		if id, ok = u.rows.Active[taskID]; !ok {
			return nil, u.require(taskID, func() { u.missing.Active.Add(taskID) })
		}
	}
	if id == "" {
		return nil, bloom.ErrLeaseNotFound
	}
	return u.lease(id)
}

// known returns a locked worker, even if it was removed.
func (u *Unit) known(id string) (*lifecycle.KnownWorker, error) {
	w, ok := u.workers[id]
	if !ok {
		was, ok := u.rows.Workers[id]
		switch {
		case !ok:
			return nil, u.require(id, func() { u.missing.Workers.Add(id) })
		case was == nil:
			return nil, bloom.ErrWorkerNotFound
		}
		w = new(lifecycle.KnownWorker)
		*w = *was
		u.workers[id] = w
	}
	if was := u.rows.Workers[id]; was != nil {
		w.ActiveLeases = was.ActiveLeases + u.load[id]
	}
	return w, nil
}

func (u *Unit) worker(id string) (*lifecycle.KnownWorker, error) {
	w, err := u.known(id)
	if err == nil && w.Removed {
		err = bloom.ErrWorkerNotFound
	}
	return w, err
}

// saveWorker adds a worker to the changes.
func (u *Unit) saveWorker(is lifecycle.KnownWorker) {
	u.dirty = true
	w := u.workers[is.ID]
	if w == nil {
		w = new(lifecycle.KnownWorker)
		u.workers[is.ID] = w
	}
	*w = is
	if _, ok := u.saved[is.ID]; !ok {
		u.saved.Add(is.ID)
		u.c.Workers = append(u.c.Workers, w)
	}
}

// touch adds a task to the changes.
func (u *Unit) touch(t *Task) {
	u.dirty = true
	if !t.changed {
		t.changed = true
		if t.Was != nil {
			u.c.Tasks = append(u.c.Tasks, t)
		}
	}
}

// audit adds an audit entry. nil data is stored as null.
func (u *Unit) audit(action, entityType, entityID, actor, detail string, data json.RawMessage) {
	if data == nil {
		data = json.RawMessage("null")
	}
	u.dirty = true
	u.c.Audits = append(u.c.Audits, bloom.Audit{
		KeyID: u.op.caller.KeyID, Address: u.op.caller.Address,
		ID: schema.NewID(u.Now), Timestamp: u.Now, Action: action, EntityType: entityType, EntityID: entityID,
		Actor: bloom.ActorFor(u.op.caller.Role, actor), Detail: detail, Data: bloom.EventData(data),
	})
}

// auditWorker adds the audit entry of a worker's change and publishes it. Without an
// action it does nothing.
func (u *Unit) auditWorker(c lifecycle.WorkerChange, actor string) {
	if c.Action == "" {
		return
	}
	u.notify = append(u.notify, bloom.Change{Kind: bloom.ChangeWorker, WorkerID: c.Worker.ID})
	u.audit(c.Action, bloom.EntityWorker, c.Worker.ID, actor, c.Detail, c.AuditData())
}

// event appends to a task's stream.
func (u *Unit) event(t *Task, e Event) {
	u.touch(t)
	t.LastEvent++
	e.Task, e.Seq = t.Seq, t.LastEvent
	u.c.Events = append(u.c.Events, e)
}

// notifyTask publishes a task's present state after the commit.
func (u *Unit) notifyTask(t *Task, workerID string) {
	c := bloom.TaskChange(t.ID, t.TaskState, workerID)
	if c.TaskStatus == bloom.TaskQueued && len(t.Labels) > 0 {
		c.Labels = slices.Clone(t.Labels)
	}
	u.notify = append(u.notify, c)
}

func isNotFound(err error) bool { return err != nil && bloom.KindOf(err) == bloom.KindNotFound }
