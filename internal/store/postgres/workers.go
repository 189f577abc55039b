package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
)

// stored is a worker as it was read for a transaction.
type stored struct {
	bloom.KnownWorker
	version uint32 // of the row as it was read; 0 when that is not known
	back    bool   // heard of again after a silence
}

const workerColumns = `w.id, w.node_id, w.url, w.status, w.claude_cli, w.max_concurrency, w.labels, w.last_heartbeat, w.ip_addrs,
	w.obs_count, w.db_sha, w.registered_at, w.agent_version, w.os_info, w.install_method, w.draining,
	w.instance_id, w.instance_seen, w.removed, w.followed_drain, w.followed_order, w.posted_at, w.told_order`

const countHeld = `(SELECT count(*) FROM leases l WHERE l.worker_id = w.id AND l.status = 'active')`

func scanWorker(r pgx.Rows) (*stored, error) {
	w := &stored{}
	return w, r.Scan(w.fields()...)
}

func (w *stored) fields() []any {
	return []any{
		&w.ID, &w.NodeID, &w.URL, &w.Status, &w.Capabilities.ClaudeCLI, &w.Capabilities.MaxConcurrency, (*list)(&w.Capabilities.Labels),
		&w.LastHeartbeat, (*list)(&w.IPAddrs), &w.ObsCount, &w.DBSHA, &w.RegisteredAt, &w.AgentVersion, &w.OSInfo, &w.InstallMethod, &w.Draining,
		&w.InstanceID, &w.InstanceSeen, &w.Removed, &w.Followed.Drain, &w.Followed.Number, &w.PostedAt, &w.Told, &w.ActiveLeases,
	}
}

// worker is one that was read for the transaction.
func (t *tx) worker(id string) (*stored, error) {
	if w, ok := t.workers[id]; ok && !w.Removed {
		return w, nil
	}
	return nil, bloom.ErrWorkerNotFound
}

// known reads a worker under a lock, even when it was removed.
func (t *tx) known(id string) (*stored, error) {
	if id != bloom.CleanText(id) {
		return nil, bloom.ErrWorkerNotFound
	}
	return found(t.ctx, t.c, scanWorker, bloom.ErrWorkerNotFound, `SELECT `+workerColumns+`, `+countHeld+` FROM workers w WHERE w.id = $1 FOR UPDATE OF w`, id)
}

func (t *tx) present(id string) (*stored, error) {
	w, err := t.known(id)
	if err == nil && w.Removed {
		err = bloom.ErrWorkerNotFound
	}
	return w, err
}

// heardOf notes that a worker's living process was heard of, and makes it online
// again.
func (t *tx) heardOf(w *stored, instanceID string) {
	heard := w.Heard(instanceID, t.now)
	if heard.Action == "" && !heard.Contact {
		return
	}
	w.KnownWorker, w.back = heard.Worker, w.back || heard.Action != ""
	t.auditWorker(heard, w.ID)
	if !slices.Contains(t.contacts, w) {
		t.contacts = append(t.contacts, w)
	}
	t.wrote = true
}

// contactCache remembers when this process last saw that a worker was noted as
// heard of, so that a heartbeat need not read its row.
type contactCache struct {
	mu   sync.Mutex
	seen map[string]int64
}

func (c *contactCache) recent(id string, now int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.seen[id]
	return ok && at <= now && now-at < bloom.ContactEvery.Milliseconds()
}

func (c *contactCache) note(id string, at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = make(map[string]int64)
	}
	c.seen[id] = at
}

// touch notes a contact that came with a lease, at most every bloom.ContactEvery. A
// worker that another transaction holds is being noted there.
func (t *tx) touch(workerID string) error {
	if t.recalled || t.s.contact.recent(workerID, t.now) {
		return nil // what is recalled was heard of just now
	}
	w, err := found(t.ctx, t.c, scanWorker, bloom.ErrWorkerNotFound,
		`SELECT `+workerColumns+`, 0 FROM workers w WHERE w.id = $1 AND NOT w.removed FOR UPDATE SKIP LOCKED`, workerID)
	switch {
	case errors.Is(err, bloom.ErrWorkerNotFound):
		return nil // a removed worker may still report a late lease
	case err != nil:
		return err
	}
	t.heardOf(w, "")
	t.s.contact.note(workerID, w.InstanceSeen)
	return nil
}

// auditWorker tells of a change; one that is no news is not told.
func (t *tx) auditWorker(c bloom.WorkerChange, actor string) {
	if c.Action == "" {
		return
	}
	t.changes = append(t.changes, bloom.Change{Kind: bloom.ChangeWorker, WorkerID: c.Worker.ID})
	t.audit(c.Action, bloom.EntityWorker, c.Worker.ID, actor, c.Detail, c.AuditData())
}

// Worker reads a worker and the leases it holds.
func (s *Store) Worker(ctx context.Context, id string) (bloom.Worker, []bloom.Lease, error) {
	type answer struct {
		worker bloom.Worker
		leases []bloom.Lease
	}
	if id != bloom.CleanText(id) {
		return bloom.Worker{}, nil, bloom.ErrWorkerNotFound
	}
	a, err := read(ctx, s, func(c reader) (a answer, err error) {
		w, err := found(ctx, c, scanWorker, bloom.ErrWorkerNotFound, `SELECT `+workerColumns+`, 0 FROM workers w WHERE w.id = $1 AND NOT w.removed`, id)
		if err != nil {
			return a, err
		}
		a.worker = w.Worker
		a.leases, err = collect(ctx, c, scanLease, `SELECT `+leaseColumns+` FROM leases l WHERE l.worker_id = $1 AND l.status = 'active' ORDER BY l.seq DESC`, id)
		a.worker.ActiveLeases = len(a.leases)
		return a, err
	})
	return a.worker, a.leases, err
}

// Workers lists all workers by name.
func (s *Store) Workers(ctx context.Context) ([]bloom.Worker, error) {
	return read(ctx, s, func(c reader) ([]bloom.Worker, error) {
		return collect(ctx, c, func(r pgx.Rows) (bloom.Worker, error) {
			w, err := scanWorker(r)
			return w.Worker, err
		}, `SELECT `+workerColumns+`, coalesce(h.n, 0) FROM workers w
			LEFT JOIN (SELECT l.worker_id, count(*) AS n FROM leases l WHERE l.status = 'active' GROUP BY l.worker_id) h ON h.worker_id = w.id
			WHERE NOT w.removed ORDER BY w.id`)
	})
}

func isNotFound(err error) bool { return err != nil && bloom.KindOf(err) == bloom.KindNotFound }
