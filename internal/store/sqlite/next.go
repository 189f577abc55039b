package sqlite

import (
	"cmp"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/schema"
)

// next lists at most n open tasks that the worker may take, the best first. It
// reads the first few of the queue for each set of labels that the worker
// carries, however many others wait.
func (t *tx) next(w bloom.Worker, n int) ([]task, error) {
	keys, err := t.carried(w)
	if err != nil {
		return nil, err
	}
	var best []candidate
	for _, key := range keys {
		if best, err = t.candidates(best, w.ID, key, n); err != nil {
			return nil, err
		}
	}
	tasks := make([]task, len(best))
	for i, c := range best {
		if tasks[i], err = t.task(c.id); err != nil {
			return nil, err
		}
	}
	return tasks, nil
}

// candidate is an open task's place in the queue.
type candidate struct {
	seq, priority int64
	id            string
}

// candidates merges the best n of one set of labels into best.
func (t *tx) candidates(best []candidate, workerID, key string, n int) ([]candidate, error) {
	err := t.each(`SELECT seq, priority, id FROM llm_tasks INDEXED BY llm_tasks_queue
		WHERE status = 'queued' AND gate = 'open' AND label_key = ?1
		  AND (preferred_worker IS NULL OR preferred_worker = ?2 OR preferred_until <= ?3)
		ORDER BY priority DESC, seq LIMIT ?4`,
		func(r row) error {
			best = append(best, candidate{seq: r.int(0), priority: r.int(1), id: r.str(2)})
			return nil
		}, key, workerID, t.now, n)
	slices.SortFunc(best, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.seq, b.seq))
	})
	return best[:min(n, len(best))], err
}

// Bounds of the sets of labels looked at in one claim.
const (
	maxSubsetLabels = 6 // up to here all sets that the worker's labels make, 64
	maxWalkedSets   = 500
)

// carried lists the sets of labels to look for: what the worker's labels make
// when they are few, else what is in the queue.
func (t *tx) carried(w bloom.Worker) ([]string, error) {
	labels := slices.Compact(slices.Sorted(slices.Values(w.Capabilities.Labels)))
	if len(labels) > maxSubsetLabels {
		return t.walkSets(w)
	}
	keys := make([]string, 0, 1<<len(labels))
	for set := range 1 << len(labels) {
		var some []string
		for i, l := range labels {
			if set&(1<<i) != 0 {
				some = append(some, l)
			}
		}
		keys = append(keys, schema.LabelKey(some))
	}
	return keys, nil
}

// walkSets goes through the distinct sets of labels in the queue, and goes on
// from there in the worker's next claim when there are too many for one.
func (t *tx) walkSets(w bloom.Worker) ([]string, error) {
	from := t.mem.walked[w.ID]
	delete(t.mem.walked, w.ID)
	keys := []string{""}
	for range maxWalkedSets {
		r, ok, err := t.one(`SELECT label_key, labels FROM llm_tasks INDEXED BY llm_tasks_queue
			WHERE status = 'queued' AND gate = 'open' AND label_key > ? ORDER BY label_key LIMIT 1`, from)
		if err != nil || !ok {
			return keys, err
		}
		from = r.str(0)
		if w.Capabilities.Carries(r.list(1)) {
			keys = append(keys, from)
		}
	}
	t.mem.walked[w.ID] = from
	return keys, nil
}
