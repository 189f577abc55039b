package store

import "context"

// Spent is what the attempts of a task have used together.
type Spent struct {
	Tokens   int64
	CostNano int64 // billionths of a US dollar
}

var (
	filledFrom = derived[struct{}, int64]() // tasks with lower numbers were not backfilled yet
	spent      = derived[string, Spent]()   // tasks: what their attempts have used
)

func loadFilledFrom(l *Load, v *Values[struct{}, int64]) {
	l.Each(scan(Self[int64], func(below *int64) { v.Set(one, *below) }), `SELECT below FROM context_fill`)
}

func loadSpent(l *Load, v *Values[string, Spent]) {
	l.Pick(scan(func(s *keyed[Spent]) []any { return []any{&s.key, &s.value.Tokens, &s.value.CostNano} }, func(s *keyed[Spent]) { v.Set(s.key, s.value) }),
		`SELECT r.task_id, CAST(sum(`+l.Tokens+`) AS BIGINT), CAST(sum(`+l.Cost+`) AS BIGINT) FROM llm_results r`, "r.task_id", "uuid", IDs(v.Keys()), " GROUP BY r.task_id")
}

// counted reports whether the task's context includes it.
func (u *Unit) counted(t *Task) (bool, error) {
	if t.fresh || u.s.filled.Load() {
		return true, nil
	}
	below, err := filledFrom.get(u, one)
	return t.Seq >= below, err
}

// fillBatch is how many tasks one transaction backfills and so keeps locked.
const fillBatch = 200

// checkFilled caches whether the backfill has finished. If it cannot find out,
// transactions read it.
func (s *Store) checkFilled() {
	ctx, cancel := context.WithTimeout(s.life, s.cfg.Patience)
	defer cancel()
	if below, _, err := s.Unfilled(ctx, 1); err == nil && below == 0 {
		s.filled.Store(true)
	}
}

// FillContexts backfills a batch of older tasks into their contexts.
func (s *Store) FillContexts(ctx context.Context) (more bool, err error) {
	if s.filled.Load() {
		return false, nil
	}
	below, ids, err := s.Unfilled(ctx, fillBatch)
	if err != nil {
		return false, s.explain(err)
	}
	if below == 0 {
		s.filled.Store(true)
		return false, nil
	}
	reads := func(r *Rows) {
		tasks.want(r, ids...)
		spent.want(r, ids...)
		filledFrom.want(r, one)
	}
	return doUnbatched(ctx, s, reads, func(u *Unit) (bool, error) {
		if now, _ := filledFrom.of(u.rows).Get(one); now != below {
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
		u.changed()
		u.c.Filled = &from
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
	used, _ := spent.of(u.rows).Get(t.ID)
	x.Tokens += used.Tokens
	x.CostNano += used.CostNano
	if x.WorkerID == nil {
		x.WorkerID = t.WorkerID
	}
}

// Unfilled lists the newest tasks that were not backfilled into their contexts.
func (s *Store) Unfilled(ctx context.Context, limit int) (below int64, ids []string, err error) {
	ids, err = Read(ctx, s.db, func(c Conn) ([]string, error) {
		if below, err = One(ctx, c, Self[int64], nil, `SELECT below FROM context_fill`); err != nil || below == 0 {
			return nil, err
		}
		return Collect(ctx, c, Self[string], `SELECT t.id FROM llm_tasks t WHERE t.seq < $1 ORDER BY t.seq DESC LIMIT CAST($2 AS BIGINT)`, below, limit)
	})
	return below, ids, err
}
