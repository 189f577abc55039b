package store

import "context"

// Spent is what the attempts of a task have used together.
type Spent struct {
	Tokens   int64
	CostNano int64 // billionths of a US dollar
}

// counted reports whether the task's context includes it.
func (u *Unit) counted(t *Task) (bool, error) {
	switch {
	case t.fresh || u.s.filled.Load():
		return true, nil
	case u.rows.Filled == nil:
		u.missing.Filled = true
		return false, errMissing
	}
	return t.Seq >= *u.rows.Filled, nil
}

// fillBatch is how many tasks one transaction backfills and so keeps locked.
const fillBatch = 200

// checkFilled caches whether the backfill has finished. If it cannot find out,
// transactions read it.
func (s *Store) checkFilled() {
	ctx, cancel := context.WithTimeout(s.life, s.cfg.Patience)
	defer cancel()
	if below, _, err := s.db.Unfilled(ctx, 1); err == nil && below == 0 {
		s.filled.Store(true)
	}
}

// FillContexts backfills a batch of older tasks into their contexts.
func (s *Store) FillContexts(ctx context.Context) (more bool, err error) {
	if s.filled.Load() {
		return false, nil
	}
	below, ids, err := s.db.Unfilled(ctx, fillBatch)
	if err != nil {
		return false, s.explain(err)
	}
	if below == 0 {
		s.filled.Store(true)
		return false, nil
	}
	reads := func(r *ReadSet) {
		r.Tasks.Add(ids...)
		r.Spent.Add(ids...)
		r.Filled = true
	}
	return doUnbatched(ctx, s, reads, func(u *Unit) (bool, error) {
		if *u.rows.Filled != below {
			return true, nil // another server has backfilled them
		}
		from := below
		for _, id := range ids {
			t, err := u.task(id)
			if isNotFound(err) {
				continue // removed in the meantime
			}
			if err != nil {
				return false, err
			}
			from = min(from, t.Seq)
			u.backfill(t)
		}
		if len(ids) < fillBatch {
			from = 0
		}
		u.c.Filled, u.dirty = &from, true
		return from > 0, nil
	})
}

// backfill adds an older task to its context.
func (u *Unit) backfill(t *Task) {
	x := u.contextChange(t)
	x.Tasks++
	if !t.Status.Terminal() {
		x.Unfinished++
	}
	spent := u.rows.Spent[t.ID]
	x.Tokens += spent.Tokens
	x.CostNano += spent.CostNano
	if x.WorkerID == nil {
		x.WorkerID = t.WorkerID
	}
}
