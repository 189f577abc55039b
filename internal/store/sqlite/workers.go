package sqlite

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/schema"
)

// contactEvery is how seldom a worker's last contact is written, in
// milliseconds: not once a task.
const contactEvery = 5000

// stored is a worker with what is known of its living process.
type stored struct {
	bloom.Worker
	instanceID   string
	instanceSeen int64
	removed      bool
}

const workerColumns = `w.id, w.node_id, w.url, w.status, w.claude_cli, w.max_concurrency, w.labels, w.last_heartbeat, w.ip_addrs,
	w.obs_count, w.db_sha, w.registered_at, w.agent_version, w.os_info, w.install_method, w.draining,
	w.instance_id, w.instance_seen, w.removed`

const countHeld = `(SELECT COUNT(*) FROM leases l WHERE l.worker_id = w.id AND l.status = 'active')`

func scanWorker(r row) stored {
	return stored{
		Worker: bloom.Worker{
			ID: r.str(0), NodeID: r.str(1), URL: r.str(2), Status: bloom.WorkerStatus(r.str(3)),
			Capabilities:  bloom.Capabilities{ClaudeCLI: r.bool(4), MaxConcurrency: int(r.int(5)), Labels: r.list(6)},
			LastHeartbeat: r.intp(7), IPAddrs: r.list(8), ObsCount: r.int(9), DBSHA: r.str(10), RegisteredAt: r.int(11),
			AgentVersion: r.str(12), OSInfo: r.str(13), InstallMethod: r.str(14), Draining: r.bool(15), ActiveLeases: int(r.int(19)),
		},
		instanceID: r.str(16), instanceSeen: r.int(17), removed: r.bool(18),
	}
}

// known reads a worker even when it was removed.
func (c *conn) known(id string) (stored, error) {
	return found(c, scanWorker, bloom.ErrWorkerNotFound, `SELECT `+workerColumns+`, `+countHeld+` FROM workers w WHERE w.id = ?`, id)
}

func (c *conn) worker(id string) (stored, error) {
	w, err := c.known(id)
	if err == nil && w.removed {
		err = bloom.ErrWorkerNotFound
	}
	return w, err
}

func (c *conn) workers(where string) ([]bloom.Worker, error) {
	return collect(c, func(r row) bloom.Worker { return scanWorker(r).Worker }, `SELECT `+workerColumns+`, `+countHeld+` FROM workers w `+where)
}

// contact notes that a worker's living process was heard of, and makes it
// online again. Another process while the known one lives is refused.
func (t *tx) contact(w *stored, instanceID string) error {
	if w.rivals(instanceID, t.now) {
		return bloom.ErrWorkerConflict
	}
	if instanceID == "" {
		instanceID = w.instanceID
	}
	back := w.Status == bloom.WorkerOffline || w.Status == bloom.WorkerUnknown
	if !back && instanceID == w.instanceID && w.instanceSeen <= t.now && t.now-w.instanceSeen < contactEvery {
		return nil
	}
	if back {
		w.Status = bloom.WorkerOnline
	}
	now := t.now // of this operation: t outlives it
	w.LastHeartbeat, w.instanceID, w.instanceSeen = &now, instanceID, now
	if err := t.set(`UPDATE workers SET status = ?, last_heartbeat = ?, instance_id = ?, instance_seen = ? WHERE id = ?`,
		w.Status, now, instanceID, now, w.ID); err != nil {
		return err
	}
	t.mem.keepWorker(*w)
	if !back {
		return nil
	}
	return t.auditWorker(w.Worker, bloom.ActionWorkerOnline, w.ID, "Heard of again")
}

// rivals reports that another process than the stored one calls while that one
// is alive.
func (w *stored) rivals(instanceID string, now int64) bool {
	return instanceID != "" && w.instanceID != "" && instanceID != w.instanceID && !w.removed &&
		now-w.instanceSeen < bloom.OfflineAfter.Milliseconds()
}

// touch notes a contact that came with a lease, at most every contactEvery.
func (t *tx) touch(workerID string) error {
	w, err := t.worker(workerID)
	if isNotFound(err) {
		return nil // a removed worker may still report a late lease
	}
	if err != nil || (w.instanceSeen <= t.now && t.now-w.instanceSeen < contactEvery) {
		return err
	}
	return t.contact(&w, "")
}

func (t *tx) auditWorker(w bloom.Worker, action, actor, detail string) error {
	t.changes = append(t.changes, bloom.Change{Kind: bloom.ChangeWorker, WorkerID: w.ID})
	t.audit(action, bloom.EntityWorker, w.ID, actor, detail, bloom.MustJSON(map[string]any{"status": w.Status, "draining": w.Draining}))
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
	w, created, err := t.orNew(spec.Name)
	if err != nil {
		return w.Worker, false, err
	}
	if w.rivals(spec.InstanceID, t.now) {
		return w.Worker, false, bloom.ErrWorkerConflict
	}
	w.URL = bloom.CleanText(spec.URL)
	w.Status = cmp.Or(spec.Status, bloom.WorkerOnline)
	w.Capabilities = spec.Capabilities.Sane()
	now := t.now
	w.LastHeartbeat = &now
	w.IPAddrs = schema.ParseList(schema.ListJSON(spec.IPAddrs))
	w.AgentVersion, w.OSInfo, w.InstallMethod = bloom.CleanText(spec.AgentVersion), bloom.CleanText(spec.OSInfo), bloom.CleanText(spec.InstallMethod)
	w.removed = false
	if spec.InstanceID != "" {
		// A new process has not been told to stop: the order was the old one's.
		w.Draining = w.Draining && spec.InstanceID == w.instanceID
		w.instanceID, w.instanceSeen = bloom.CleanText(spec.InstanceID), t.now
	}
	if err := t.putWorker(w); err != nil {
		return w.Worker, false, err
	}
	action, detail := bloom.ActionWorkerUpdated, "Registered again"
	if created {
		action, detail = bloom.ActionWorkerRegistered, "Registered"
	}
	return w.Worker, created, t.auditWorker(w.Worker, action, actor, detail)
}

// orNew reads a worker; one that is unknown or was removed begins anew.
func (t *tx) orNew(name string) (w stored, created bool, err error) {
	name = bloom.CleanText(name)
	w, err = t.worker(name)
	if err == nil || !isNotFound(err) {
		return w, false, err
	}
	return stored{Worker: bloom.Worker{
		ID: name, NodeID: name, Status: bloom.WorkerUnknown, RegisteredAt: t.now, IPAddrs: []string{},
		Capabilities: bloom.Capabilities{ClaudeCLI: true}.Sane(),
	}}, true, nil
}

func isNotFound(err error) bool { return bloom.KindOf(err) == bloom.KindNotFound }

func (t *tx) putWorker(w stored) error {
	_, err := t.put(`INSERT INTO workers (id, node_id, url, status, claude_cli, max_concurrency, labels, last_heartbeat, ip_addrs, obs_count, db_sha,
			registered_at, agent_version, os_info, install_method, draining, instance_id, instance_seen, removed)
		VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19)
		ON CONFLICT (id) DO UPDATE SET node_id = ?2, url = ?3, status = ?4, claude_cli = ?5, max_concurrency = ?6, labels = ?7, last_heartbeat = ?8,
			ip_addrs = ?9, obs_count = ?10, db_sha = ?11, registered_at = ?12, agent_version = ?13, os_info = ?14, install_method = ?15,
			draining = ?16, instance_id = ?17, instance_seen = ?18, removed = ?19`,
		w.ID, w.NodeID, w.URL, w.Status, w.Capabilities.ClaudeCLI, w.Capabilities.MaxConcurrency, schema.ListJSON(w.Capabilities.Labels), w.LastHeartbeat,
		schema.ListJSON(w.IPAddrs), w.ObsCount, w.DBSHA, w.RegisteredAt, w.AgentVersion, w.OSInfo, w.InstallMethod, w.Draining, w.instanceID, w.instanceSeen, w.removed)
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
	gone := w
	gone.removed, gone.Status, gone.instanceID, gone.instanceSeen = true, bloom.WorkerOffline, "", 0
	t.mem.keepWorker(gone)
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
	return t.auditWorker(w.Worker, bloom.ActionWorkerRemoved, actor, "Removed")
}

// DrainWorker orders a worker to take no more work, or lifts the order.
func (s *Store) DrainWorker(ctx context.Context, id string, drain bool, actor string) (bloom.Worker, error) {
	return write(ctx, s, func(t *tx) (bloom.Worker, error) {
		w, err := t.worker(id)
		if err != nil || w.Draining == drain {
			return w.Worker, err
		}
		w.Draining = drain
		if err := t.set(`UPDATE workers SET draining = ? WHERE id = ?`, drain, id); err != nil {
			return w.Worker, err
		}
		t.mem.keepWorker(w)
		detail := "Ordered to take no more work"
		if !drain {
			detail = "May take work again"
		}
		return w.Worker, t.auditWorker(w.Worker, bloom.ActionWorkerDrain, actor, detail)
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
			w.Status = bloom.WorkerOffline
			if err := t.set(`UPDATE workers SET status = 'offline' WHERE id = ?`, w.ID); err != nil {
				return 0, err
			}
			t.mem.keepWorker(w)
			if err := t.auditWorker(w.Worker, bloom.ActionWorkerOffline, "runtime", "Nobody has heard of it for more than "+longer.String()); err != nil {
				return 0, err
			}
		}
		return len(silent), nil
	})
}
