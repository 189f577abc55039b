package store

import (
	"cmp"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// choose returns the best open tasks for a worker with that many leases. It runs
// before anything is changed.
func (u *Unit) choose(w *lifecycle.KnownWorker, held int, lost []string, r contract.ClaimRequest) ([]*Task, error) {
	claimer := w.Worker
	claimer.ActiveLeases = held
	if w.Silent() {
		claimer.Status = bloom.WorkerOnline // by this claim
	}
	n := min(r.Max, claimer.Free())
	if n <= 0 || !claimer.CanTake(nil) {
		return nil, nil
	}
	if !r.Renew {
		if expired, err := u.anyExpired(lost); err != nil || expired {
			return nil, err
		}
	}
	if err := u.due(); err != nil {
		return nil, err
	}
	keys, err := u.labelKeys(w)
	if err != nil {
		return nil, err
	}
	return u.best(w, keys, n)
}

// anyExpired reports whether one of the leases was reaped.
func (u *Unit) anyExpired(ids []string) (bool, error) {
	for _, id := range ids {
		if l, read := leases.seen(u, id); read {
			if l != nil && l.Status == bloom.LeaseExpired {
				return true, nil
			}
			continue
		}
		reaped, err := expired.get(u, id)
		if err != nil {
			expired.want(u.rows, ids...)
			return false, err
		}
		if reaped {
			return true, nil
		}
	}
	return false, nil
}

// due makes the claim wait until delayed tasks that are due have been opened. It does
// so once per claim, so that a task that cannot be opened does not block it.
func (u *Unit) due() error {
	is, err := due.get(u, one)
	if err == nil && is && !u.op.dueOpened {
		err = u.stop(findsDue)
	}
	return err
}

// best returns the first n open tasks with these label keys, by priority and age.
func (u *Unit) best(w *lifecycle.KnownWorker, keys []string, n int) ([]*Task, error) {
	var best []*Task
	incomplete := false
	for _, key := range keys {
		line, ok := open.of(u.rows).Get(key)
		if !ok {
			wantOpen(u.rows, w.ID, key, n)
			incomplete = true
			continue
		}
		fits := 0
		for _, p := range line.Tasks {
			t, err := u.task(p.ID)
			if err != nil {
				return nil, err
			}
			if u.claimable(t, w) {
				best, fits = append(best, t), fits+1
			}
		}
		if line.Cut && fits < n {
			open.wantUpTo(u.rows, key, 3*len(line.Tasks)+n) // grows, so that a few reads suffice
			claimers.want(u.rows, w.ID)
			incomplete = true
		}
	}
	if incomplete {
		return nil, u.stop(lacksRows)
	}
	for t := range tasks.changes(&u.c) { // created, released or opened by this transaction
		if u.claimable(t, w) && !slices.Contains(best, t) {
			best = append(best, t)
		}
	}
	slices.SortFunc(best, func(a, b *Task) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Seq, b.Seq))
	})
	return best[:min(n, len(best))], nil
}

// claimable reports whether a worker may be given the task now.
func (u *Unit) claimable(t *Task, w *lifecycle.KnownWorker) bool {
	return !u.s.quarantined.has(notGiven, t.ID) && !u.s.quarantined.has(notGivenTo, forWorker(t.ID, w.ID)) && t.Status == bloom.TaskQueued && t.Gate == contract.GateOpen && t.RunAt <= u.Now && w.Capabilities.Carries(t.Labels) &&
		(t.Preferred == nil || *t.Preferred == w.ID || t.Until <= u.Now)
}

const (
	maxSubsetLabels = 6   // a worker's labels of which all subsets (64) are looked up
	maxScannedSets  = 500 // label sets of the queue scanned by one claim
)

// labelKeys returns the label keys to look for: every subset of the worker's labels if
// those are few, else the label sets in the queue, from where its last claim stopped.
func (u *Unit) labelKeys(w *lifecycle.KnownWorker) ([]string, error) {
	labels := slices.Compact(slices.Sorted(slices.Values(w.Capabilities.Labels)))
	if len(labels) <= maxSubsetLabels {
		return u.s.labels.subsetKeys(w.ID, labels), nil
	}
	from := u.s.labels.position(w.ID)
	sets, err := labelSets.getUpTo(u, from, maxScannedSets)
	if err != nil {
		return nil, err
	}
	keys := []string{""}
	for _, set := range sets {
		if set.Key != "" && w.Capabilities.Carries(set.Labels) {
			keys = append(keys, set.Key)
		}
	}
	if len(sets) == maxScannedSets {
		u.scans = append(u.scans, labelScan{w.ID, sets[len(sets)-1].Key})
	} else {
		u.scans = append(u.scans, labelScan{w.ID, ""})
	}
	return keys, nil
}

// subsets returns the keys of all subsets of the labels.
func subsets(labels []string) []string {
	keys := make([]string, 0, 1<<len(labels))
	for mask := range 1 << len(labels) {
		var subset []string
		for i, l := range labels {
			if mask&(1<<i) != 0 {
				subset = append(subset, l)
			}
		}
		keys = append(keys, schema.LabelKey(subset))
	}
	return keys
}
