package lifecycle

import (
	"cmp"
	"iter"
	"slices"

	"github.com/bloom-runtime/bloom"
)

// ContextWorkers are the workers that have worked on a context.
type ContextWorkers struct {
	Holding []string // of its active leases
	Last    string   // of its last lease; empty when it had none
}

// rank returns how well a worker suits the context: 2 for holding one of its active
// leases, plus 1 for its last lease.
func (c ContextWorkers) rank(workerID string) (n int) {
	if slices.Contains(c.Holding, workerID) {
		n = 2
	}
	if workerID == c.Last {
		n++
	}
	return n
}

// PickWorker selects the worker for a task among those that can take it: first by the
// rank in the task's context, then by free capacity, then by most recent contact,
// then by name. ok is false if no worker can take it.
func PickWorker(workers iter.Seq[*bloom.Worker], labels []string, context ContextWorkers) (picked *bloom.Worker, ok bool) {
	for w := range workers {
		if w.CanTake(labels) && (!ok || preferred(w, picked, context)) {
			picked, ok = w, true
		}
	}
	return picked, ok
}

func preferred(a, b *bloom.Worker, context ContextWorkers) bool {
	return cmp.Or(cmp.Compare(context.rank(b.ID), context.rank(a.ID)), cmp.Compare(b.Free(), a.Free()), fresher(a, b)) < 0
}

// fresher orders workers by their last contact, most recent first, and then by name: negative when
// a comes before b.
func fresher(a, b *bloom.Worker) int {
	return cmp.Or(cmp.Compare(contact(b), contact(a)), cmp.Compare(a.ID, b.ID))
}

func contact(w *bloom.Worker) int64 {
	if w.LastHeartbeat == nil {
		return 0
	}
	return *w.LastHeartbeat
}
