package dispatch

import (
	"container/heap"
	"time"

	"github.com/bloom-runtime/bloom"
)

// maxTimedWakes limits the delayed wakes. Beyond it, regular claims find the task a
// few seconds late.
const maxTimedWakes = 100_000

// maxTries limits how many polls are woken for one task. A task that is reserved for
// one worker must not wake a thousand in turn.
const maxTries = 32

// wake is a queued task that is being offered to polls.
type wake struct {
	taskID string
	labels []string
	tried  map[*waiter]bool
	graced bool // it was repeated after the sticky grace period
	at     time.Time
}

// deliver gives a wake to the waiter that has waited longest among those that match,
// have not tried, and have the fewest wakes.
func (h *hub) deliver(k *wake) {
	if h.live[k.taskID] != k {
		return // the task was claimed, or there is a newer wake
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

// later delays a wake until a time.
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

// run delivers delayed wakes until closing.
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

// deliverDue delivers the wakes that are due and returns the time until the next.
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

func (t timedWakes) Len() int { return len(t) }

func (t timedWakes) Less(i, j int) bool { return t[i].at.Before(t[j].at) }

func (t timedWakes) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

func (t *timedWakes) Push(x any) { *t = append(*t, x.(*wake)) }

func (t *timedWakes) Pop() any {
	old := *t
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	return last
}
