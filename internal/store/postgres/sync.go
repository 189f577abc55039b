package postgres

import (
	"github.com/bloom-runtime/bloom"
)

// sync takes one report in and tells whether it was news.
func (t *tx) sync(r bloom.WorkerReport) (bool, error) {
	was, err := t.orUnknown(r.Name)
	if err != nil {
		return false, err
	}
	c := bloom.SyncWorker(was, r, t.now)
	switch {
	case c.Contact:
		_, err := t.c.Exec(t.ctx, `UPDATE workers SET last_heartbeat = $1, posted_at = $2 WHERE id = $3`, c.Worker.LastHeartbeat, c.Worker.PostedAt, c.Worker.ID)
		return false, err
	case c.Action == "":
		return false, nil
	}
	if err := t.putWorker(&c.Worker); err != nil {
		return false, err
	}
	t.auditWorker(c, "membridge")
	return true, nil
}
