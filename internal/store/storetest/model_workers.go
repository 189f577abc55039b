package storetest

import (
	"pgregory.net/rapid"

	"github.com/bloom-runtime/bloom"
)

func (m *model) register(name string, slots int, labels ...string) {
	_, created, err := m.h.s.RegisterWorker(m.h.ctx, bloom.WorkerSpec{
		Name: name, InstanceID: name + "-1", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: slots, Labels: labels},
	}, "me")
	w := m.workers[name]
	if err != nil || created != (w == nil || w.removed) {
		m.Fatalf("register: created is %v, %v", created, err)
	}
	draining := w != nil && !w.removed && w.draining
	m.workers[name] = &modelWorker{slots: slots, labels: labels, draining: draining}
}

func (m *model) registerAny(t *rapid.T) {
	m.register(m.anyWorker(t), rapid.IntRange(1, 3).Draw(t, "slots"), rapid.SampledFrom([][]string{nil, {"x"}, {"y", "x"}}).Draw(t, "carries")...)
}

func (m *model) remove(t *rapid.T) {
	name := m.anyWorker(t)
	var refused error
	if w := m.workers[name]; w == nil || w.removed {
		refused = bloom.ErrWorkerNotFound
	}
	if !m.agree("remove", m.h.s.RemoveWorker(m.h.ctx, name, "me"), refused) {
		return
	}
	m.workers[name].removed = true
	for _, l := range m.leases {
		if l.WorkerID == name && l.Status == bloom.LeaseActive {
			if err := m.unlease(l, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (m *model) drain(t *rapid.T) {
	name, drain := m.anyWorker(t), rapid.Bool().Draw(t, "drain")
	var refused error
	w := m.workers[name]
	if w == nil || w.removed {
		refused = bloom.ErrWorkerNotFound
	}
	_, err := m.h.s.DrainWorker(m.h.ctx, name, drain, "me")
	if m.agree("drain", err, refused) {
		w.draining = drain
	}
}
