package store

import (
	"slices"
	"sync"

	"github.com/bloom-runtime/bloom"
)

// labelCache caches the label keys that each worker's claims look for. It only
// suggests what to read; no decision depends on it.
type labelCache struct {
	mu      sync.Mutex
	workers map[string]cachedLabels
}

type cachedLabels struct {
	labels, keys []string
	from         string // the label key after which the next scan of the queue starts
}

// labelScan is where a claim's scan of the queue's label sets ended.
type labelScan struct{ worker, to string }

// keys returns the cached keys of a worker, nil if there are none.
func (m *labelCache) keys(worker string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.workers[worker].keys
}

// subsetKeys returns the keys of all subsets of a worker's labels.
func (m *labelCache) subsetKeys(worker string, labels []string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.workers[worker]; ok && c.keys != nil && slices.Equal(c.labels, labels) {
		return c.keys
	}
	c := cachedLabels{labels: labels, keys: subsets(labels)}
	m.put(worker, c)
	return c.keys
}

// put caches the labels of a worker. It evicts any other one if there are too many: this
// server may not learn which of them are gone.
func (m *labelCache) put(worker string, c cachedLabels) {
	if _, known := m.workers[worker]; !known && len(m.workers) >= bloom.MaxWorkers {
		for other := range m.workers {
			delete(m.workers, other)
			break
		}
	}
	m.workers[worker] = c
}

// position returns where the worker's next scan starts.
func (m *labelCache) position(worker string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.workers[worker].from
}

func (m *labelCache) setPosition(scan labelScan) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(scan.worker, cachedLabels{from: scan.to})
}
