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
	known map[string]int64 // the order to drain that the agent's polls know of, by number
}

func newWaiting(limit int) *waiting {
	return &waiting{limit: limit, bell: map[string]chan struct{}{}, polls: map[string]int{}, known: map[string]int64{}}
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

// knows notes which order to drain a waiting agent was told of.
func (w *waiting) knows(agent string, order int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[agent] = order
}

// agents are those that wait and were known when they came.
func (w *waiting) agents() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.known))
}

// ringOrdered wakes those that wait and do not know of their order.
func (w *waiting) ringOrdered(orders map[string]int64) {
	for _, agent := range w.unaware(orders) {
		w.ring(agent)
	}
}

func (w *waiting) unaware(orders map[string]int64) (agents []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for agent, known := range w.known {
		if order, given := orders[agent]; given && order != known {
			agents = append(agents, agent)
		}
	}
	return agents
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
