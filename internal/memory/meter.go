package memory

import (
	"context"
	"sync"
	"time"
)

// Facts describe a node's memory as it was at the last measurement.
type Facts struct {
	Observations int64
	// SHA256 is that of a snapshot: equal on two nodes that are in step.
	SHA256 string
}

// measureShare bounds what measuring costs: a measurement that took a second is
// followed by none for measureShare seconds.
const measureShare = 30

// Meter measures a node's database when it has changed. Its methods may be called at
// the same time.
type Meter struct {
	p *Project

	mu    sync.Mutex
	facts *Facts // nil before the first measurement
	of    stamp
	not   time.Time // before then
}

// NewMeter measures the database of p.
func NewMeter(p *Project) *Meter { return &Meter{p: p} }

// Facts returns the last measurement; ok is false before there is one.
func (m *Meter) Facts() (f Facts, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.facts == nil {
		return Facts{}, false
	}
	return *m.facts, true
}

// Measure reads the database if it has changed since the last measurement, and that was
// not a moment ago. A database that nobody writes costs two calls of stat.
func (m *Meter) Measure(ctx context.Context) error {
	began, now := time.Now(), stampOf(m.p.DB)
	m.mu.Lock()
	due := m.facts == nil && m.not.IsZero() || now != m.of && began.After(m.not)
	m.mu.Unlock()
	if !due {
		return nil
	}
	there, err := m.p.look(ctx)
	if err != nil {
		return err
	}
	there.remove()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.not = time.Now().Add(measureShare * time.Since(began))
	if there.damage != nil {
		return there.damage
	}
	m.of, m.facts = now, &Facts{Observations: there.Observations, SHA256: there.SHA256}
	return nil
}
