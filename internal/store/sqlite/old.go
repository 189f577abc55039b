package sqlite

import (
	"context"
	"errors"

	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Old counts what retention would remove from the database at path; an age of 0 keeps
// for ever. now is in Unix milliseconds. It only reads, works while a process has the
// file open, and scans all rows. It also counts tasks that retention keeps because of
// their contexts.
func Old(ctx context.Context, path string, keep contract.Keep, now int64) (old contract.Removed, err error) {
	if err := ctx.Err(); err != nil {
		return old, err
	}
	c, err := dial(dsn(path, "ro"), readerPragmas...)
	if err != nil {
		return old, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	const ended = ` FROM llm_tasks t WHERE t.status IN ('completed','failed','dead','cancelled') AND t.updated_at < ?1`
	before := keep.Before(now)
	for _, q := range []struct {
		n      *int64
		before int64
		query  string
	}{
		{&old.Tasks, before.Tasks, `SELECT COUNT(*)` + ended},
		{&old.Leases, before.Tasks, `SELECT COUNT(*) FROM leases WHERE task_id IN (SELECT t.id` + ended + `)`},
		{&old.Results, before.Tasks, `SELECT COUNT(*) FROM llm_results WHERE task_id IN (SELECT t.id` + ended + `)`},
		{&old.Artifacts, before.Tasks, `SELECT COUNT(*) FROM runtime_artifacts WHERE task_id IN (SELECT t.id` + ended + `)`},
		{&old.Contents, before.Tasks, `SELECT COUNT(*) FROM runtime_artifacts WHERE url IS NOT NULL AND task_id IN (SELECT t.id` + ended + `)`},
		{&old.Events, max(before.Tasks, before.Events), `SELECT COUNT(*) FROM task_events WHERE task IN (SELECT t.seq` + ended + `)`},
		{&old.Audit, before.Audit, `SELECT COUNT(*) FROM audit_logs a WHERE a.timestamp < ?1
			AND NOT EXISTS (SELECT 1 FROM llm_tasks t WHERE t.id = a.entity_id AND t.status IN ('queued','leased','running'))`},
		{&old.Contexts, before.Contexts, `SELECT COUNT(*) FROM contexts WHERE unfinished = 0 AND updated_at < ?1 AND last_used_at < ?1`},
	} {
		if *q.n, err = c.number(q.query, q.before); err != nil {
			return old, err
		}
	}
	return old, nil
}
