package dispatch

import (
	"cmp"
	"container/heap"
	"slices"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// hub wakes those who wait in a long poll. It acts on hints only: whoever is
// woken looks at the store, and looks from time to time without being woken.
//
// A newly queued task wakes one worker that carries its labels, the one that
// waits longest, and not a thousand. Whoever is woken and gets nothing hands
// the wake on to the next that has not tried; when all have, it is tried once
// more after the grace in which the task was kept for the worker of its context.
type hub struct {
	clock bloom.Clock

	mu      sync.Mutex
	waiters []*waiter // longest waiting first
	live    map[string]*wake
	told    map[string]orders
	timed   timedWakes
	rearm   chan struct{}
}

// orders is what a worker's process was ordered last: these stay true for a while,
// and must not make every one of its polls come back at once.
type orders struct {
	instanceID string
	cancel     []string
	drain      bool
}

// maxTimedWakes bounds the wakes kept for later. Beyond it the regular look
// finds the task, a few seconds late.
const maxTimedWakes = 100_000

// maxTries bounds how many are woken for one task that none of them gets: a task
// kept for one worker must not wake a thousand in turn.
const maxTries = 32

// wake is the news of one queued task on its way to somebody who takes it.
type wake struct {
	taskID string
	labels []string
	tried  map[*waiter]bool
	graced bool // has been tried again after the sticky grace
	at     time.Time
}

// waiter is one long poll.
type waiter struct {
	workerID   string
	instanceID string
	labels     []string
	known      bool // labels are known; until then any task may fit
	wantsWork  bool
	signal     chan struct{}
	wakes      []*wake
	ended      bool // superseded by a newer poll of the same process
}

func newHub(clock bloom.Clock) *hub {
	return &hub{clock: clock, live: map[string]*wake{}, told: map[string]orders{}, rearm: make(chan struct{}, 1)}
}

// maxPolls is how many long polls of one worker wait: one is enough for a worker, and a
// stolen key must not hold connections without end.
const maxPolls = 8

// join adds a long poll. An older one of the same process is sent home: its
// caller is gone, or would get what the newer one asks for.
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

// leave removes a long poll; news that it was woken for and did not use goes to
// others.
func (h *hub) leave(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.waiters, w); i >= 0 {
		h.waiters = slices.Delete(h.waiters, i, i+1)
	}
	h.handOn(w, w.wakes)
	w.wakes = nil
}

// tell notes the orders in an answer to a worker's process. news reports that
// there is one in it that the process does not know.
func (h *hub) tell(r bloom.ClaimRequest, res bloom.ClaimResult) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.told[r.WorkerID]
	if before.instanceID != r.InstanceID {
		before = orders{}
	}
	if len(res.Cancel) == 0 && !res.Drain {
		delete(h.told, r.WorkerID)
		return false
	}
	h.told[r.WorkerID] = orders{instanceID: r.InstanceID, cancel: res.Cancel, drain: res.Drain}
	for _, id := range res.Cancel {
		if !slices.Contains(before.cancel, id) {
			return true
		}
	}
	return res.Drain && !before.drain
}

// know sets which labels the poll's worker carries: the store took its claim. The oldest of
// too many such polls of one worker is sent home.
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

// idle is how many polls have looked and wait, known to the hub.
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

// take is the news that w was woken for, before it looks. ended reports that a
// newer poll has taken its place.
func (h *hub) take(w *waiter) (wakes []*wake, ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wakes, w.wakes = w.wakes, nil
	return wakes, w.ended
}

// unused hands on what w looked for and did not get.
func (h *hub) unused(w *waiter, wakes []*wake) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handOn(w, wakes)
}

func (h *hub) handOn(from *waiter, wakes []*wake) {
	for _, k := range wakes {
		k.tried[from] = true
		h.deliver(k)
	}
}

// changed takes in what was committed. It never blocks.
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
	delete(h.live, c.TaskID) // older news of the task is void
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

// wakeWorkers makes every poll of some workers look: they were given a task, have lost
// one, are to stop one, or to drain.
func (h *hub) wakeWorkers(workers map[string]bool) {
	for _, w := range h.waiters {
		if workers[w.workerID] && w.workerID != "" {
			offer(w.signal)
		}
	}
}

// deliver gives a wake to the longest waiting worker that fits, has not tried
// and has the fewest other wakes before it.
func (h *hub) deliver(k *wake) {
	if h.live[k.taskID] != k {
		return // somebody has the task, or there is newer news
	}
	var to *waiter
	for _, w := range h.waiters {
		if !w.fits(k) || k.tried[w] {
			continue
		}
		if to == nil || len(w.wakes) < len(to.wakes) {
			to = w
		}
		if len(to.wakes) == 0 && to.known {
			break
		}
	}
	if to != nil && len(k.tried) < maxTries {
		to.wakes = append(to.wakes, k)
		offer(to.signal)
		return
	}
	if !k.graced {
		k.graced = true
		h.later(k, h.clock.Now().Add(bloom.StickyGrace+10*time.Millisecond))
		return
	}
	delete(h.live, k.taskID)
}

func (w *waiter) fits(k *wake) bool {
	return w.wantsWork && !w.ended && (!w.known || bloom.Capabilities{Labels: w.labels}.Carries(k.labels))
}

// later keeps a wake until a time.
func (h *hub) later(k *wake, at time.Time) {
	if len(h.timed) >= maxTimedWakes {
		delete(h.live, k.taskID)
		return
	}
	k.at = at
	heap.Push(&h.timed, k)
	if h.timed[0] == k {
		offer(h.rearm)
	}
}

// run delivers the wakes whose time has come, until closing.
func (h *hub) run(closing <-chan struct{}) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(h.deliverDue())
		select {
		case <-closing:
			return
		case <-h.rearm:
		case <-timer.C:
		}
	}
}

// deliverDue delivers what is due and returns how long to wait for the next.
func (h *hub) deliverDue() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.Now()
	for len(h.timed) > 0 {
		if wait := h.timed[0].at.Sub(now); wait > 0 {
			return wait
		}
		k := heap.Pop(&h.timed).(*wake)
		clear(k.tried)
		h.deliver(k)
	}
	return time.Hour
}

// timedWakes is a heap by time.
type timedWakes []*wake

func (t timedWakes) Len() int           { return len(t) }
func (t timedWakes) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t timedWakes) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timedWakes) Push(x any)        { *t = append(*t, x.(*wake)) }
func (t *timedWakes) Pop() any {
	old := *t
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	return last
}
