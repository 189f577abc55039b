package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
)

// WaitingArtifacts counts artifacts whose content is to be moved.
func (d *database) WaitingArtifacts(ctx context.Context) (int64, error) {
	return read(ctx, d, func(c reader) (n int64, err error) {
		err = c.QueryRow(ctx, `SELECT count(*) FROM (SELECT 1 FROM runtime_artifacts WHERE displaced LIMIT $1) x`, bloom.MaxWaiting).Scan(&n)
		return n, err
	})
}

// QueuedBy counts what an actor created and nobody has taken.
func (d *database) QueuedBy(ctx context.Context, actor string, most int64) (int64, error) {
	return read(ctx, d, func(c reader) (n int64, err error) {
		err = c.QueryRow(ctx, `SELECT count(*) FROM (SELECT 1 FROM llm_tasks WHERE created_by = $1 AND status = 'queued' LIMIT $2) x`, actor, most).Scan(&n)
		return n, err
	})
}

// QueueDepths walks the sets of labels in the queue, as a claim does.
func (d *database) QueueDepths(ctx context.Context, sets, tasks int) ([]bloom.QueueDepth, error) {
	return read(ctx, d, func(c reader) ([]bloom.QueueDepth, error) {
		return collect(ctx, c, func(r pgx.Rows) (q bloom.QueueDepth, err error) {
			err = r.Scan((*list)(&q.Labels), &q.Tasks, &q.Since)
			return q, err
		}, `WITH RECURSIVE s (label_key, n) AS (
				(SELECT q.label_key, 1 FROM llm_tasks q WHERE q.gate = 'open' ORDER BY q.label_key LIMIT 1)
				UNION ALL
				SELECT (SELECT q.label_key FROM llm_tasks q WHERE q.gate = 'open' AND q.label_key > s.label_key ORDER BY q.label_key LIMIT 1), s.n + 1
				FROM s WHERE s.label_key IS NOT NULL AND s.n < $1)
			SELECT d.labels, d.tasks, d.since FROM s, LATERAL (
				SELECT (array_agg(labels))[1] AS labels, count(*) AS tasks, min(greatest(run_at, updated_at)) AS since FROM (
					SELECT labels, run_at, updated_at FROM llm_tasks q WHERE q.gate = 'open' AND q.label_key = s.label_key LIMIT $2) q) d
			WHERE s.label_key IS NOT NULL ORDER BY s.n`, sets, tasks)
	})
}

// heldBack reads the beginning of what a gate holds back.
var heldBack = map[bloom.Gate]string{
	bloom.GateDelayed: `SELECT created_at, run_at FROM llm_tasks WHERE gate = 'delayed' ORDER BY run_at LIMIT $1`,
	bloom.GateOrdered: `SELECT greatest(created_at, updated_at) AS created_at, run_at FROM llm_tasks WHERE pending AND gate = 'ordered' ORDER BY context_id, seq LIMIT $1`,
}

// HeldBack counts queued tasks behind a gate.
func (d *database) HeldBack(ctx context.Context, gate bloom.Gate, most int) (bloom.HeldBack, error) {
	return read(ctx, d, func(c reader) (bloom.HeldBack, error) {
		return found(ctx, c, func(r pgx.Rows) (h bloom.HeldBack, err error) {
			err = r.Scan(&h.Tasks, &h.Since, &h.Until)
			return h, err
		}, nil, `SELECT count(*), coalesce(min(created_at), 0), coalesce(min(run_at), 0) FROM (`+heldBack[gate]+`) x`, most)
	})
}
