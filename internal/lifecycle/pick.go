package lifecycle

import (
	"cmp"
	"slices"

	"github.com/bloom-runtime/bloom"
)

// ContextWorkers are the workers that know a context.
type ContextWorkers struct {
	Holding []string // of its active leases
	Last    string   // of its last lease; empty when it had none
}

// rank is how much is in favour of a worker: that it works on the context now, that it
// did last.
func (c ContextWorkers) rank(workerID string) (n int) {
	if slices.Contains(c.Holding, workerID) {
		n = 2
	}
	if workerID == c.Last {
		n++
	}
	return n
}

// PickWorker selects the worker for a task among those that can take it: first one that holds an
// active lease of the same context, then the one with the most free capacity, then the most recent
// contact, then by name. holdsContext reports whether a worker holds a lease of the task's context.
// ok is false when no worker can take it.
func PickWorker(workers []bloom.Worker, labels []string, context ContextWorkers) (picked bloom.Worker, ok bool) {
	for _, w := range workers {
		if w.CanTake(labels) && (!ok || preferred(w, picked, context)) {
			picked, ok = w, true
		}
	}
	return picked, ok
}

func preferred(a, b bloom.Worker, context ContextWorkers) bool {
	return cmp.Or(cmp.Compare(context.rank(b.ID), context.rank(a.ID)), cmp.Compare(b.Free(), a.Free()), fresher(a, b)) < 0
}

// fresher orders workers by their last contact, most recent first, and then by name: negative when
// a comes before b.
func fresher(a, b bloom.Worker) int {
	return cmp.Or(cmp.Compare(contact(b), contact(a)), cmp.Compare(a.ID, b.ID))
}

func contact(w bloom.Worker) int64 {
	if w.LastHeartbeat == nil {
		return 0
	}
	return *w.LastHeartbeat
}
