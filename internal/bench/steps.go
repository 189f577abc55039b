package bench

import (
	"slices"
	"sync"
	"time"
)

// Latency is how long a step took, in milliseconds.
type Latency struct {
	Name  string  `json:"step"`
	Count int     `json:"count"`
	P50   float64 `json:"p50_ms"`
	P95   float64 `json:"p95_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
}

// Steps collects how long steps took. Safe for concurrent use.
type Steps struct {
	mu    sync.Mutex
	names []string
	took  map[string][]time.Duration
}

// NewSteps measures steps of these names.
func NewSteps(names ...string) *Steps {
	return &Steps{names: names, took: map[string][]time.Duration{}}
}

// since adds the time from began to now, and returns now.
func (b *Steps) since(name string, began time.Time) time.Time {
	now := time.Now()
	b.Add(name, now.Sub(began))
	return now
}

// Add adds what one step took.
func (b *Steps) Add(name string, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.took[name] = append(b.took[name], d)
}

func (b *Steps) count(name string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.took[name])
}

// Latencies returns those of the steps that were taken.
func (b *Steps) Latencies() []Latency {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := []Latency{}
	for _, name := range b.names {
		took := b.took[name]
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		out = append(out, Latency{Name: name, Count: len(took), P50: quantile(took, 0.50),
			P95: quantile(took, 0.95), P99: quantile(took, 0.99), Max: quantile(took, 1)})
	}
	return out
}

// quantile of sorted durations, in milliseconds: the smallest that at least
// the share q does not exceed.
func quantile(sorted []time.Duration, q float64) float64 {
	at := int(q*float64(len(sorted))+0.999999) - 1
	at = min(max(at, 0), len(sorted)-1)
	return float64(sorted[at]) / float64(time.Millisecond)
}
