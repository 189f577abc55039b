package membridge

import (
	"maps"
	"slices"
	"sync"
)

// waiting is who waits for orders: the heartbeats held open, by agent.
type waiting struct {
	mu    sync.Mutex
	limit int
	count int
	bell  map[string]chan struct{} // one per waiting agent, closed to wake all of its polls
	polls map[string]int
	known map[string]bool // whether it is drained, as the agent's polls know
}

func newWaiting(limit int) *waiting {
	return &waiting{limit: limit, bell: map[string]chan struct{}{}, polls: map[string]int{}, known: map[string]bool{}}
}

// enter returns the agent's bell, or nil when too many wait already. Take it
// before looking for orders: one that comes in between then rings. leave must be
// called once for each bell.
func (w *waiting) enter(agent string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count >= w.limit {
		return nil
	}
	w.count++
	w.polls[agent]++
	if w.bell[agent] == nil {
		w.bell[agent] = make(chan struct{})
	}
	return w.bell[agent]
}

func (w *waiting) leave(agent string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count--
	if w.polls[agent]--; w.polls[agent] <= 0 {
		delete(w.polls, agent)
		delete(w.bell, agent)
		delete(w.known, agent)
	}
}

// knows notes whether a waiting agent was told that it is drained.
func (w *waiting) knows(agent string, drain bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[agent] = drain
}

// agents are those that wait and were known when they came.
func (w *waiting) agents() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.known))
}

// ringChanged wakes those of the agents whose level is not the one that they know,
// and those that are gone.
func (w *waiting) ringChanged(agents []string, levels map[string]bool) {
	for _, agent := range agents {
		level, there := levels[agent]
		w.mu.Lock()
		known, waits := w.known[agent]
		w.mu.Unlock()
		if waits && (!there || level != known) {
			w.ring(agent)
		}
	}
}

// ring wakes the agent's polls. The next to enter waits for the next ring.
func (w *waiting) ring(agent string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if bell := w.bell[agent]; bell != nil {
		close(bell)
		w.bell[agent] = make(chan struct{})
	}
}

// size is how many polls wait.
func (w *waiting) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}
