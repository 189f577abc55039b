package postgres

import (
	"slices"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// memory is what the lane knows from its own last transactions: tasks that are on
// their way, their leases and the workers. The next step of a task need not read
// them again, so that a group is one round trip and not two.
//
// Nothing that is remembered is believed. Each row that was taken from here is
// compared by its version when the transaction writes, and one that somebody else
// has changed since undoes it; it is then run again on rows that it reads and
// locks. What a rule refuses because of a remembered row is asked again as well.
//
// What others say that they have changed is forgotten, so that it is seldom wrong.
type memory struct {
	tasks     map[string]known  // by id
	workers   map[string]stored // by name
	everybody time.Time         // when all online workers were read last

	clock int64     // the server's time, Unix milliseconds
	set   time.Time // when that was

	wary int // how many groups read after one that was wrong
	skip int // how many of them are left

	mu     sync.Mutex // guards rumors, the rest is the lane's goroutine's
	rumors map[string]bool
}

// known is a task with its active lease, nil when it has none or that is not
// known.
type known struct {
	task  task
	lease *lease
}

// Bounds of what is remembered.
const (
	memoryTasks   = 2048
	memoryWorkers = 1024
	memoryText    = 4 << 10     // bytes of prompt and hints of one task
	memoryFresh   = time.Second // how long nobody else is taken to have come online
	memoryClock   = time.Minute // how long the server's clock is taken to go on like ours
	memoryWary    = 64          // groups
)

func newMemory() *memory {
	return &memory{tasks: map[string]known{}, workers: map[string]stored{}, rumors: map[string]bool{}}
}

// forget drops everything but how far the memory may be trusted.
func (m *memory) forget() {
	clear(m.tasks)
	clear(m.workers)
	m.everybody, m.set = time.Time{}, time.Time{}
}

// anything stands for more rumors than are kept.
const anything = "*"

// heard takes in what somebody else has changed. Any goroutine may call it.
func (m *memory) heard(changes []bloom.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range changes {
		if len(m.rumors) >= memoryTasks {
			m.rumors[anything] = true
			return
		}
		m.rumors[c.TaskID] = true
		if c.Kind != bloom.ChangeEvents {
			m.rumors[c.WorkerID] = true // it, or how much it holds
		}
	}
}

// heed forgets what it heard of.
func (m *memory) heed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rumors[anything] {
		m.forget()
	}
	for id := range m.rumors {
		delete(m.tasks, id)
		if _, ok := m.workers[id]; ok {
			delete(m.workers, id)
			m.everybody = time.Time{}
		}
	}
	clear(m.rumors)
}

// recall puts what is wanted into t and reports whether that was all there. When
// it was not, t is of no use.
func (m *memory) recall(t *tx, w *want) bool {
	if sessionOf(t.c).at.After(m.set) {
		m.forget() // it may lead to another server, or to one that has forgotten something
	}
	m.heed()
	if m.skip > 0 {
		m.skip--
		return false
	}
	if len(w.claims) > 0 || len(w.lockContexts) > 0 || !m.now(t) {
		return false
	}
	for _, id := range slices.Concat(w.tasks, w.whole) {
		if !m.lend(t, id) {
			return false
		}
	}
	for _, id := range w.whole {
		if !t.tasks[id].whole {
			return false
		}
	}
	for _, id := range w.newborn {
		if _, born := m.tasks[id]; born {
			return false
		}
	}
	return m.lendLeases(t, w) && m.lendWorkers(t, w)
}

// now sets the transaction's clock.
func (m *memory) now(t *tx) bool {
	if test := t.s.testNow(); test != nil {
		t.now = *test
		return true
	}
	since := time.Since(m.set)
	t.now = m.clock + since.Milliseconds()
	return since < memoryClock
}

func (m *memory) lend(t *tx, id string) bool {
	k, ok := m.tasks[id]
	if _, have := t.tasks[id]; ok && !have {
		t.addTask(&k.task)
		if k.lease != nil {
			l := *k.lease
			t.addLease(&l)
		}
	}
	return ok
}

// lendLeases looks whether the leases are there; their tasks brought them. That a
// worker was heard of through one is not to be written.
func (m *memory) lendLeases(t *tx, w *want) bool {
	for _, id := range w.leases {
		if _, ok := t.leases[id]; !ok {
			return false
		}
	}
	for _, id := range w.active {
		if _, ok := t.active[id]; !ok {
			return false
		}
	}
	if len(w.leases)+len(w.active) > 0 {
		for _, l := range t.leases {
			if !t.s.contact.recent(l.WorkerID, t.now) {
				return false
			}
		}
	}
	return true
}

func (m *memory) lendWorkers(t *tx, w *want) bool {
	lend := func(name string) bool {
		is, ok := m.workers[name]
		if ok && t.workers[name] == nil {
			t.workers[name] = &is
		}
		return ok
	}
	for _, name := range w.workers {
		if !lend(name) {
			return false
		}
	}
	if w.anyone || len(w.holders) > 0 {
		if time.Since(m.everybody) > memoryFresh {
			return false
		}
		for name := range m.workers {
			lend(name)
		}
		t.everybody = w.anyone
	}
	return true
}

// learn takes in how a transaction ended: what was committed is remembered, what
// was wrong is forgotten, and everything when the server may be another one. A nil
// memory learns nothing.
func (m *memory) learn(t *tx, err error) {
	switch {
	case m == nil:
		return
	case err != nil && t != nil && t.recalled && !isGone(err):
		for id := range t.tasks {
			delete(m.tasks, id)
		}
		clear(m.workers)
		m.everybody = time.Time{}
		if !isRepeated(err) {
			m.wary = min(max(1, 2*m.wary), memoryWary)
			m.skip = m.wary
		}
		return
	case err != nil:
		m.forget()
		return
	case t.recalled:
		m.wary /= 2
	}
	m.clock, m.set = t.until, time.Now()
	for _, tk := range t.tasks {
		if tk.dirty || tk.insert != nil {
			tk.version = t.version
		}
		m.keep(t, tk)
	}
	m.keepWorkers(t)
}

// keep remembers a task unless it has ended, or is too long.
func (m *memory) keep(t *tx, tk *task) {
	was, ok := m.tasks[tk.ID]
	if ok && !tk.whole && was.task.whole {
		tk.Prompt, tk.ContextHints, tk.whole = was.task.Prompt, was.task.ContextHints, true
	}
	size := len(tk.Prompt)
	for _, hint := range tk.ContextHints {
		size += len(hint)
	}
	if tk.Status.Terminal() || tk.version == 0 || size > memoryText {
		delete(m.tasks, tk.ID)
		return
	}
	if !ok && len(m.tasks) >= memoryTasks {
		for id := range m.tasks {
			delete(m.tasks, id) // any
			break
		}
	}
	is := known{task: *tk, lease: t.active[tk.ID]}
	is.task.insert, is.task.dirty = nil, false
	switch {
	case is.lease == nil && was.lease != nil && tk.LeaseID != nil && *tk.LeaseID == was.lease.ID:
		is.lease = was.lease
	case is.lease != nil:
		l := *is.lease
		if l.dirty || l.insert {
			l.version = t.version
		}
		l.dirty, l.insert = false, false
		is.lease = &l
	}
	m.tasks[tk.ID] = is
}

// keepWorkers remembers the workers that were read and how many leases they hold.
func (m *memory) keepWorkers(t *tx) {
	if t.everybody && !t.recalled || len(m.workers)+len(t.workers) > memoryWorkers {
		clear(m.workers)
		m.everybody = time.Time{}
	}
	for name, w := range t.workers {
		m.workers[name] = *w
	}
	for _, name := range t.freed() {
		if w, ok := m.workers[name]; ok {
			w.ActiveLeases--
			m.workers[name] = w
		}
	}
	if t.everybody && !t.recalled {
		m.everybody = time.Now()
	}
	for _, w := range t.contacts {
		delete(m.workers, w.ID)
		m.everybody = time.Time{}
	}
}
