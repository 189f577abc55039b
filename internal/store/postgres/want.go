package postgres

import "slices"

// want is what the operations of a transaction need to be read before they run.
type want struct {
	alone bool // the operation is the only one

	tasks    []string   // locked; without prompt and hints
	whole    []string   // locked, with everything
	leases   []string   // leases by id
	active   []string   // tasks whose active lease is meant
	contexts []string   // whose home may be preferred
	homesOf  []string   // tasks whose context's home may be preferred
	keys     []idemKey  // idempotency keys
	fresh    int        // numbers for new tasks
	events   []eventKey // worker's events that may be stored already
	workers  []string   // by name
	anyone   bool       // all workers that are online
	holders  []string   // tasks, for whose context the holding workers are asked
	claims   []claimWant

	numbered bool // writes without having locked anything: needs a number all the same

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

func (w *want) claimers() (names []string) {
	for _, c := range w.claims {
		names = append(names, c.worker)
	}
	return names
}

// allTasks are the ids of all tasks that are named.
func (w *want) allTasks() []string { return slices.Concat(w.tasks, w.whole) }
