package sqlite

import (
	"context"

	"github.com/bloom-runtime/bloom"
)

// WaitingArtifacts counts artifacts whose content is to be moved.
func (d *database) WaitingArtifacts(ctx context.Context) (int64, error) {
	return read(ctx, d, func(c *conn) (int64, error) {
		return c.number(`SELECT COUNT(*) FROM (SELECT 1 FROM runtime_artifacts INDEXED BY runtime_artifacts_displaced WHERE displaced = 1 AND seq > 0 LIMIT +?)`, bloom.MaxWaiting)
	})
}

// QueuedBy counts what an actor created and nobody has taken.
func (d *database) QueuedBy(ctx context.Context, actor string, most int64) (int64, error) {
	return read(ctx, d, func(c *conn) (int64, error) {
		return c.number(`SELECT COUNT(*) FROM (SELECT 1 FROM llm_tasks INDEXED BY llm_tasks_created_by WHERE created_by = ? AND status = 'queued' LIMIT +?)`, actor, most)
	})
}

// QueueDepths walks the sets of labels in the queue, as a claim does.
func (d *database) QueueDepths(ctx context.Context, sets, tasks int) ([]bloom.QueueDepth, error) {
	const open = `FROM llm_tasks INDEXED BY llm_tasks_queue WHERE status = 'queued' AND gate = 'open'`
	return read(ctx, d, func(c *conn) ([]bloom.QueueDepth, error) {
		return collect(c, func(r row) bloom.QueueDepth {
			return bloom.QueueDepth{Labels: r.list(0), Tasks: r.int(1), Since: r.int(2)}
		}, `WITH RECURSIVE s (label_key, n) AS (
				SELECT * FROM (SELECT label_key, 1 `+open+` ORDER BY label_key LIMIT 1)
				UNION ALL
				SELECT (SELECT label_key `+open+` AND label_key > s.label_key ORDER BY label_key LIMIT 1), s.n + 1
				FROM s WHERE s.label_key IS NOT NULL AND s.n < ?1)
			SELECT (SELECT labels `+open+` AND label_key = s.label_key LIMIT 1),
				(SELECT COUNT(*) FROM (SELECT 1 `+open+` AND label_key = s.label_key LIMIT +?2)),
				(SELECT MIN(since) FROM (SELECT MAX(run_at, updated_at) AS since `+open+` AND label_key = s.label_key LIMIT +?2))
			FROM s WHERE s.label_key IS NOT NULL ORDER BY s.n`, sets, tasks)
	})
}

// heldBack reads the beginning of what a gate holds back.
var heldBack = map[bloom.Gate]string{
	bloom.GateDelayed: `SELECT created_at, run_at FROM llm_tasks INDEXED BY llm_tasks_delayed WHERE status = 'queued' AND gate = 'delayed' ORDER BY run_at LIMIT +?`,
	bloom.GateOrdered: `SELECT MAX(created_at, updated_at) AS created_at, run_at FROM llm_tasks INDEXED BY llm_tasks_ordered
		WHERE ordered = 1 AND status IN ('queued','leased','running') AND gate = 'ordered' ORDER BY context_id, seq LIMIT +?`,
}

// HeldBack counts queued tasks behind a gate.
func (d *database) HeldBack(ctx context.Context, gate bloom.Gate, most int) (bloom.HeldBack, error) {
	return read(ctx, d, func(c *conn) (bloom.HeldBack, error) {
		return found(c, func(r row) bloom.HeldBack { return bloom.HeldBack{Tasks: r.int(0), Since: r.int(1), Until: r.int(2)} }, nil,
			`SELECT COUNT(*), MIN(created_at), MIN(run_at) FROM (`+heldBack[gate]+`)`, most)
	})
}
