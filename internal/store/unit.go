package store

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// An outcome says how a run of an operation has ended.
type outcome int

const (
	finished    outcome = iota // op.Err is its result
	lacksRows                  // it wants rows that must be read first
	findsLocked                // another transaction has locked a row
	findsDue                   // delayed tasks must be opened first
)

// errUnfinished is returned by a run that must be repeated, for the reason that op.outcome
// says.
var errUnfinished = errors.New("store: the operation must run again")

// Unit is a transaction as its operations see it: the rows, including what earlier
// operations changed, and the changes to write. Nothing reaches the database before
// all operations have run, so they may run again on the same rows.
type Unit struct {
	Now   int64 // Unix milliseconds
	s     *Store
	rows  *Rows
	op    *op   // the running operation
	dirty bool  // it has changed something
	known []any // by query: what differs from rows once this is committed

	c          Changes
	notify     []bloom.Change // to publish after the commit
	load       map[string]int // leases granted minus leases ended, by worker
	waiting    map[string]int // tasks reserved for a worker
	kept       map[int64]*Archived
	completing string // the task whose completion still needs its suspended conversation
	numbers    int    // how many numbers are used
	scans      []labelScan
	tx         Tx
}

func newUnit(s *Store, rows *Rows) *Unit {
	return &Unit{
		Now: rows.Now, s: s, rows: rows, known: make([]any, queries), c: Changes{Now: rows.Now, tables: make([]tableChanges, queries)},
		load: map[string]int{}, waiting: map[string]int{}, kept: map[int64]*Archived{},
	}
}

// stop ends the run of an operation that must be repeated.
func (u *Unit) stop(o outcome) error {
	u.op.outcome = o
	return errUnfinished
}

// locked reports whether an error means that another transaction has locked a row.
func (u *Unit) locked(err error) bool {
	return errors.Is(err, errUnfinished) && u.op.outcome == findsLocked
}

// changed records that the running operation changes something.
func (u *Unit) changed() { u.dirty, u.c.dirty = true, true }

// audit adds an audit entry. nil data is stored as null.
func (u *Unit) audit(action, entityType, entityID, actor, detail string, data json.RawMessage) {
	if data == nil {
		data = json.RawMessage("null")
	}
	u.changed()
	u.c.Audits = append(u.c.Audits, bloom.Audit{
		KeyID: u.op.caller.KeyID, Address: u.op.caller.Address,
		ID: schema.NewID(u.Now), Timestamp: u.Now, Action: action, EntityType: entityType, EntityID: entityID,
		Actor: audit.ActorFor(u.op.caller.Role, actor), Detail: detail, Data: storable.EventData(data),
	})
}

// auditWorker adds the audit entry of a worker's change and publishes it. Without an
// action it does nothing.
func (u *Unit) auditWorker(c lifecycle.WorkerChange, actor string) {
	if c.Action == "" {
		return
	}
	u.notify = append(u.notify, bloom.Change{Kind: bloom.ChangeWorker, WorkerID: c.Worker.ID})
	u.audit(c.Action, audit.EntityWorker, c.Worker.ID, actor, c.Detail, c.AuditData())
}

// event appends to a task's stream.
func (u *Unit) event(t *Task, e Event) {
	tasks.put(u, t.ID, t)
	t.LastEvent++
	e.Task, e.Seq = t.Seq, t.LastEvent
	u.c.Events = append(u.c.Events, e)
}

// notifyTask publishes a task's present state after the commit.
func (u *Unit) notifyTask(t *Task, workerID string) {
	c := contract.TaskChange(t.ID, t.TaskState, workerID)
	if c.TaskStatus == bloom.TaskQueued && len(t.Labels) > 0 {
		c.Labels = slices.Clone(t.Labels)
	}
	u.notify = append(u.notify, c)
}

func isNotFound(err error) bool { return err != nil && bloom.KindOf(err) == bloom.KindNotFound }
