package dispatch

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// hub wakes long polls. It works on hints: a poll that is woken claims from the store,
// and polls also claim from time to time without being woken.
//
// A newly queued task wakes one worker that has its labels: the one that has waited
// longest. A poll that is woken and does not get the task passes the wake on to the
// next one. When all have tried, the wake is repeated once, after the grace period in
// which the task is reserved for the worker of its context.
type hub struct {
	clock bloom.Clock

	mu      sync.Mutex
	waiters []*waiter         // longest waiting first
	live    map[string]*wake  // by task
	orders  map[string]orders // by worker: what its last answer contained
	timed   timedWakes
	rearm   chan struct{}
}

// orders is what the last answer to a worker's process ordered. Orders stay in force
// for a while, and must not make every poll return at once.
type orders struct {
	instanceID string
	cancel     []string
	drain      bool
}

// waiter is one long poll.
type waiter struct {
	workerID   string
	instanceID string
	labels     []string
	known      bool // labels is set; until then any task may match
	wantsWork  bool
	signal     chan struct{}
	wakes      []*wake
	ended      bool // superseded by a newer poll of the same process
}

func newHub(clock bloom.Clock) *hub {
	return &hub{clock: clock, live: map[string]*wake{}, orders: map[string]orders{}, rearm: make(chan struct{}, 1)}
}

// maxPolls limits the waiting long polls of a worker: a worker needs one, and a stolen key
// must not open connections without limit.
const maxPolls = 8

// join adds a long poll. It ends an older one of the same process: its caller is
// gone, or would get what the newer poll asks for.
func (h *hub) join(r bloom.ClaimRequest) *waiter {
	w := &waiter{workerID: r.WorkerID, instanceID: r.InstanceID, wantsWork: r.Max > 0, signal: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, old := range h.waiters {
		if old.workerID == w.workerID && old.instanceID == w.instanceID && w.instanceID != "" {
			old.end()
		}
	}
	h.waiters = append(h.waiters, w)
	return w
}

func (w *waiter) end() {
	w.ended = true
	offer(w.signal)
}

// leave removes a long poll and passes its unused wakes on.
func (h *hub) leave(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.waiters, w); i >= 0 {
		h.waiters = slices.Delete(h.waiters, i, i+1)
	}
	h.passOn(w, w.wakes)
	w.wakes = nil
}

// noteOrders records the orders in an answer to a worker's process, and reports whether
// one of them is new to the process.
func (h *hub) noteOrders(r bloom.ClaimRequest, res bloom.ClaimResult) (isNew bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.orders[r.WorkerID]
	if before.instanceID != r.InstanceID {
		before = orders{}
	}
	if len(res.Cancel) == 0 && !res.Drain {
		delete(h.orders, r.WorkerID)
		return false
	}
	h.orders[r.WorkerID] = orders{instanceID: r.InstanceID, cancel: res.Cancel, drain: res.Drain}
	for _, id := range res.Cancel {
		if !slices.Contains(before.cancel, id) {
			return true
		}
	}
	return res.Drain && !before.drain
}

// know sets the labels of the poll's worker, whose claim the store accepted. It ends the
// oldest of too many such polls of one worker.
func (h *hub) know(w *waiter, labels []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !w.known {
		others := 0
		var oldest *waiter
		for _, other := range h.waiters {
			if other.workerID == w.workerID && other.known && !other.ended {
				others++
				oldest = cmp.Or(oldest, other)
			}
		}
		if others >= maxPolls {
			oldest.end()
		}
	}
	w.labels, w.known = labels, true
}

// idle returns the number of polls that have claimed once and wait.
func (h *hub) idle() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, w := range h.waiters {
		if w.known && !w.ended {
			n++
		}
	}
	return n
}

// take returns the wakes of w, before it claims. ended means that a newer poll has
// replaced w.
func (h *hub) take(w *waiter) (wakes []*wake, ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wakes, w.wakes = w.wakes, nil
	return wakes, w.ended
}

// unused passes on the wakes of tasks that w did not get.
func (h *hub) unused(w *waiter, wakes []*wake) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.passOn(w, wakes)
}

func (h *hub) passOn(from *waiter, wakes []*wake) {
	for _, k := range wakes {
		k.tried[from] = true
		h.deliver(k)
	}
}

// changed processes committed changes. It never blocks.
func (h *hub) changed(changes []bloom.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	workers := map[string]bool{}
	for _, c := range changes {
		switch c.Kind {
		case bloom.ChangeTask:
			workers[c.WorkerID] = true
			h.taskChanged(c)
		case bloom.ChangeWorker:
			workers[c.WorkerID] = true
		}
	}
	h.wakeWorkers(workers)
}

func (h *hub) taskChanged(c bloom.Change) {
	delete(h.live, c.TaskID) // an older wake of the task is obsolete
	if c.TaskStatus != bloom.TaskQueued {
		return
	}
	k := &wake{taskID: c.TaskID, labels: c.Labels, tried: map[*waiter]bool{}}
	h.live[c.TaskID] = k
	if due := time.UnixMilli(c.RunAt); due.After(h.clock.Now()) {
		h.later(k, due)
		return
	}
	h.deliver(k)
}

// wakeWorkers wakes every poll of some workers: they were given a lease, lost one, or
// must cancel or drain.
func (h *hub) wakeWorkers(workers map[string]bool) {
	for _, w := range h.waiters {
		if workers[w.workerID] && w.workerID != "" {
			offer(w.signal)
		}
	}
}

func (w *waiter) fits(k *wake) bool {
	return w.wantsWork && !w.ended && (!w.known || bloom.Capabilities{Labels: w.labels}.Carries(k.labels))
}
