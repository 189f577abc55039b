package membridge

import (
	"maps"
	"slices"
	"sync"
)

// waiting has the heartbeats that wait for commands, by agent.
type waiting struct {
	mu    sync.Mutex
	limit int
	count int
	wake  map[string]chan struct{} // one per waiting agent, closed to wake all of its heartbeats
	polls map[string]int
	known map[string]bool // whether the agent is drained, as last reported to it
}

func newWaiting(limit int) *waiting {
	return &waiting{limit: limit, wake: map[string]chan struct{}{}, polls: map[string]int{}, known: map[string]bool{}}
}

// enter returns the agent's channel, or nil when too many heartbeats wait. Call it before reading
// the commands, so that one that arrives in between wakes the heartbeat. Call leave once for each
// channel.
func (w *waiting) enter(agent string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count >= w.limit {
		return nil
	}
	w.count++
	w.polls[agent]++
	if w.wake[agent] == nil {
		w.wake[agent] = make(chan struct{})
	}
	return w.wake[agent]
}

func (w *waiting) leave(agent string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count--
	if w.polls[agent]--; w.polls[agent] <= 0 {
		delete(w.polls, agent)
		delete(w.wake, agent)
		delete(w.known, agent)
	}
}

// knows records the drain state that the waiting agent last received.
func (w *waiting) knows(agent string, drain bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[agent] = drain
}

// agents returns the waiting agents that were known when they started to wait.
func (w *waiting) agents() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.known))
}

// wakeChanged wakes the agents whose drain state has changed, and those that no longer exist.
func (w *waiting) wakeChanged(agents []string, levels map[string]bool) {
	for _, agent := range agents {
		level, there := levels[agent]
		w.mu.Lock()
		known, waits := w.known[agent]
		w.mu.Unlock()
		if waits && (!there || level != known) {
			w.wakeAgent(agent)
		}
	}
}

// wakeAgent wakes the agent's heartbeats. Later ones wait for the next call.
func (w *waiting) wakeAgent(agent string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wake := w.wake[agent]; wake != nil {
		close(wake)
		w.wake[agent] = make(chan struct{})
	}
}

// size returns the number of waiting heartbeats.
func (w *waiting) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}
