package lifecycle

import (
	"cmp"

	"github.com/bloom-runtime/bloom"
)

// PickWorker chooses who gets a task: among those that can take it, a worker that holds an active lease
// of the same context first, else the one with most free capacity, ties by the
// freshest contact and then by name. holdsContext reports whether a worker holds
// a lease of the task's context. ok is false when nobody fits.
func PickWorker(workers []bloom.Worker, labels []string, holdsContext func(workerID string) bool) (picked bloom.Worker, ok bool) {
	var pickedSticky bool
	for _, w := range workers {
		if !w.CanTake(labels) {
			continue
		}
		sticky := holdsContext(w.ID)
		if !ok || preferred(w, sticky, picked, pickedSticky) {
			picked, pickedSticky, ok = w, sticky, true
		}
	}
	return picked, ok
}

func preferred(a bloom.Worker, aSticky bool, b bloom.Worker, bSticky bool) bool {
	if aSticky != bSticky {
		return aSticky
	}
	if a.Free() != b.Free() {
		return a.Free() > b.Free()
	}
	return fresher(a, b) < 0
}

// fresher orders workers by their last contact, the freshest first, and then by
// name: negative when a comes before b.
func fresher(a, b bloom.Worker) int {
	return cmp.Or(cmp.Compare(contact(b), contact(a)), cmp.Compare(a.ID, b.ID))
}

func contact(w bloom.Worker) int64 {
	if w.LastHeartbeat == nil {
		return 0
	}
	return *w.LastHeartbeat
}
