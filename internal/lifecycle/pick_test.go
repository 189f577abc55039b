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
		sticky  string
		want    string
	}{
		"nobody there":                     {want: ""},
		"only unfit ones":                  {workers: []bloom.Worker{offline, noClaude, draining, worker("full", 2, 2, 9)}, want: ""},
		"most free capacity":               {workers: []bloom.Worker{worker("a", 4, 3, 9), worker("b", 2, 0, 1)}, want: "b"},
		"the context's worker before room": {workers: []bloom.Worker{worker("a", 4, 3, 9), worker("b", 2, 0, 1)}, sticky: "a", want: "a"},
		"the context's worker is full":     {workers: []bloom.Worker{worker("a", 4, 4, 9), worker("b", 2, 0, 1)}, sticky: "a", want: "b"},
		"ties by the freshest contact":     {workers: []bloom.Worker{worker("a", 2, 0, 5), worker("b", 2, 0, 7), never}, want: "b"},
		"then by name":                     {workers: []bloom.Worker{worker("b", 2, 0, 5), worker("a", 2, 0, 5)}, want: "a"},
		"labels all carried":               {workers: []bloom.Worker{worker("a", 9, 0, 5, "gpu"), worker("b", 2, 0, 5, "eu", "gpu")}, labels: []string{"gpu", "eu"}, want: "b"},
		"labels carried by none":           {workers: []bloom.Worker{worker("a", 9, 0, 5, "gpu")}, labels: []string{"arm"}, want: ""},
	} {
		got, ok := lifecycle.PickWorker(c.workers, c.labels, func(id string) bool { return id == c.sticky })
		if got.ID != c.want || ok != (c.want != "") {
			t.Errorf("%s: picked %q (%t), want %q", name, got.ID, ok, c.want)
		}
	}
}
