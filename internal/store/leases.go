package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var (
	leases = table("leases", "id uuid, status text, expires_at bigint, last_heartbeat bigint, tokens bigint, tokens_in bigint, tokens_out bigint, cost bigint",
		"task_id uuid, worker_id text, epoch bigint, started_at bigint, ttl_seconds int, context_id text",
		func(v []any, id string, l *bloom.Lease) []any {
			return append(v, id, string(l.Status), l.ExpiresAt, l.LastHeartbeat, l.Usage.TokensUsed, l.Usage.InputTokens, l.Usage.OutputTokens, l.Usage.CostNano())
		}, func(v []any, _ string, l *bloom.Lease) []any {
			return append(v, l.TaskID, l.WorkerID, l.Epoch, l.StartedAt, l.TTLSeconds, l.ContextID)
		})
	active         = locked[string]("leases", "task_id", "uuid", " AND status = 'active'") // ids of active leases by task, "" for none
	held           = derived[string, []Holding]()                                          // active leases by worker, in the order in which they were granted
	expired        = derived[string, bool]()                                               // leases by id: whether they were reaped
	contextWorkers = derived[string, lifecycle.ContextWorkers]()                           // tasks: the workers that have worked on their contexts
)

// Holding is an active lease and its task, as last committed. They are locked if they
// were also read by id.
type Holding struct {
	Lease bloom.Lease
	Task  *Task
}

// usageColumns are what a lease's attempt has used, summedUsage of many.
const usageColumns = `l.tokens, l.tokens_in, l.tokens_out, l.cost`

var summedUsage = each([]string{"tokens", "tokens_in", "tokens_out", "cost"}, "coalesce(CAST(sum(%s) AS BIGINT), 0)")

func usageFields(u *bloom.Usage) []any {
	return []any{&u.TokensUsed, &u.InputTokens, &u.OutputTokens, (*nanos)(&u.CostUSD)}
}

const leaseColumns = `l.id, l.task_id, l.worker_id, l.epoch, l.status, l.started_at, l.expires_at, l.ttl_seconds, l.last_heartbeat, l.context_id, ` + usageColumns

func leaseFields(l *bloom.Lease) []any {
	return append([]any{
		&l.ID, &l.TaskID, &l.WorkerID, &l.Epoch, &l.Status, &l.StartedAt, &l.ExpiresAt, &l.TTLSeconds, &l.LastHeartbeat, &l.ContextID,
	}, usageFields(&l.Usage)...)
}

// lockedLease adds a lease that is locked with its task.
func (l *Load) lockedLease(is *bloom.Lease) {
	leases.of(l.Rows).Set(is.ID, is)
	if is.Status == bloom.LeaseActive {
		active.of(l.Rows).Set(is.TaskID, is.ID)
	}
}

func loadLeases(l *Load, v *Values[string, *bloom.Lease]) {
	l.Pick(scan(leaseFields, l.lockedLease), `SELECT `+leaseColumns+` FROM leases l`, "l.id", "uuid", IDs(v.Keys()), l.lock("l"))
}

func loadActive(l *Load, v *Values[string, string]) {
	l.Pick(scan(leaseFields, l.lockedLease), `SELECT `+leaseColumns+` FROM leases l`, "l.task_id", "uuid", IDs(v.Keys()), " AND l.status = 'active'"+l.lock("l"))
}

func loadExpired(l *Load, v *Values[string, bool]) {
	l.Pick(scan(Self[string], func(id *string) { v.Set(*id, true) }), `SELECT l.id FROM leases l`, "l.id", "uuid", IDs(v.Keys()), " AND l.status = 'expired'")
}

// lockHeld is how many of held are wanted: the leases are locked, but for those that others
// have locked.
const lockHeld = 2

// loadHeld locks the active leases of workers that can be locked, then reads all of them.
func loadHeld(l *Load, v *Values[string, []Holding]) {
	var renewing []string
	for worker, n := range v.Want {
		v.Set(worker, nil)
		if n == lockHeld {
			renewing = append(renewing, worker)
		}
	}
	query := `SELECT ` + leaseColumns + `, ` + l.TaskColumns() + ` FROM leases l JOIN llm_tasks t ON t.id = l.task_id`
	fields := func(h *Holding) []any {
		h.Task = &Task{}
		return append(leaseFields(&h.Lease), taskFields(h.Task)...)
	}
	take := func(h *Holding) {
		l.lockedLease(&h.Lease)
		tasks.of(l.Rows).Set(h.Task.ID, h.Task)
	}
	if lock := l.lock("l, t"); lock != "" {
		l.Pick(scan(fields, take), query, "l.worker_id", "text", renewing, " AND l.status = 'active'"+lock)
		take = func(*Holding) {}
	}
	l.Pick(scan(fields, func(h *Holding) {
		take(h)
		all, _ := v.Get(h.Lease.WorkerID)
		all = append(all, *h)
		v.Set(h.Lease.WorkerID, all)
		l.count(h.Lease.WorkerID, len(all))
	}), query, "l.worker_id", "text", v.Keys(), " AND l.status = 'active' ORDER BY l.seq")
}

func loadContextWorkers(l *Load, v *Values[string, lifecycle.ContextWorkers]) {
	ids := IDs(v.Keys())
	take := func(set func(c *lifecycle.ContextWorkers, worker string)) func(Row) error {
		return scan(keyedFields[string], func(w *keyed[string]) {
			c, _ := v.Get(w.key)
			set(&c, w.value)
			v.Set(w.key, c)
		})
	}
	l.Pick(take(func(c *lifecycle.ContextWorkers, worker string) { c.Holding = append(c.Holding, worker) }),
		`SELECT DISTINCT t.id, l.worker_id FROM llm_tasks t JOIN leases l`+l.Via("leases_held")+` ON l.context_id = t.context_id AND l.status = 'active'`,
		"t.id", "uuid", ids, "")
	l.Pick(take(func(c *lifecycle.ContextWorkers, worker string) { c.Last = worker }),
		`SELECT t.id, x.worker_id FROM llm_tasks t JOIN contexts x ON x.id = t.context_id`, "t.id", "uuid", ids, " AND x.worker_id IS NOT NULL")
}

// lease returns a lease, which its task's lock covers; ErrLeaseLost if it does not
// exist.
func (u *Unit) lease(id string) (*bloom.Lease, error) {
	l, err := leases.get(u, id)
	if err == nil && l == nil {
		err = bloom.ErrLeaseLost
	}
	return l, err
}

// activeLease returns a task's active lease, or ErrLeaseNotFound.
func (u *Unit) activeLease(taskID string) (*bloom.Lease, error) {
	id, err := active.get(u, taskID)
	switch {
	case err != nil:
		return nil, err
	case id == "":
		return nil, bloom.ErrLeaseNotFound
	}
	return u.lease(id)
}

// wantNamed has a task and the named lease, or its active one, read.
func wantNamed(r *Rows, taskID, leaseID string) {
	tasks.want(r, taskID)
	if leaseID == "" {
		active.want(r, taskID)
	} else {
		leases.want(r, leaseID)
	}
}

// named returns a task and the lease that a caller names. Without a name it is the
// active lease, or ErrLeaseNotFound. A lease of another task is ErrLeaseLost.
func (u *Unit) named(taskID, leaseID string) (*Task, *bloom.Lease, error) {
	t, err := u.task(taskID)
	if err != nil {
		return nil, nil, err
	}
	if leaseID == "" {
		l, err := u.activeLease(taskID)
		return t, l, err
	}
	l, err := u.lease(leaseID)
	if err == nil && l.TaskID != taskID {
		err = bloom.ErrLeaseLost
	}
	return t, l, err
}

// LeaseTask leases one task to a worker: the named one, or the best that is
// available.
func (s *Store) LeaseTask(ctx context.Context, r contract.LeaseRequest) (bloom.Lease, bloom.Worker, error) {
	type answer struct {
		lease  bloom.Lease
		worker bloom.Worker
	}
	reads := func(rows *Rows) {
		tasks.want(rows, r.TaskID)
		if r.WorkerID != "" {
			workers.want(rows, r.WorkerID)
			return
		}
		contextWorkers.want(rows, r.TaskID)
	}
	a, err := do(ctx, s, reads, func(u *Unit) (a answer, err error) {
		a.lease, a.worker, err = u.leaseTask(r)
		return a, err
	})
	return a.lease, a.worker, err
}

func (u *Unit) leaseTask(r contract.LeaseRequest) (none bloom.Lease, _ bloom.Worker, _ error) {
	t, err := u.task(r.TaskID)
	if err != nil {
		return none, bloom.Worker{}, err
	}
	// First without a worker: if the task cannot be leased at all, that is the error,
	// whether or not a worker is available.
	if _, err := u.grant(t, "", r.TTLSec); err != nil {
		return none, bloom.Worker{}, err
	}
	w, err := u.pick(t, r.WorkerID)
	if err != nil {
		return none, bloom.Worker{}, err
	}
	tr, err := u.grant(t, w.ID, r.TTLSec)
	if err != nil {
		return none, bloom.Worker{}, err
	}
	assigned := w.Worker
	assigned.ActiveLeases++
	return tr.Lease, assigned, u.apply(t, nil, tr, r.Actor)
}

// grant leases a task. GateOrdered means that it waits for an earlier task: the
// transaction that ends that task also opens the gate.
func (u *Unit) grant(t *Task, workerID string, ttlSec int) (lifecycle.Transition, error) {
	return lifecycle.GrantLease(t.TaskState, t.ID, t.ContextID, schema.NewID(u.Now), workerID, cmp.Or(ttlSec, bloom.DefaultLeaseTTLSec),
		t.Gate == contract.GateOrdered, u.Now)
}

// pick returns the worker for a task: the named one, or the rule's choice. The choice
// is made among workers that are not locked. The chosen one is then locked, and the
// choice is made again.
func (u *Unit) pick(t *Task, named string) (*lifecycle.KnownWorker, error) {
	if named != "" {
		w, err := u.worker(named)
		if err == nil && !w.CanTake(t.Labels) {
			err = bloom.ErrNoWorker
		}
		return w, err
	}
	context, err := u.contextWorkers(t)
	if err != nil {
		return nil, err
	}
	all, read := online.of(u.rows).Get(one)
	if !read {
		return u.suggested(t, context)
	}
	candidates := make([]*bloom.Worker, 0, len(all))
	for i := range all {
		w := all[i]
		if now, locked := workers.of(u.rows).Get(w.ID); locked {
			if now == nil || now.Removed {
				continue
			}
			known, err := u.orRemoved(w.ID)
			if err != nil {
				return nil, err
			}
			w = known.Worker
		} else {
			w.ActiveLeases += u.load[w.ID]
		}
		candidates = append(candidates, &w)
	}
	w, ok := lifecycle.PickWorker(slices.Values(candidates), t.Labels, context)
	if !ok {
		return nil, bloom.ErrNoWorker
	}
	return u.ask(w.ID)
}

// suggested returns the worker for a task that the cache suggests, or asks for all that
// are online.
func (u *Unit) suggested(t *Task, context lifecycle.ContextWorkers) (*lifecycle.KnownWorker, error) {
	id := u.op.suggested
	if _, locked := workers.of(u.rows).Get(id); !locked {
		var ok bool
		if id, ok = u.cached(t.Labels, context); ok && id == "" {
			return nil, bloom.ErrNoWorker
		}
		if u.op.suggested = id; ok {
			return u.ask(id)
		}
	} else if w, err := u.worker(id); err == nil && w.CanTake(t.Labels) {
		return w, nil
	}
	_, err := online.get(u, one)
	return nil, err
}

// ask returns a locked worker. If it must be locked first, further operations choose as if
// it had been given the task, so that they ask for theirs at once.
func (u *Unit) ask(id string) (*lifecycle.KnownWorker, error) {
	w, err := u.worker(id)
	if errors.Is(err, errUnfinished) && u.op.outcome == lacksRows {
		u.load[id]++
	}
	return w, err
}

// contextWorkers returns the workers that have worked on the task's context.
func (u *Unit) contextWorkers(t *Task) (lifecycle.ContextWorkers, error) {
	var context lifecycle.ContextWorkers
	if !t.fresh {
		var err error
		if context, err = contextWorkers.get(u, t.ID); err != nil {
			return context, err
		}
	}
	context.Holding = slices.Clone(context.Holding)
	for l := range leases.added(&u.c) {
		if l.ContextID == nil || *l.ContextID != t.ContextID {
			continue
		}
		if context.Last = l.WorkerID; l.Status == bloom.LeaseActive {
			context.Holding = append(context.Holding, l.WorkerID)
		}
	}
	return context, nil
}

// Heartbeat renews one lease.
func (s *Store) Heartbeat(ctx context.Context, taskID, leaseID string, used *bloom.Usage) (bloom.HeartbeatResult, error) {
	return do(ctx, s, func(r *Rows) { wantNamed(r, taskID, leaseID) }, func(u *Unit) (bloom.HeartbeatResult, error) {
		t, l, err := u.named(taskID, leaseID)
		if err != nil {
			return bloom.HeartbeatResult{}, err
		}
		is, err := u.heartbeat(t, l, used)
		if err != nil {
			return bloom.HeartbeatResult{}, err
		}
		return bloom.HeartbeatResult{Lease: is, ExpiresAt: is.ExpiresAt, CancelRequested: t.CancelRequested}, u.noteContact(l.WorkerID)
	})
}

// heartbeat renews a lease and records what its attempt has used, unless that is nil.
func (u *Unit) heartbeat(t *Task, l *bloom.Lease, used *bloom.Usage) (bloom.Lease, error) {
	tr, err := lifecycle.Heartbeat(t.TaskState, *l, u.Now)
	if err != nil {
		return bloom.Lease{}, err
	}
	if used != nil {
		tr.Lease.Usage = used.Bounded()
	}
	return tr.Lease, u.apply(t, l, tr, l.WorkerID)
}

// Release releases a lease.
func (s *Store) Release(ctx context.Context, taskID string, r bloom.ReleaseSpec, actor string) (bloom.Task, error) {
	reads := func(w *Rows) {
		wantNamed(w, taskID, r.LeaseID)
		texts.want(w, taskID)
	}
	return do(ctx, s, reads, func(u *Unit) (bloom.Task, error) {
		t, l, err := u.named(taskID, r.LeaseID)
		if err != nil {
			return bloom.Task{}, err
		}
		tr, err := lifecycle.Release(t.TaskState, *l, r.Reason, r.NotBefore, u.Now)
		if err != nil {
			return bloom.Task{}, err
		}
		if err := u.apply(t, l, tr, actor); err != nil {
			return bloom.Task{}, err
		}
		return u.withText(t)
	})
}

// Lease reads one lease of a task.
func (s *Store) Lease(ctx context.Context, taskID, leaseID string) (bloom.Lease, error) {
	if !storable.IsID(taskID) || !storable.IsID(leaseID) {
		return bloom.Lease{}, bloom.ErrLeaseLost
	}
	return single(ctx, s, leaseFields, bloom.ErrLeaseLost, `SELECT `+leaseColumns+` FROM leases l WHERE l.id = $1 AND l.task_id = $2`, leaseID, taskID)
}

// usage sums what the attempts of leases have used, by a column that is one of the keys. Each
// of among is a condition for leases, with the index that has them.
func (s *Store) usage(ctx context.Context, column, kind string, keys []string, take func(key string, u bloom.Usage), among ...string) error {
	if len(keys) == 0 {
		return nil
	}
	for i, where := range among {
		among[i] = "SELECT l." + column + ", " + usageColumns + " FROM leases l" + where + " AND " + s.sql.In("l."+column, 1, kind)
	}
	sums, err := all(ctx, s, func(s *keyed[bloom.Usage]) []any { return append([]any{&s.key}, usageFields(&s.value)...) },
		"SELECT "+column+", "+summedUsage+" FROM ("+strings.Join(among, " UNION ALL ")+") used GROUP BY 1", s.sql.Array(keys))
	for _, s := range sums {
		if s.value != (bloom.Usage{}) {
			take(s.key, s.value)
		}
	}
	return err
}

// Leases lists leases, the newest first.
func (s *Store) Leases(ctx context.Context, q bloom.LeaseQuery) ([]bloom.Lease, bloom.Cursor, error) {
	l := &listing[bloom.Lease]{from: "leases", as: "l", columns: leaseColumns, fields: leaseFields}
	switch {
	case q.TaskID != "" && !storable.IsID(q.TaskID):
		return []bloom.Lease{}, bloom.Cursor{}, nil
	case q.TaskID != "":
		l.first(fmt.Sprintf(s.sql.Among, "l.seq", leasesOfTask), q.TaskID)
		if q.Status != "" {
			l.only("l.status", string(q.Status))
		}
	case q.Status == bloom.LeaseActive:
		l.by = fmt.Sprintf(s.sql.Among, "l.seq", "SELECT h.seq FROM leases h WHERE h.status = 'active'")
	case q.Status == bloom.LeaseReleased: // nearly all leases are, so the table is scanned
		l.only("l.status", string(q.Status))
	case q.Status != "":
		l.first("l.status IN ('expired','failed') AND l.status = %s", string(q.Status))
	}
	if q.WorkerID != "" { // an index has only its active ones
		l.only("l.worker_id", q.WorkerID)
	}
	return list(ctx, s, l, q.Page)
}

// ActiveLeases lists active leases that expire by then. There are no more of them
// than workers' slots, so an index of deadlines, which every heartbeat would update,
// is not worth it.
func (s *Store) ActiveLeases(ctx context.Context, before int64, limit int, except []string) ([]bloom.Lease, error) {
	return all(ctx, s, leaseFields, `SELECT `+leaseColumns+` FROM leases l`+s.sql.Via("leases_held")+` WHERE l.status = 'active' AND l.expires_at <= $1
		AND NOT (`+s.sql.In("l.id", 2, "uuid")+`) ORDER BY l.expires_at LIMIT CAST($3 AS BIGINT)`, before, s.sql.Array(IDs(except)), limit)
}
