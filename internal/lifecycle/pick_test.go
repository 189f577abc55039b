package lifecycle_test

import (
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
)

func worker(id string, max, active int, contact int64, labels ...string) bloom.Worker {
	return bloom.Worker{
		ID: id, Status: bloom.WorkerOnline, LastHeartbeat: &contact, ActiveLeases: active,
		Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: max, Labels: labels},
	}
}

func TestPickingAWorker(t *testing.T) {
	t.Parallel()
	offline := worker("offline", 9, 0, 9)
	offline.Status = bloom.WorkerOffline
	noClaude := worker("no-claude", 9, 0, 9)
	noClaude.Capabilities.ClaudeCLI = false
	draining := worker("draining", 9, 0, 9)
	draining.Draining = true
	never := worker("never-seen", 2, 0, 0)
	never.LastHeartbeat = nil

	for name, c := range map[string]struct {
		workers []bloom.Worker
		labels  []string
		context lifecycle.ContextWorkers
		want    string
	}{
		"nobody there":                         {want: ""},
		"only unfit ones":                      {workers: []bloom.Worker{offline, noClaude, draining, worker("full", 2, 2, 9)}, want: ""},
		"most free capacity":                   {workers: []bloom.Worker{worker("a", 4, 3, 9), worker("b", 2, 0, 1)}, want: "b"},
		"who works on the context before room": {workers: []bloom.Worker{worker("a", 4, 3, 9), worker("b", 2, 0, 1)}, context: lifecycle.ContextWorkers{Holding: []string{"a"}}, want: "a"},
		"who worked on it last before room":    {workers: []bloom.Worker{worker("a", 4, 3, 9), worker("b", 2, 0, 1)}, context: lifecycle.ContextWorkers{Last: "a"}, want: "a"},
		"who works on it before who did last":  {workers: []bloom.Worker{worker("a", 4, 3, 9), worker("b", 2, 0, 1)}, context: lifecycle.ContextWorkers{Holding: []string{"a"}, Last: "b"}, want: "a"},
		"of those who work on it the last one": {workers: []bloom.Worker{worker("a", 4, 3, 9), worker("b", 2, 0, 1)}, context: lifecycle.ContextWorkers{Holding: []string{"b", "a"}, Last: "a"}, want: "a"},
		"the context's worker is full":         {workers: []bloom.Worker{worker("a", 4, 4, 9), worker("b", 2, 0, 1)}, context: lifecycle.ContextWorkers{Holding: []string{"a"}, Last: "a"}, want: "b"},
		"the context's worker is offline":      {workers: []bloom.Worker{offline, worker("b", 2, 0, 1)}, context: lifecycle.ContextWorkers{Last: "offline"}, want: "b"},
		"the context's worker is drained":      {workers: []bloom.Worker{draining, worker("b", 2, 0, 1)}, context: lifecycle.ContextWorkers{Last: "draining"}, want: "b"},
		"ties by the freshest contact":         {workers: []bloom.Worker{worker("a", 2, 0, 5), worker("b", 2, 0, 7), never}, want: "b"},
		"then by name":                         {workers: []bloom.Worker{worker("b", 2, 0, 5), worker("a", 2, 0, 5)}, want: "a"},
		"labels all carried":                   {workers: []bloom.Worker{worker("a", 9, 0, 5, "gpu"), worker("b", 2, 0, 5, "eu", "gpu")}, labels: []string{"gpu", "eu"}, want: "b"},
		"labels carried by none":               {workers: []bloom.Worker{worker("a", 9, 0, 5, "gpu")}, labels: []string{"arm"}, want: ""},
	} {
		got, ok := lifecycle.PickWorker(func(yield func(*bloom.Worker) bool) {
			for i := range c.workers {
				if !yield(&c.workers[i]) {
					return
				}
			}
		}, c.labels, c.context)
		if ok != (c.want != "") || ok && got.ID != c.want {
			t.Errorf("%s: picked %v (%t), want %q", name, got, ok, c.want)
		}
	}
}
