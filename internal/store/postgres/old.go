package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Old counts what retention would remove from the database; an age of 0 keeps for
// ever. It only reads, and scans all rows. It also counts tasks that retention keeps
// because of their contexts.
func Old(ctx context.Context, url string, keep contract.Keep) (old contract.Removed, err error) {
	cfg, err := parse(url)
	if err != nil {
		return old, err
	}
	delete(cfg.RuntimeParams, "enable_seqscan") // these queries read whole tables
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return old, cannotConnect(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	var now int64
	if err := c.QueryRow(ctx, `SELECT `+nowSQL, nil).Scan(&now); err != nil {
		return old, fmt.Errorf("postgresql: %w", err)
	}
	const ended = ` FROM llm_tasks t WHERE t.status IN ('completed','failed','dead','cancelled') AND t.updated_at < `
	before := keep.Before(now)
	err = c.QueryRow(ctx, `WITH old AS MATERIALIZED (SELECT t.id`+ended+`$1), trimmed AS MATERIALIZED (SELECT t.seq`+ended+`$2)
		SELECT (SELECT count(*) FROM old),
			(SELECT count(*) FROM leases x JOIN old ON old.id = x.task_id),
			(SELECT count(*) FROM llm_results x JOIN old ON old.id = x.task_id),
			(SELECT count(*) FROM runtime_artifacts x JOIN old ON old.id = x.task_id),
			(SELECT count(*) FROM runtime_artifacts x JOIN old ON old.id = x.task_id WHERE x.url IS NOT NULL),
			(SELECT count(*) FROM task_events x JOIN trimmed ON trimmed.seq = x.task),
			(SELECT count(*) FROM audit_logs a WHERE a.timestamp < $3
				AND NOT EXISTS (SELECT FROM llm_tasks t WHERE t.id::text = a.entity_id AND t.status IN ('queued','leased','running'))),
			(SELECT count(*) FROM contexts x WHERE x.unfinished = 0 AND x.updated_at < $4 AND x.last_used_at < $4)`,
		before.Tasks, max(before.Tasks, before.Events), before.Audit, before.Contexts).
		Scan(&old.Tasks, &old.Leases, &old.Results, &old.Artifacts, &old.Contents, &old.Events, &old.Audit, &old.Contexts)
	if err != nil {
		return old, fmt.Errorf("postgresql: %w", err)
	}
	return old, nil
}
