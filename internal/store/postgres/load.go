package postgres

import (
	"hash/fnv"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
)

// Classes that tell this store's advisory locks from others of the database.
const (
	lockContext = 0x626c6d01 // a context with ordered tasks, by hash
	lockWorker  = 0x626c6d02 // a worker's slots, by hash
	lockSlots   = 0x626c6d03 // all workers' slots; shared by those who hold a worker's
)

// nowSQL is the store's time in a statement: the test's, or the server's.
const nowSQL = `(SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))`

// load begins the transaction and reads what is wanted, in one round trip. What
// is locked is locked in one order everywhere: contexts, slots, tasks by seq, leases
// by id, workers by name. Every statement after a lock sees what the lock waited for.
func (t *tx) load(w *want) error {
	b := &pgx.Batch{}
	b.Queue("begin")
	t.lockContexts(b, w)
	switch {
	case w.lockAll:
		b.Queue(`SELECT pg_advisory_xact_lock($1, 0)`, lockSlots)
	case len(w.lockWorkers) > 0:
		lockSlotsOf(b, w.lockWorkers)
	}
	t.loadTasks(b, w)
	t.loadLeases(b, w)
	t.loadWorkers(b, w)
	t.loadClaims(b, w)
	t.loadRest(b, w)
	return t.c.SendBatch(t.ctx, b).Close()
}

// lockContexts keeps other transactions from starting or ending ordered tasks of
// the same contexts. Only operations that run alone move ordered tasks.
func (t *tx) lockContexts(b *pgx.Batch, w *want) {
	if !t.alone {
		return
	}
	ids := idsOnly(w.allTasks())
	if len(ids)+len(w.lockContexts) == 0 {
		return
	}
	b.Queue(`SELECT pg_advisory_xact_lock($1, k) FROM (
			SELECT hashtext(context_id) FROM llm_tasks WHERE id = ANY($2::text[]::uuid[]) AND ordered
			UNION SELECT hashtext(c) FROM unnest($3::text[]) c
			ORDER BY 1) x(k)`, lockContext, ids, w.lockContexts)
}

// lockNamed locks the slots of some workers: NULL first, for all, as others may
// hold theirs.
const lockNamed = `SELECT CASE WHEN k IS NULL THEN pg_advisory_xact_lock_shared($1, 0) ELSE pg_advisory_xact_lock($2, k) END FROM unnest($3::int[]) k`

func lockSlotsOf(b *pgx.Batch, workers []string) {
	keys := make([]int32, len(workers))
	for i, name := range workers {
		h := fnv.New32a()
		_, _ = h.Write([]byte(name))
		keys[i] = int32(h.Sum32())
	}
	slices.Sort(keys)
	places := []*int32{nil}
	keys = slices.Compact(keys)
	for i := range keys {
		places = append(places, &keys[i])
	}
	b.Queue(lockNamed, lockSlots, lockWorker, places)
}

const lockTasks = `SELECT t.xmin, ` + smallColumns + `,
		CASE WHEN t.id = ANY($2::text[]::uuid[]) THEN t.context_hints END, CASE WHEN t.id = ANY($2::text[]::uuid[]) THEN t.prompt END
	FROM llm_tasks t WHERE t.id = ANY($1::text[]::uuid[]) ORDER BY t.seq FOR UPDATE`

// lockHeld is lockTasks with what workers hold that renew it.
const lockHeld = `SELECT t.xmin, ` + smallColumns + `,
		CASE WHEN t.id = ANY($2::text[]::uuid[]) THEN t.context_hints END, CASE WHEN t.id = ANY($2::text[]::uuid[]) THEN t.prompt END
	FROM llm_tasks t WHERE t.id IN (
		SELECT unnest($1::text[]::uuid[]) UNION SELECT l.task_id FROM leases l WHERE l.worker_id = ANY($3::text[]) AND l.status = 'active')
	ORDER BY t.seq FOR UPDATE`

func (t *tx) loadTasks(b *pgx.Batch, w *want) {
	ids, whole := idsOnly(w.allTasks()), idsOnly(slices.Concat(w.whole, w.newborn))
	take := func(rows pgx.Rows) error {
		for rows.Next() {
			tk, err := scanLocked(rows)
			if err != nil {
				return err
			}
			tk.whole = slices.Contains(whole, tk.ID)
			t.addTask(tk)
		}
		return rows.Err()
	}
	if renewers := w.renewers(); len(renewers) > 0 {
		b.Queue(lockHeld, ids, whole, renewers).Query(take)
	} else if len(ids) > 0 {
		b.Queue(lockTasks, ids, whole).Query(take)
	}
}

// lockLeases locks leases by id, for a deadline may be moved without its task's
// lock.
const lockLeases = `SELECT l.xmin, ` + leaseColumns + ` FROM leases l WHERE l.id IN (
		SELECT unnest($1::text[]::uuid[]) UNION SELECT a.id FROM leases a WHERE a.task_id = ANY($2::text[]::uuid[]) AND a.status = 'active')
	ORDER BY l.id FOR UPDATE`

func (t *tx) loadLeases(b *pgx.Batch, w *want) {
	take := func(rows pgx.Rows) error {
		for rows.Next() {
			l := &lease{}
			if err := rows.Scan(append([]any{&l.version}, leaseFields(&l.Lease)...)...); err != nil {
				return err
			}
			t.addLease(l)
		}
		return rows.Err()
	}
	if ids, active := idsOnly(w.leases), idsOnly(w.active); len(ids)+len(active) > 0 {
		b.Queue(lockLeases, ids, active).Query(take)
	}
	if len(w.events) == 0 {
		return
	}
	ids, seqs := make([]string, 0, len(w.events)), make([]int64, 0, len(w.events))
	for _, e := range w.events {
		if isID(e.taskID) {
			ids, seqs = append(ids, e.taskID), append(seqs, e.seq)
		}
	}
	b.Queue(`SELECT t.id, e.worker_seq FROM unnest($1::text[], $2::bigint[]) w (id, seq)
			JOIN llm_tasks t ON t.id = w.id::uuid
			JOIN task_events e ON e.task = t.seq AND e.epoch = t.epoch AND e.worker_seq = w.seq`, ids, seqs).
		Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var k eventKey
				if err := rows.Scan(&k.taskID, &k.seq); err != nil {
					return err
				}
				t.repeats[k] = true
			}
			return rows.Err()
		})
}

// holders are the workers with active leases of the contexts of tasks.
const holders = `SELECT l.worker_id FROM leases l WHERE l.status = 'active'
	AND l.context_id IN (SELECT t.context_id FROM llm_tasks t WHERE t.id = ANY($2::text[]::uuid[]))`

func (t *tx) loadWorkers(b *pgx.Batch, w *want) {
	take := func(rows pgx.Rows) error {
		for rows.Next() {
			is := &stored{}
			if err := rows.Scan(append([]any{&is.version}, is.fields()...)...); err != nil {
				return err
			}
			t.workers[is.ID] = is
		}
		return rows.Err()
	}
	switch {
	case w.anyone:
		t.everybody = true
		b.Queue(`SELECT w.xmin, `+workerColumns+`, `+countHeld+` FROM workers w WHERE NOT w.removed AND w.status = 'online' OR w.id = ANY($1::text[])`, w.workers).Query(take)
	case len(w.workers)+len(w.holders) > 0:
		slices.Sort(w.workers)
		b.Queue(`SELECT w.xmin, `+workerColumns+`, `+countHeld+` FROM workers w WHERE w.id = ANY($1::text[]) OR w.id = ANY(ARRAY(`+holders+`))`,
			slices.Compact(w.workers), idsOnly(w.holders)).Query(take)
	}
	if ids := idsOnly(w.holders); len(ids) > 0 {
		b.Queue(`SELECT DISTINCT l.context_id, l.worker_id FROM leases l
				WHERE l.status = 'active' AND l.context_id IN (SELECT t.context_id FROM llm_tasks t WHERE t.id = ANY($1::text[]::uuid[]))`, ids).
			Query(func(rows pgx.Rows) error {
				for rows.Next() {
					var context, worker string
					if err := rows.Scan(&context, &worker); err != nil {
						return err
					}
					t.holders[context] = append(t.holders[context], worker)
				}
				return rows.Err()
			})
	}
}

// loadRest reads idempotency keys and at last, when all locks are held, the time.
func (t *tx) loadRest(b *pgx.Batch, w *want) {
	if len(w.keys) > 0 {
		scopes, keys := make([]string, len(w.keys)), make([]string, len(w.keys))
		for i, k := range w.keys {
			scopes[i], keys[i] = k.scope, k.key
		}
		b.Queue(`SELECT t.idempotency_scope, t.body_hash, `+taskColumns+` FROM unnest($1::text[], $2::text[]) k (scope, key)
			JOIN llm_tasks t ON t.idempotency_scope = k.scope AND t.idempotency_key = k.key`, scopes, keys).Query(t.takeKeyed)
	}
	b.Queue(`SELECT `+nowSQL, t.s.testNow()).QueryRow(func(row pgx.Row) error { return row.Scan(&t.now) })
}

func (t *tx) takeKeyed(rows pgx.Rows) error {
	for rows.Next() {
		tk, k := &task{whole: true}, keyed{}
		var scope string
		if err := rows.Scan(append([]any{&scope, &k.bodyHash}, tk.fields()...)...); err != nil {
			return err
		}
		k.task = tk
		t.keyed[idemKey{scope, *tk.IdempotencyKey}] = k
	}
	return rows.Err()
}

// testNow is the injected clock's time, nil for the server's.
func (s *Store) testNow() *int64 {
	if s.cfg.Clock == nil {
		return nil
	}
	now := bloom.Millis(s.cfg.Clock.Now())
	return &now
}
