package store

import (
	"slices"
	"sync"
)

// usual remembers which sets of labels a worker's last claim looked for: hints of
// what to read, nothing is decided on them.
type usual struct {
	mu      sync.Mutex
	workers map[string]usualSets
}

type usualSets struct {
	labels, keys []string
	from         string // where the walk through the queue's sets goes on
}

// walk is how far a claim has looked.
type walk struct{ worker, to string }

func (m *usual) keys(worker string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.workers[worker].keys
}

// of are the keys of all sets that the labels make.
func (m *usual) of(worker string, labels []string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if is, ok := m.workers[worker]; ok && is.keys != nil && slices.Equal(is.labels, labels) {
		return is.keys
	}
	is := usualSets{labels: labels, keys: subsets(labels)}
	m.workers[worker] = is
	return is.keys
}

func (m *usual) place(worker string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.workers[worker].from
}

func (m *usual) walk(worker, to string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.workers[worker] = usualSets{from: to}
}
