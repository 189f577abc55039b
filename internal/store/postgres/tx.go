package postgres

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/schema"
)

// tx is what operations see of a transaction: what was read for them, in which
// they make their changes, and what is to be written. Nothing reaches the server
// before flush, except by operations that run alone.
type tx struct {
	s        *Store
	ctx      context.Context
	c        *pgx.Conn
	now      int64  // Unix milliseconds
	alone    bool   // the only operation of its transaction
	recalled bool   // nothing was read or locked: what was remembered is compared with when it is written
	version  uint32 // of the rows that were written, once they are
	until    int64  // the server's time when they were, Unix milliseconds

	wrote   bool // the running operation has changed something
	changes []bloom.Change

	tasks   map[string]*task   // by id
	leases  map[string]*lease  // by id
	active  map[string]*lease  // by task
	results map[string]outcome // of this transaction, by lease
	keyed   map[idemKey]keyed  // by idempotency key
	repeats map[eventKey]bool  // worker's events that are stored
	workers map[string]*stored // by name

	everybody bool // workers are all that are online, not those that were proposed

	holders map[string][]string // of active leases, by context
	claims  map[string][]string // ids of the active leases, by claiming worker
	queue   []*task             // open tasks that claims may take
	cut     bool                // the queue goes on behind what was read
	due     bool                // delayed tasks wait to be opened

	newTasks  []*task
	dirty     []*task
	opened    []string       // tasks that may prefer somebody
	choices   []choice       // who was chosen for a task
	given     map[string]int // leases given to workers by name, not by their claims
	newLeases []*lease
	moved     []*lease
	artifacts []*bloom.Artifact
	outcomes  []outcome
	events    []event
	audits    []bloom.Audit
	contacts  []*stored
	counts    counts
}

type idemKey struct{ scope, key string }

type keyed struct {
	task     *task
	bodyHash string
}

type eventKey struct {
	taskID string
	seq    int64
}

// outcome is a result with what is kept beside it.
type outcome struct {
	result   *bloom.Result
	artifact *bloom.Artifact
	bodyHash string
}

type event struct {
	task, seq, at, epoch int64
	workerSeq            *int64
	kind, data           string
}

func newTx(ctx context.Context, s *Store, c *pgx.Conn, alone bool) *tx {
	return &tx{
		s: s, ctx: ctx, c: c, alone: alone, tasks: map[string]*task{}, leases: map[string]*lease{}, active: map[string]*lease{},
		results: map[string]outcome{}, keyed: map[idemKey]keyed{}, repeats: map[eventKey]bool{},
		workers: map[string]*stored{}, holders: map[string][]string{}, claims: map[string][]string{}, given: map[string]int{},
	}
}

// addTask takes in a task that was read; one that is here already stays.
func (t *tx) addTask(tk *task) *task {
	if have, ok := t.tasks[tk.ID]; ok {
		if !have.whole && tk.whole {
			have.Prompt, have.ContextHints, have.whole = tk.Prompt, tk.ContextHints, true
		}
		return have
	}
	t.tasks[tk.ID] = tk
	return tk
}

// gaveUp reports whether the lease held its slot and does so no more.
func (l *lease) gaveUp() bool { return l.was == bloom.LeaseActive && l.Status != bloom.LeaseActive }

// freed are the workers whose slots this transaction gives back, once for each.
func (t *tx) freed() (workers []string) {
	for _, l := range slices.Concat(t.moved, t.newLeases) {
		if l.gaveUp() {
			workers = append(workers, l.WorkerID)
		}
	}
	return workers
}

func (t *tx) addLease(l *lease) {
	if _, have := t.leases[l.ID]; have {
		return
	}
	l.was = l.Status
	t.leases[l.ID] = l
	if l.Status == bloom.LeaseActive {
		t.active[l.TaskID] = l
	}
}

// task is one that was read for the transaction. One that begins in it has no
// stream yet to go on with.
func (t *tx) task(id string) (*task, error) {
	tk, ok := t.tasks[id]
	switch {
	case !ok:
		return nil, bloom.ErrTaskNotFound
	case tk.insert != nil:
		return nil, errAlone
	}
	return tk, nil
}

// touchTask marks a task to be written.
func (t *tx) touchTask(tk *task) {
	t.wrote = true
	if !tk.dirty {
		tk.dirty = true
		if tk.insert == nil {
			t.dirty = append(t.dirty, tk)
		}
	}
}

// audit adds an entry to the audit log. data nil is null.
func (t *tx) audit(action, entityType, entityID, actor, detail string, data json.RawMessage) {
	if data == nil {
		data = json.RawMessage("null")
	}
	t.wrote = true
	t.audits = append(t.audits, bloom.Audit{
		ID: schema.NewID(t.now), Timestamp: t.now, Action: bloom.CleanText(action), EntityType: bloom.CleanText(entityType), EntityID: bloom.CleanText(entityID),
		Actor: bloom.CleanText(actor), Detail: bloom.CleanText(detail), Data: bloom.EventData(data),
	})
}

// event appends to a task's stream. A new task has but one, which is written with
// it.
func (t *tx) event(tk *task, e event) {
	t.touchTask(tk)
	tk.lastEvent++
	if tk.insert != nil {
		tk.insert.told = e.data
		return
	}
	e.task, e.seq = tk.seq, tk.lastEvent
	t.events = append(t.events, e)
}

// counts are what stats shows, in the order of the counters' columns.
type counts [9]int64

var countColumns = []string{"queued", "leased", "running", "completed", "failed", "dead", "cancelled", "leases", "active"}

const (
	countLeases = 7
	countActive = 8
)

// count keeps the number of tasks by status.
func (c *counts) move(from, to bloom.TaskStatus) {
	if from != "" {
		c[slices.Index(bloom.TaskStatuses, from)]--
	}
	c[slices.Index(bloom.TaskStatuses, to)]++
}

// Subscribe calls fn with this store's changes at once, and with those of other
// processes as the server tells of them.
func (s *Store) Subscribe(fn func([]bloom.Change)) (stop func()) { return s.feed.Subscribe(fn) }
