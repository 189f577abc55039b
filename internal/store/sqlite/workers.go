package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/schema"
)

const workerColumns = `w.id, w.node_id, w.url, w.status, w.claude_cli, w.max_concurrency, w.labels, w.last_heartbeat, w.ip_addrs,
	w.obs_count, w.db_sha, w.registered_at, w.agent_version, w.os_info, w.install_method, w.draining,
	w.instance_id, w.instance_seen, w.removed, w.followed_drain, w.followed_order, w.posted_at, w.told_order`

const countHeld = `(SELECT COUNT(*) FROM leases l WHERE l.worker_id = w.id AND l.status = 'active')`

func scanWorker(r row) bloom.KnownWorker {
	return bloom.KnownWorker{
		Worker: bloom.Worker{
			ID: r.str(0), NodeID: r.str(1), URL: r.str(2), Status: bloom.WorkerStatus(r.str(3)),
			Capabilities:  bloom.Capabilities{ClaudeCLI: r.bool(4), MaxConcurrency: int(r.int(5)), Labels: r.list(6)},
			LastHeartbeat: r.intp(7), IPAddrs: r.list(8), ObsCount: bloom.ObsCount(r.int(9)), DBSHA: r.str(10), RegisteredAt: r.int(11),
			AgentVersion: r.str(12), OSInfo: r.str(13), InstallMethod: r.str(14), Draining: r.bool(15), ActiveLeases: int(r.int(23)),
		},
		InstanceID: r.str(16), InstanceSeen: r.int(17), Removed: r.bool(18),
		Followed: bloom.DrainOrder{Drain: r.bool(19), Number: r.int(20)}, PostedAt: r.int(21), Told: r.int(22),
	}
}

// known reads a worker even when it was removed.
func (c *conn) known(id string) (bloom.KnownWorker, error) {
	return found(c, scanWorker, bloom.ErrWorkerNotFound, `SELECT `+workerColumns+`, `+countHeld+` FROM workers w WHERE w.id = ?`, id)
}

func (c *conn) worker(id string) (bloom.KnownWorker, error) {
	w, err := c.known(id)
	if err == nil && w.Removed {
		err = bloom.ErrWorkerNotFound
	}
	return w, err
}

func (c *conn) workers(where string) ([]bloom.Worker, error) {
	return collect(c, func(r row) bloom.Worker { return scanWorker(r).Worker }, `SELECT `+workerColumns+`, `+countHeld+` FROM workers w `+where)
}

// contact notes that a worker's living process was heard of, and makes it
// online again. Another process while the known one lives is refused.
func (t *tx) contact(w *bloom.KnownWorker, instanceID string, mustName bool) error {
	if w.Rivals(instanceID, mustName, t.now) {
		return bloom.ErrWorkerConflict
	}
	heard := w.Heard(instanceID, t.now)
	if heard.Action == "" && !heard.Contact {
		return nil
	}
	*w = heard.Worker
	if err := t.set(`UPDATE workers SET status = ?, last_heartbeat = ?, instance_id = ?, instance_seen = ? WHERE id = ?`,
		w.Status, w.LastHeartbeat, w.InstanceID, w.InstanceSeen, w.ID); err != nil {
		return err
	}
	t.mem.keepWorker(*w)
	return t.auditWorker(heard, w.ID)
}

// touch notes a contact that came with a lease, at most every bloom.ContactEvery.
func (t *tx) touch(workerID string) error {
	w, err := t.worker(workerID)
	if isNotFound(err) {
		return nil // a removed worker may still report a late lease
	}
	if err != nil {
		return err
	}
	return t.contact(&w, "", false)
}

// auditWorker tells of a change; one that is no news is not told.
func (t *tx) auditWorker(c bloom.WorkerChange, actor string) error {
	if c.Action == "" {
		return nil
	}
	t.changes = append(t.changes, bloom.Change{Kind: bloom.ChangeWorker, WorkerID: c.Worker.ID})
	t.audit(c.Action, bloom.EntityWorker, c.Worker.ID, actor, c.Detail, c.AuditData())
	return nil
}

// RegisterWorker makes a worker known or updates it.
func (s *Store) RegisterWorker(ctx context.Context, spec bloom.WorkerSpec, actor string) (bloom.Worker, bool, error) {
	type answer struct {
		worker  bloom.Worker
		created bool
	}
	a, err := write(ctx, s, func(t *tx) (a answer, err error) {
		a.worker, a.created, err = t.register(spec, actor)
		return a, err
	})
	return a.worker, a.created, err
}

func (t *tx) register(spec bloom.WorkerSpec, actor string) (bloom.Worker, bool, error) {
	was, err := t.orUnknown(spec.Name)
	if err != nil {
		return bloom.Worker{}, false, err
	}
	c, err := bloom.RegisterWorker(was, spec, t.now)
	if err != nil {
		return bloom.Worker{}, false, err
	}
	if err := t.putWorker(c.Worker); err != nil {
		return bloom.Worker{}, false, err
	}
	return c.Worker.Worker, c.Created, t.auditWorker(c, actor)
}

// orUnknown reads a worker, even when it was removed.
func (t *tx) orUnknown(name string) (bloom.KnownWorker, error) {
	w, err := t.known(bloom.CleanText(name))
	if isNotFound(err) {
		return bloom.KnownWorker{}, nil
	}
	return w, err
}

func isNotFound(err error) bool { return bloom.KindOf(err) == bloom.KindNotFound }

func (t *tx) putWorker(w bloom.KnownWorker) error {
	_, err := t.put(`INSERT INTO workers (id, node_id, url, status, claude_cli, max_concurrency, labels, last_heartbeat, ip_addrs, obs_count, db_sha,
			registered_at, agent_version, os_info, install_method, draining, instance_id, instance_seen, removed,
			followed_drain, followed_order, posted_at, told_order)
		VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?22,?23)
		ON CONFLICT (id) DO UPDATE SET node_id = ?2, url = ?3, status = ?4, claude_cli = ?5, max_concurrency = ?6, labels = ?7, last_heartbeat = ?8,
			ip_addrs = ?9, obs_count = ?10, db_sha = ?11, registered_at = ?12, agent_version = ?13, os_info = ?14, install_method = ?15,
			draining = ?16, instance_id = ?17, instance_seen = ?18, removed = ?19,
			followed_drain = ?20, followed_order = ?21, posted_at = ?22, told_order = ?23`,
		w.ID, w.NodeID, w.URL, w.Status, w.Capabilities.ClaudeCLI, w.Capabilities.MaxConcurrency, schema.ListJSON(w.Capabilities.Labels), w.LastHeartbeat,
		schema.ListJSON(w.IPAddrs), int64(w.ObsCount), w.DBSHA, w.RegisteredAt, w.AgentVersion, w.OSInfo, w.InstallMethod, w.Draining, w.InstanceID, w.InstanceSeen, w.Removed,
		w.Followed.Drain, w.Followed.Number, w.PostedAt, w.Told)
	t.mem.keepWorker(w)
	return err
}

// Worker reads a worker and the leases it holds.
func (s *Store) Worker(ctx context.Context, id string) (bloom.Worker, []bloom.Lease, error) {
	type answer struct {
		worker bloom.Worker
		leases []bloom.Lease
	}
	a, err := read(ctx, s, func(c *conn) (a answer, err error) {
		w, err := c.worker(id)
		if err != nil {
			return a, err
		}
		a.worker = w.Worker
		a.leases, err = collect(c, scanLease, `SELECT `+leaseColumns+` FROM leases l WHERE l.worker_id = ? AND l.status = 'active' ORDER BY l.seq DESC`, id)
		return a, err
	})
	return a.worker, a.leases, err
}

// Workers lists all workers by name.
func (s *Store) Workers(ctx context.Context) ([]bloom.Worker, error) {
	return read(ctx, s, func(c *conn) ([]bloom.Worker, error) { return c.workers(`WHERE w.removed = 0 ORDER BY w.id`) })
}

// RemoveWorker forgets a worker and puts what it held back in the queue.
func (s *Store) RemoveWorker(ctx context.Context, id, actor string) error {
	_, err := write(ctx, s, func(t *tx) (struct{}, error) { return struct{}{}, t.remove(id, actor) })
	return err
}

func (t *tx) remove(id, actor string) error {
	w, err := t.worker(id)
	if err != nil {
		return err
	}
	held, err := t.holdings(id)
	if err != nil {
		return err
	}
	// First, so that nothing given back prefers the worker that goes.
	if err := t.set(`UPDATE workers SET removed = 1, status = 'offline', instance_id = '', instance_seen = 0 WHERE id = ?`, id); err != nil {
		return err
	}
	gone := bloom.RemoveWorker(w)
	t.mem.keepWorker(gone.Worker)
	for i := range held {
		h := &held[i]
		tr, err := bloom.GiveBack(h.task.state, h.lease, "the worker was removed", 0, t.now)
		if err != nil {
			return err
		}
		if err := t.apply(&h.task, h.lease, tr, actor); err != nil {
			return err
		}
	}
	return t.auditWorker(gone, actor)
}

// DrainWorker orders a worker to take no more work, or lifts the order.
func (s *Store) DrainWorker(ctx context.Context, id string, drain bool, actor string) (bloom.Worker, error) {
	return write(ctx, s, func(t *tx) (bloom.Worker, error) {
		w, err := t.worker(id)
		if err != nil {
			return bloom.Worker{}, err
		}
		c := bloom.DrainWorker(w, drain)
		if c.Action == "" {
			return w.Worker, nil
		}
		if err := t.set(`UPDATE workers SET draining = ? WHERE id = ?`, drain, id); err != nil {
			return bloom.Worker{}, err
		}
		t.mem.keepWorker(c.Worker)
		return c.Worker.Worker, t.auditWorker(c, actor)
	})
}

// FollowDrain carries out an order of the control plane's that is news.
func (s *Store) FollowDrain(ctx context.Context, id string, o bloom.DrainOrder, actor string) (bloom.Worker, error) {
	return write(ctx, s, func(t *tx) (bloom.Worker, error) {
		w, err := t.worker(id)
		if err != nil {
			return bloom.Worker{}, err
		}
		c, ok := bloom.FollowDrain(w, o)
		if !ok {
			return w.Worker, nil
		}
		if err := t.set(`UPDATE workers SET draining = ?, followed_drain = ?, followed_order = ?, told_order = ? WHERE id = ?`,
			c.Worker.Draining, c.Worker.Followed.Drain, c.Worker.Followed.Number, c.Worker.Told, id); err != nil {
			return bloom.Worker{}, err
		}
		t.mem.keepWorker(c.Worker)
		if c.Action == "" {
			return w.Worker, nil
		}
		return c.Worker.Worker, t.auditWorker(c, actor)
	})
}

// FollowedDrains are the control plane's orders that were carried out last.
func (s *Store) FollowedDrains(ctx context.Context) (map[string]bloom.DrainOrder, error) {
	return read(ctx, s, func(c *conn) (map[string]bloom.DrainOrder, error) {
		all, err := collect(c, scanWorker, `SELECT `+workerColumns+`, 0 FROM workers w WHERE w.removed = 0 AND (w.followed_drain = 1 OR w.followed_order <> 0)`)
		orders := make(map[string]bloom.DrainOrder, len(all))
		for _, w := range all {
			orders[w.ID] = w.Followed
		}
		return orders, err
	})
}

// MarkSilent sets workers offline that nobody has heard of for longer.
func (s *Store) MarkSilent(ctx context.Context, longer time.Duration) (int, error) {
	return write(ctx, s, func(t *tx) (int, error) {
		silent, err := t.workers(`WHERE w.removed = 0 AND w.status <> 'offline' ORDER BY w.id`)
		if err != nil {
			return 0, err
		}
		silent = slices.DeleteFunc(silent, func(w bloom.Worker) bool { return t.now-w.LastContact() <= longer.Milliseconds() })
		for _, s := range silent {
			w, err := t.known(s.ID)
			if err != nil {
				return 0, err
			}
			c := bloom.SilenceWorker(w, longer)
			if err := t.set(`UPDATE workers SET status = 'offline' WHERE id = ?`, w.ID); err != nil {
				return 0, err
			}
			t.mem.keepWorker(c.Worker)
			if err := t.auditWorker(c, "runtime"); err != nil {
				return 0, err
			}
		}
		return len(silent), nil
	})
}
