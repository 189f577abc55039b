package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
)

// holdings are what claiming workers hold; what they do not name is read whole,
// for it is handed over.
const holdings = `SELECT l.xmin, ` + leaseColumns + `, t.xmin, ` + smallColumns + `,
		CASE WHEN l.id <> ALL($2::text[]::uuid[]) THEN t.context_hints END, CASE WHEN l.id <> ALL($2::text[]::uuid[]) THEN t.prompt END
	FROM leases l JOIN llm_tasks t ON t.id = l.task_id
	WHERE l.worker_id = ANY($1::text[]) AND l.status = 'active' `

// Those that somebody renews are locked.
const (
	holdingsRead   = holdings + `ORDER BY l.seq`
	holdingsLocked = holdings + `ORDER BY l.id FOR UPDATE OF l`
)

// claimable locks open tasks that the claiming workers may take: for each set of
// labels that one of them carries, the best, as many as they all have room for.
// The distinct sets are stepped over in the queue's index, so that the cost does
// not grow with what waits. Rows that another transaction holds are passed over.
const claimable = `
	WITH RECURSIVE askers AS MATERIALIZED (
		SELECT w.id, w.labels, least(a.most, w.max_concurrency - (SELECT count(*) FROM leases l WHERE l.worker_id = w.id AND l.status = 'active')) AS room
		FROM unnest($2::text[], $3::int[]) a (id, most) JOIN workers w ON w.id = a.id
		WHERE w.claude_cli AND NOT w.draining AND NOT w.removed AND w.status IN ('online', 'offline', 'unknown')
	), sets (label_key) AS (
		(SELECT q.label_key FROM llm_tasks q WHERE q.gate = 'open' ORDER BY q.label_key LIMIT 1)
		UNION ALL
		SELECT (SELECT q.label_key FROM llm_tasks q WHERE q.gate = 'open' AND q.label_key > s.label_key ORDER BY q.label_key LIMIT 1)
		FROM sets s WHERE s.label_key IS NOT NULL
	), carried AS MATERIALIZED (
		SELECT s.label_key, sum(a.room) AS room FROM sets s
		JOIN askers a ON a.room > 0 AND (s.label_key = '' OR s.label_key::jsonb <@ a.labels)
		WHERE s.label_key IS NOT NULL GROUP BY s.label_key
	)
	SELECT c.room, t.* FROM carried c CROSS JOIN LATERAL (
		SELECT t.xmin, ` + taskColumns + ` FROM llm_tasks t
		WHERE t.gate = 'open' AND t.label_key = c.label_key
		  AND (t.preferred_worker IS NULL OR t.preferred_worker = ANY($2::text[]) OR t.preferred_until <= ` + nowSQL + `)
		ORDER BY t.priority DESC, t.seq LIMIT c.room FOR UPDATE SKIP LOCKED) t`

func (t *tx) loadClaims(b *pgx.Batch, w *want) {
	if len(w.claims) == 0 {
		return
	}
	var names []string
	var most []int32
	for _, c := range w.claims {
		if c.most > 0 {
			names, most = append(names, c.worker), append(most, int32(min(c.most, bloom.MaxConcurrency)))
		}
	}
	query := holdingsRead
	if len(w.renewers()) > 0 {
		query = holdingsLocked
	}
	b.Queue(query, w.claimers(), idsOnly(w.heldByAll())).Query(t.takeHoldings)
	if len(names) == 0 {
		return
	}
	b.Queue(`SELECT EXISTS (SELECT FROM llm_tasks t WHERE t.gate = 'delayed' AND t.run_at <= `+nowSQL+`)`, t.s.testNow()).
		QueryRow(func(row pgx.Row) error { return row.Scan(&t.due) })
	b.Queue(claimable, t.s.testNow(), names, most).Query(t.takeQueue)
}

func (t *tx) takeHoldings(rows pgx.Rows) error {
	for rows.Next() {
		l, tk := &lease{}, &task{}
		fields := append([]any{&l.version}, leaseFields(&l.Lease)...)
		if err := rows.Scan(append(append(fields, &tk.version), tk.fields()...)...); err != nil {
			return err
		}
		tk.whole = tk.Prompt != ""
		t.addTask(tk)
		t.addLease(l)
		t.claims[l.WorkerID] = append(t.claims[l.WorkerID], l.ID)
	}
	return rows.Err()
}

func (t *tx) takeQueue(rows pgx.Rows) error {
	read := map[string]int{}
	for rows.Next() {
		tk, room := &task{whole: true}, 0
		if err := rows.Scan(append([]any{&room, &tk.version}, tk.fields()...)...); err != nil {
			return err
		}
		t.queue = append(t.queue, t.addTask(tk))
		if read[tk.labelKey]++; read[tk.labelKey] >= room {
			t.cut = true
		}
	}
	return rows.Err()
}
