package store

import (
	"strconv"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
)

func TestCachesOfWorkersAreBounded(t *testing.T) {
	t.Parallel()
	labels, seen := &labelCache{workers: map[string]cachedLabels{}}, &contacts{}
	for i := range bloom.MaxWorkers + 10 {
		name := "w" + strconv.Itoa(i)
		labels.subsetKeys(name, nil)
		w := lifecycle.KnownWorker{InstanceSeen: 1}
		w.ID, w.Status = name, bloom.WorkerOnline
		seen.note(&w)
	}
	if len(labels.workers) != bloom.MaxWorkers || len(seen.seen) > bloom.MaxWorkers || len(seen.seen) == 0 {
		t.Errorf("labels of %d workers and contacts of %d are cached", len(labels.workers), len(seen.seen))
	}
	if keys := labels.keys("w" + strconv.Itoa(bloom.MaxWorkers+9)); len(keys) != 1 {
		t.Errorf("the last worker's keys are %q", keys)
	}
}
