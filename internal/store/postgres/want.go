package postgres

import "slices"

// want is what the operations of a transaction need to be read before they run.
type want struct {
	alone bool // the operation is the only one

	tasks   []string   // locked; without prompt and hints
	whole   []string   // locked, with everything
	leases  []string   // leases by id
	active  []string   // tasks whose active lease is meant
	newborn []string   // ids for new tasks, that may be there already
	keys    []idemKey  // idempotency keys
	events  []eventKey // worker's events that may be stored already
	workers []string   // by name
	anyone  bool       // all workers that are online
	holders []string   // tasks, for whose context the holding workers are asked
	claims  []claimWant

	lockContexts []string // of ordered tasks, besides those of the tasks named
	lockWorkers  []string // whose slots are given out
	lockAll      bool     // slots of any worker are given out
}

type claimWant struct {
	worker string
	most   int
	held   []string
	renew  bool
}

func (w *want) renewers() (names []string) {
	for _, c := range w.claims {
		if c.renew {
			names = append(names, c.worker)
		}
	}
	return names
}

// heldByAll are the leases that every claim of their worker names.
func (w *want) heldByAll() (ids []string) {
	claims, named := map[string]int{}, map[[2]string]int{}
	for _, c := range w.claims {
		claims[c.worker]++
		for _, id := range slices.Compact(slices.Sorted(slices.Values(c.held))) {
			named[[2]string{c.worker, id}]++
		}
	}
	for k, n := range named {
		if n == claims[k[0]] {
			ids = append(ids, k[1])
		}
	}
	return ids
}

func (w *want) claimers() (names []string) {
	for _, c := range w.claims {
		names = append(names, c.worker)
	}
	return names
}

// allTasks are the ids of all tasks that are named.
func (w *want) allTasks() []string { return slices.Concat(w.tasks, w.whole, w.newborn) }
