package postgres

import (
	"fmt"
	"math/rand/v2"

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
// The cost does not grow with what waits: up to 6 labels make at most 64 sets
// (schema.LabelKey names each), and for a worker with more of them 500 of the
// queue's sets are looked at, from a random one on ($4), so that other claims look
// at the others. Rows that another transaction holds are skipped.
const claimable = `
	WITH RECURSIVE askers AS MATERIALIZED (
		SELECT w.id, w.labels, ARRAY(SELECT DISTINCT convert_to(l, 'UTF8') FROM jsonb_array_elements_text(w.labels) l) AS carries, least(a.most, w.max_concurrency - (SELECT count(*) FROM leases l WHERE l.worker_id = w.id AND l.status = 'active')) AS room
		FROM unnest($2::text[], $3::int[]) a (id, most) JOIN workers w ON w.id = a.id
		WHERE w.claude_cli AND NOT w.draining AND NOT w.removed AND w.status IN ('online', 'offline', 'unknown')
	), walked (label_key, wrapped, n) AS (
		SELECT $4::text COLLATE "C", false, 0 FROM askers WHERE room > 0 HAVING max(cardinality(carries)) > 6
		UNION ALL
		SELECT x.label_key, x.wrapped, w.n + 1 FROM walked w CROSS JOIN LATERAL (
			(SELECT q.label_key, w.wrapped FROM llm_tasks q WHERE q.gate = 'open' AND q.label_key > w.label_key AND (NOT w.wrapped OR q.label_key <= $4)
				ORDER BY q.label_key LIMIT 1)
			UNION ALL SELECT ''::text COLLATE "C", true WHERE NOT w.wrapped
			LIMIT 1) x (label_key, wrapped)
		WHERE w.n < 500
	), carried AS MATERIALIZED (
		SELECT c.label_key, sum(c.room) AS room FROM (
			SELECT a.room, coalesce((
				SELECT encode(sha256(string_agg(l, '\x00' ORDER BY l)), 'hex') FROM unnest(a.carries) WITH ORDINALITY u (l, i) WHERE set >> (i - 1)::int & 1 = 1), '') AS label_key
			FROM askers a CROSS JOIN LATERAL generate_series(0, CASE WHEN cardinality(a.carries) <= 6 THEN (1 << cardinality(a.carries)) - 1 ELSE 0 END) set
			UNION ALL
			SELECT a.room, w.label_key FROM walked w
			CROSS JOIN LATERAL (SELECT q.labels FROM llm_tasks q WHERE q.gate = 'open' AND q.label_key = w.label_key LIMIT 1) q
			JOIN askers a ON cardinality(a.carries) > 6 AND q.labels <@ a.labels
			WHERE w.n > 0 AND w.label_key <> '') c
		WHERE c.room > 0 GROUP BY c.label_key
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
	b.Queue(claimable, t.s.testNow(), names, most, fmt.Sprintf("%016x", rand.Uint64())).Query(t.takeQueue)
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
