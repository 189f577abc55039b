package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
)

// Claim is one look of a worker at its work. One that finds nothing writes nothing
// but, every bloom.ContactEvery, that the worker was heard of. What it names may be
// ended by others meanwhile: such a lease is lost or, while they are at it, left
// alone, and the claim goes on. So it does without rows that cannot be changed.
func (s *Store) Claim(ctx context.Context, r bloom.ClaimRequest) (bloom.ClaimResult, error) {
	res, err := s.claim(ctx, &look{ClaimRequest: r})
	if isBad(err) {
		return s.isolate(ctx, r)
	}
	return res, err
}

func (s *Store) claim(ctx context.Context, r *look) (bloom.ClaimResult, error) {
	want := func(w *ReadSet) {
		w.Workers.Add(r.WorkerID)
		wantHeld(w, r.WorkerID, r.Renew && len(r.Held) > 0)
		if r.Max > 0 {
			w.Due = true
			for _, key := range s.usual.keys(r.WorkerID) {
				wantOpen(w, r.WorkerID, key, r.Max)
			}
		}
	}
	return do(ctx, s, want, func(u *Unit) (bloom.ClaimResult, error) { return u.claim(r) })
}

func wantHeld(w *ReadSet, worker string, lock bool) {
	if w.Held == nil {
		w.Held = map[string]bool{}
	}
	w.Held[worker] = w.Held[worker] || lock
}

// wantOpen asks for n open tasks more of a set of labels.
func wantOpen(w *ReadSet, worker, key string, n int) {
	if w.Queue == nil {
		w.Queue = map[string]int{}
	}
	w.Askers.Add(worker)
	w.Queue[key] += min(n, bloom.MaxConcurrency)
}

func (u *Unit) claim(r *look) (res bloom.ClaimResult, err error) {
	res = bloom.ClaimResult{Leases: []bloom.LeasedTask{}, Renewed: []bloom.Renewal{}, Lost: []string{}, Cancel: []string{}}
	w, err := u.worker(r.WorkerID)
	if err != nil {
		return res, err
	}
	if w.ConflictsWith(r.InstanceID, r.MustName, u.Now) {
		return res, bloom.ErrWorkerConflict
	}
	held, err := u.held(w.ID)
	if err != nil {
		return res, err
	}
	res.Lost = lost(r.Held, held)
	tasks, err := u.choose(w, len(held), res.Lost, r.ClaimRequest)
	if err != nil {
		return res, err
	}
	if r.took = ""; len(tasks) > 0 {
		r.took = tasks[0].ID
	}
	if err := u.needTexts(held, tasks, r.Held); err != nil {
		return res, err
	}
	u.contact(w, r.InstanceID)
	if err := u.claimHeld(&res, held, r); err != nil {
		return res, err
	}
	res.Drain, res.Labels = w.Draining, w.Capabilities.Labels
	for _, t := range tasks {
		tr, err := u.grant(t, w.ID, r.TTLSec)
		if err != nil {
			return res, err
		}
		if err := u.apply(t, nil, tr, w.ID); err != nil {
			return res, err
		}
		if err := u.hand(&res, tr.Lease, t); err != nil {
			return res, err
		}
	}
	return res, nil
}

// needTexts asks at once for the texts that the answer lacks: of the leases that the
// worker does not name, and of the tasks that it gets.
func (u *Unit) needTexts(held []Holding, tasks []*Task, named []string) (lacks error) {
	need := func(t *Task) {
		if _, err := u.whole(t); err != nil {
			lacks = err
		}
	}
	for _, h := range held {
		if !slices.Contains(named, h.Lease.ID) {
			need(h.Task)
		}
	}
	for _, t := range tasks {
		need(t)
	}
	return lacks
}

// hand puts a lease and its task into an answer.
func (u *Unit) hand(res *bloom.ClaimResult, l bloom.Lease, t *Task) error {
	task, err := u.whole(t)
	res.Leases = append(res.Leases, bloom.LeasedTask{Lease: l, Task: task})
	return err
}

// held are the active leases of a worker. Those that others have locked are as they
// were before.
func (u *Unit) held(worker string) ([]Holding, error) {
	read, ok := u.rows.Held[worker]
	if !ok {
		wantHeld(&u.need, worker, false)
		return nil, errNeed
	}
	held := make([]Holding, 0, len(read))
	for _, h := range read {
		if l, ok := u.leases[h.Lease.ID]; ok {
			h.Lease = l.Lease
		}
		if t, ok := u.tasks[h.Lease.TaskID]; ok {
			h.Task = t
		}
		if h.Lease.Status == bloom.LeaseActive {
			held = append(held, h)
		}
	}
	for _, l := range u.c.NewLeases {
		if l.WorkerID == worker && l.Status == bloom.LeaseActive {
			held = append(held, Holding{l.Lease, u.tasks[l.TaskID]})
		}
	}
	return held, nil
}

// lost are the leases that are named and not held.
func lost(named []string, held []Holding) []string {
	gone := []string{}
	for _, id := range named {
		if !slices.ContainsFunc(held, func(h Holding) bool { return h.Lease.ID == id }) && !slices.Contains(gone, id) {
			gone = append(gone, id)
		}
	}
	return gone
}

// claimHeld compares what the worker says it holds with what it was given.
func (u *Unit) claimHeld(res *bloom.ClaimResult, held []Holding, r *look) error {
	for _, h := range held {
		if h.Task.CancelRequested {
			res.Cancel = append(res.Cancel, h.Lease.ID)
		}
		if !slices.Contains(r.Held, h.Lease.ID) {
			if err := u.hand(res, h.Lease, h.Task); err != nil {
				return err
			}
			continue
		}
		if !r.renews(h.Lease.ID) {
			continue
		}
		if err := u.renew(res, h); err != nil {
			return err
		}
	}
	return nil
}

// renew is the heartbeat of a lease. One that somebody else is at, or that cannot be
// changed, stays as it is: it is neither renewed nor lost.
func (u *Unit) renew(res *bloom.ClaimResult, h Holding) error {
	_, leased := u.leases[h.Lease.ID]
	_, locked := u.rows.Leases[h.Lease.ID]
	if !leased && !locked || u.s.bad.has(notRenewed, h.Lease.ID) {
		return nil
	}
	t, l, err := u.named(h.Lease.TaskID, h.Lease.ID)
	if err != nil {
		return err
	}
	tr, err := lifecycle.Heartbeat(t.TaskState, l.Lease, u.Now)
	if err != nil {
		return err
	}
	res.Renewed = append(res.Renewed, bloom.Renewal{LeaseID: l.ID, ExpiresAt: tr.Lease.ExpiresAt})
	return u.apply(t, l, tr, l.WorkerID)
}

// choose names the best open tasks for a worker that holds so many, before anything
// is changed.
func (u *Unit) choose(w *lifecycle.KnownWorker, held int, lost []string, r bloom.ClaimRequest) ([]*Task, error) {
	able := w.Worker
	able.ActiveLeases = held
	if w.Silent() {
		able.Status = bloom.WorkerOnline // by this claim
	}
	n := min(r.Max, able.Free())
	if n <= 0 || !able.CanTake(nil) {
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
	keys, err := u.carried(w)
	if err != nil {
		return nil, err
	}
	return u.best(w, keys, n)
}

// anyExpired reports whether one of the leases was reaped.
func (u *Unit) anyExpired(ids []string) (bool, error) {
	for _, id := range ids {
		expired, ok := u.rows.Expired[id]
		if l, here := u.leases[id]; here {
			expired, ok = l.Status == bloom.LeaseExpired, true
		}
		if !ok {
			u.need.Expired.Add(ids...)
			return false, errNeed
		}
		if expired {
			return true, nil
		}
	}
	return false, nil
}

// due has delayed tasks opened first whose time has come, once for each claim: one
// that cannot be opened stops nobody.
func (u *Unit) due() error {
	switch {
	case u.rows.Due == nil:
		u.need.Due = true
		return errNeed
	case *u.rows.Due && !u.op.opened:
		return errDue
	}
	return nil
}

// best are the n open tasks of these sets of labels that come first.
func (u *Unit) best(w *lifecycle.KnownWorker, keys []string, n int) ([]*Task, error) {
	var open []*Task
	lacks := false
	for _, key := range keys {
		line, ok := u.rows.Queue[key]
		if !ok {
			wantOpen(&u.need, w.ID, key, n)
			lacks = true
			continue
		}
		fits := 0
		for _, p := range line.Tasks {
			t, err := u.task(p.ID)
			if err != nil {
				return nil, err
			}
			if u.offers(t, w) {
				open, fits = append(open, t), fits+1
			}
		}
		if line.Cut && fits < n {
			atLeast(&u.need.Queue, key, 3*len(line.Tasks)+n) // few rounds, however many do not fit
			u.need.Askers.Add(w.ID)
			lacks = true
		}
	}
	if lacks {
		return nil, errNeed
	}
	for _, t := range u.tasks { // made, released or opened by this transaction
		if t.changed && u.offers(t, w) && !slices.Contains(open, t) {
			open = append(open, t)
		}
	}
	slices.SortFunc(open, func(a, b *Task) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Seq, b.Seq))
	})
	return open[:min(n, len(open))], nil
}

// offers reports whether an open task may be given to a worker now.
func (u *Unit) offers(t *Task, w *lifecycle.KnownWorker) bool {
	return !u.s.bad.has(notGiven, t.ID) && t.Status == bloom.TaskQueued && t.Gate == bloom.GateOpen && t.RunAt <= u.Now && w.Capabilities.Carries(t.Labels) &&
		(t.Preferred == nil || *t.Preferred == w.ID || t.Until <= u.Now)
}

// Bounds of the sets of labels looked at in one claim.
const (
	maxSubsetLabels = 6 // up to here all sets that the worker's labels make, 64
	maxWalkedSets   = 500
)

// carried are the sets of labels to look for: what the worker's labels make when
// they are few, else what is in the queue, from where its last claim stopped.
func (u *Unit) carried(w *lifecycle.KnownWorker) ([]string, error) {
	labels := slices.Compact(slices.Sorted(slices.Values(w.Capabilities.Labels)))
	if len(labels) <= maxSubsetLabels {
		return u.s.usual.of(w.ID, labels), nil
	}
	from := u.s.usual.place(w.ID)
	sets, ok := u.rows.Sets[from]
	if !ok {
		atLeast(&u.need.Sets, from, maxWalkedSets)
		return nil, errNeed
	}
	keys := []string{""}
	for _, set := range sets {
		if set.Key != "" && w.Capabilities.Carries(set.Labels) {
			keys = append(keys, set.Key)
		}
	}
	if len(sets) == maxWalkedSets {
		u.walked = append(u.walked, walk{w.ID, sets[len(sets)-1].Key})
	} else {
		u.walked = append(u.walked, walk{w.ID, ""})
	}
	return keys, nil
}

// subsets are the keys of all sets that the labels make.
func subsets(labels []string) []string {
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
	return keys
}
