package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
)

func TestWhyATaskWaits(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_800_000_000_000)
	fit := bloom.Worker{Status: bloom.WorkerOnline, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1, Labels: []string{"gpu"}}}
	with := func(change func(*bloom.Worker)) bloom.Worker {
		w := fit
		change(&w)
		return w
	}
	labelled := bloom.Task{Labels: []string{"gpu"}}
	later := bloom.Task{TaskState: bloom.TaskState{RunAt: now.Add(time.Hour).UnixMilli()}}
	for name, c := range map[string]struct {
		task    bloom.Task
		workers []bloom.Worker
		want    string
	}{
		"not due":              {later, []bloom.Worker{fit}, "waiting until"},
		"nobody":               {labelled, nil, "start one with"},
		"all offline":          {labelled, []bloom.Worker{with(func(w *bloom.Worker) { w.Status = bloom.WorkerOffline })}, "no worker is online"},
		"labels":               {bloom.Task{Labels: []string{"arm", "gpu"}}, []bloom.Worker{fit}, "labels arm, gpu"},
		"no claude where fits": {labelled, []bloom.Worker{with(func(w *bloom.Worker) { w.Capabilities.ClaudeCLI = false }), with(func(w *bloom.Worker) { w.Capabilities.Labels = nil })}, "claude command line"},
		"drained":              {labelled, []bloom.Worker{with(func(w *bloom.Worker) { w.Draining = true })}, "drained"},
		"busy":                 {labelled, []bloom.Worker{with(func(w *bloom.Worker) { w.ActiveLeases = 1 })}, "busy"},
		"ordered":              {bloom.Task{Policy: bloom.Policy{Ordered: true}}, []bloom.Worker{fit}, "earlier ordered"},
		"about to start":       {labelled, []bloom.Worker{fit}, "waiting for a worker"},
	} {
		if got := waitReason(c.task, c.workers, now); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want it to say %q", name, got, c.want)
		}
	}
}
