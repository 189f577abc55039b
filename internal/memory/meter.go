package memory

import (
	"context"
	"sync"
	"time"
)

// Facts describe a node's memory at the last measurement.
type Facts struct {
	Observations int64
	// SHA256 is that of a snapshot. It is equal on two nodes with the same memory.
	SHA256 string
}

// measureShare limits the cost of measuring: after a measurement that took a second there
// is none for measureShare seconds.
const measureShare = 30

// Meter measures a node's database when it has changed. Its methods are safe for concurrent
// use.
type Meter struct {
	p *Project

	mu        sync.Mutex
	facts     *Facts    // nil before the first measurement
	measured  fileState // of the database when it was measured
	notBefore time.Time // of the next measurement
}

// NewMeter makes a Meter for the database of p.
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

// Measure reads the database if it has changed since the last measurement and enough time
// has passed. For an unchanged database it only calls stat twice.
func (m *Meter) Measure(ctx context.Context) error {
	began, now := time.Now(), fileStateOf(m.p.DB)
	m.mu.Lock()
	due := (m.facts == nil || now != m.measured) && began.After(m.notBefore)
	m.mu.Unlock()
	if !due {
		return nil
	}
	there, err := m.p.readLocal(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notBefore = time.Now().Add(measureShare * time.Since(began))
	if err != nil {
		return err
	}
	there.remove()
	if there.damage != nil {
		return there.damage
	}
	m.measured, m.facts = now, &Facts{Observations: there.Observations, SHA256: there.SHA256}
	return nil
}
