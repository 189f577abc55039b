package sqlite

import (
	"slices"

	"github.com/bloom-runtime/bloom"
)

// memory is what the writer remembers of rows that nobody but it changes, so
// that it need not read back what it has just written: tasks on their way with
// their latest lease, and all workers with what each of them holds.
//
// It belongs to the writer's goroutine. A transaction that is rolled back takes
// the whole memory with it. Every write still compares before it sets, so that
// a memory that were wrong could refuse a write but never spoil one.
type memory struct {
	tasks   map[string]moving
	workers map[string]*bloom.KnownWorker // nil: not read yet; with those removed
	held    map[string][]string           // the contexts of the leases that a worker holds
	choice  []bloom.Worker                // room for picking among them
	walked  map[string]string             // how far a worker has looked through the queue's sets of labels
}

// moving is a task that has not ended, and the lease that was given last.
type moving struct {
	task  task
	lease bloom.Lease
}

// Bounds of the memory: a few MiB. Forgotten tasks are read again.
const (
	rememberTasks  = 2048
	rememberPrompt = 2 << 10 // bytes; of a task with a longer one only the state
)

func newMemory() *memory {
	return &memory{tasks: make(map[string]moving), walked: make(map[string]string)}
}

// forget drops everything.
func (m *memory) forget() {
	clear(m.tasks)
	m.workers, m.held = nil, nil
}

// keep remembers a task as it is now; l is the zero Lease when its lease is as
// it was.
func (m *memory) keep(tk task, l bloom.Lease) {
	if tk.state.Status.Terminal() {
		delete(m.tasks, tk.id)
		return
	}
	was, ok := m.tasks[tk.id]
	if l.ID == "" {
		l = was.lease
	}
	switch {
	case tk.full == nil:
		tk.full = was.task.full
	case len(tk.full.Prompt) > rememberPrompt || len(tk.full.ContextHints) > 0:
		tk.full = nil
	}
	if !ok && len(m.tasks) >= rememberTasks {
		for id := range m.tasks { // any one
			delete(m.tasks, id)
			break
		}
	}
	m.tasks[tk.id] = moving{tk, l}
}

func (t *tx) taskState(id string) (task, error) {
	if m, ok := t.mem.tasks[id]; ok {
		return m.task, nil
	}
	return t.conn.taskState(id)
}

func (t *tx) task(id string) (task, error) {
	if m, ok := t.mem.tasks[id]; ok && m.task.full != nil {
		return m.task, nil
	}
	return t.conn.task(id)
}

func (t *tx) lease(id, taskID string) (bloom.Lease, error) {
	if m, ok := t.mem.tasks[taskID]; ok && m.lease.ID == id {
		return m.lease, nil
	}
	return t.conn.lease(id, taskID)
}

func (t *tx) activeLease(taskID string) (bloom.Lease, error) {
	if m, ok := t.mem.tasks[taskID]; ok && m.lease.Status == bloom.LeaseActive {
		return m.lease, nil
	}
	return t.conn.activeLease(taskID)
}

// workersKnown reads all workers and what they hold, once.
func (t *tx) workersKnown() error {
	if t.mem.workers != nil {
		return nil
	}
	all, err := collect(t.conn, scanWorker, `SELECT `+workerColumns+`, 0 FROM workers w`)
	if err != nil {
		return err
	}
	held := make(map[string][]string)
	err = t.each(`SELECT worker_id, context_id FROM leases INDEXED BY leases_held WHERE status = 'active'`, func(r row) error {
		held[r.str(0)] = append(held[r.str(0)], r.str(1))
		return nil
	})
	if err != nil {
		return err
	}
	t.mem.held, t.mem.workers = held, make(map[string]*bloom.KnownWorker, len(all))
	for i := range all {
		t.mem.workers[all[i].ID] = &all[i]
	}
	return nil
}

// known is a worker even when it was removed.
func (t *tx) known(id string) (bloom.KnownWorker, error) {
	if err := t.workersKnown(); err != nil {
		return bloom.KnownWorker{}, err
	}
	w, ok := t.mem.workers[id]
	if !ok {
		return bloom.KnownWorker{}, bloom.ErrWorkerNotFound
	}
	found := *w
	found.ActiveLeases = len(t.mem.held[id])
	return found, nil
}

func (t *tx) worker(id string) (bloom.KnownWorker, error) {
	w, err := t.known(id)
	if err == nil && w.Removed {
		err = bloom.ErrWorkerNotFound
	}
	return w, err
}

// keepWorker remembers a worker as it was just written.
func (m *memory) keepWorker(w bloom.KnownWorker) {
	if m.workers != nil {
		m.workers[w.ID] = &w
	}
}

// online lists the workers that may be given work. The list is only good until
// the next call.
func (t *tx) online() ([]bloom.Worker, error) {
	err := t.workersKnown()
	t.mem.choice = t.mem.choice[:0]
	for id, w := range t.mem.workers {
		if !w.Removed && w.Status == bloom.WorkerOnline {
			t.mem.choice = append(t.mem.choice, w.Worker)
			t.mem.choice[len(t.mem.choice)-1].ActiveLeases = len(t.mem.held[id])
		}
	}
	return t.mem.choice, err
}

// holds reports whether a worker holds a lease of a context.
func (m *memory) holds(workerID, contextID string) bool {
	return slices.Contains(m.held[workerID], contextID)
}

// leased follows a lease that was given (by 1) or has ended (by -1).
func (m *memory) leased(l bloom.Lease, by int) {
	if m.workers == nil {
		return
	}
	context := ""
	if l.ContextID != nil {
		context = *l.ContextID
	}
	held := m.held[l.WorkerID]
	if by > 0 {
		held = append(held, context)
	} else if i := slices.Index(held, context); i >= 0 {
		held = slices.Delete(held, i, i+1)
	}
	m.held[l.WorkerID] = held
	if len(held) == 0 {
		delete(m.held, l.WorkerID)
	}
}
