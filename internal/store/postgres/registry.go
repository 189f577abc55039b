package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/schema"
)

// RegisterWorker makes a worker known or updates it.
func (s *Store) RegisterWorker(ctx context.Context, spec bloom.WorkerSpec, actor string) (bloom.Worker, bool, error) {
	type answer struct {
		worker  bloom.Worker
		created bool
	}
	need := func(w *want) { w.lockWorkers = append(w.lockWorkers, bloom.CleanText(spec.Name)) }
	a, err := separately(ctx, s, need, func(t *tx) (a answer, err error) {
		a.worker, a.created, err = t.register(spec, actor)
		return a, err
	})
	return a.worker, a.created, err
}

func (t *tx) register(spec bloom.WorkerSpec, actor string) (none bloom.Worker, created bool, err error) {
	w, created, err := t.orNew(spec.Name)
	if err != nil {
		return none, false, err
	}
	if w.rivals(spec.InstanceID, t.now) {
		return none, false, bloom.ErrWorkerConflict
	}
	now := t.now
	w.URL = bloom.CleanText(spec.URL)
	w.Status = cmp.Or(spec.Status, bloom.WorkerOnline)
	w.Capabilities = spec.Capabilities.Sane()
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
		return none, false, err
	}
	action, detail := bloom.ActionWorkerUpdated, "Registered again"
	if created {
		action, detail = bloom.ActionWorkerRegistered, "Registered"
	}
	t.auditWorker(w.Worker, action, actor, detail)
	return w.Worker, created, nil
}

// orNew reads a worker; one that is unknown or was removed begins anew.
func (t *tx) orNew(name string) (w *stored, created bool, err error) {
	name = bloom.CleanText(name)
	w, err = t.present(name)
	if err == nil || !isNotFound(err) {
		return w, false, err
	}
	return &stored{Worker: bloom.Worker{
		ID: name, NodeID: name, Status: bloom.WorkerUnknown, RegisteredAt: t.now, IPAddrs: []string{},
		Capabilities: bloom.Capabilities{ClaudeCLI: true}.Sane(),
	}}, true, nil
}

func (t *tx) putWorker(w *stored) error {
	_, err := t.c.Exec(t.ctx, `INSERT INTO workers AS w (id, node_id, url, status, claude_cli, max_concurrency, labels, last_heartbeat, ip_addrs, obs_count,
			db_sha, registered_at, agent_version, os_info, install_method, draining, instance_id, instance_seen, removed)
		VALUES ($1, $2, $3, $4, $5, $6, $7::text::jsonb, $8, $9::text::jsonb, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
		ON CONFLICT (id) DO UPDATE SET node_id = excluded.node_id, url = excluded.url, status = excluded.status, claude_cli = excluded.claude_cli,
			max_concurrency = excluded.max_concurrency, labels = excluded.labels, last_heartbeat = excluded.last_heartbeat, ip_addrs = excluded.ip_addrs,
			obs_count = excluded.obs_count, db_sha = excluded.db_sha, registered_at = excluded.registered_at, agent_version = excluded.agent_version,
			os_info = excluded.os_info, install_method = excluded.install_method, draining = excluded.draining, instance_id = excluded.instance_id,
			instance_seen = excluded.instance_seen, removed = excluded.removed`,
		w.ID, w.NodeID, w.URL, w.Status, w.Capabilities.ClaudeCLI, w.Capabilities.MaxConcurrency, schema.ListJSON(w.Capabilities.Labels), w.LastHeartbeat,
		schema.ListJSON(w.IPAddrs), w.ObsCount, w.DBSHA, w.RegisteredAt, w.AgentVersion, w.OSInfo, w.InstallMethod, w.Draining, w.instanceID, w.instanceSeen, w.removed)
	return err
}

// RemoveWorker forgets a worker and puts what it held back in the queue.
func (s *Store) RemoveWorker(ctx context.Context, id, actor string) error {
	need := func(w *want) { w.lockAll = true }
	_, err := separately(ctx, s, need, func(t *tx) (struct{}, error) { return struct{}{}, t.remove(id, actor) })
	return err
}

// remove locks the tasks before the worker, as every other transaction does: all
// slots are locked, so that no lease can be added meanwhile.
func (t *tx) remove(id, actor string) error {
	if id != bloom.CleanText(id) {
		return bloom.ErrWorkerNotFound
	}
	held, err := t.hold(`l.worker_id = $1`, id)
	if err != nil {
		return err
	}
	w, err := t.present(id)
	if err != nil {
		return err
	}
	t.room[id] = 0 // nothing given back prefers the worker that goes
	if _, err := t.c.Exec(t.ctx, `UPDATE workers SET removed = true, status = 'offline', instance_id = '', instance_seen = 0 WHERE id = $1`, id); err != nil {
		return err
	}
	for _, h := range held {
		tr, err := bloom.GiveBack(h.task.TaskState, h.lease.Lease, "the worker was removed", 0, t.now)
		if err != nil {
			return err
		}
		if err := t.apply(h.task, h.lease, tr, actor); err != nil {
			return err
		}
	}
	t.auditWorker(w.Worker, bloom.ActionWorkerRemoved, actor, "Removed")
	return nil
}

// DrainWorker orders a worker to take no more work, or lifts the order.
func (s *Store) DrainWorker(ctx context.Context, id string, drain bool, actor string) (bloom.Worker, error) {
	return separately(ctx, s, func(*want) {}, func(t *tx) (bloom.Worker, error) {
		w, err := t.present(id)
		if err != nil {
			return bloom.Worker{}, err
		}
		if w.Draining == drain {
			return w.Worker, nil
		}
		w.Draining = drain
		if _, err := t.c.Exec(t.ctx, `UPDATE workers SET draining = $1 WHERE id = $2`, drain, id); err != nil {
			return bloom.Worker{}, err
		}
		detail := "Ordered to take no more work"
		if !drain {
			detail = "May take work again"
		}
		t.auditWorker(w.Worker, bloom.ActionWorkerDrain, actor, detail)
		return w.Worker, nil
	})
}

// MarkSilent sets workers offline that nobody has heard of for longer.
func (s *Store) MarkSilent(ctx context.Context, longer time.Duration) (int, error) {
	return separately(ctx, s, func(*want) {}, func(t *tx) (int, error) {
		silent, err := collect(t.ctx, t.c, scanWorker, `SELECT `+workerColumns+`, 0 FROM workers w
			WHERE NOT w.removed AND w.status <> 'offline' AND coalesce(w.last_heartbeat, w.registered_at) < $1 ORDER BY w.id FOR UPDATE OF w`,
			t.now-longer.Milliseconds())
		if err != nil || len(silent) == 0 {
			return 0, err
		}
		names := make([]string, 0, len(silent))
		for _, w := range silent {
			w.Status = bloom.WorkerOffline
			names = append(names, w.ID)
			t.auditWorker(w.Worker, bloom.ActionWorkerOffline, "runtime", "Nobody has heard of it for more than "+longer.String())
		}
		_, err = t.c.Exec(t.ctx, `UPDATE workers SET status = 'offline' WHERE id = ANY($1::text[])`, names)
		return len(silent), err
	})
}

// SyncWorkers upserts what the control plane reports.
func (s *Store) SyncWorkers(ctx context.Context, reports []bloom.WorkerReport) (int, error) {
	// In the order of their names, as all workers are locked.
	reports = slices.Clone(reports)
	slices.SortStableFunc(reports, func(a, b bloom.WorkerReport) int {
		return cmp.Compare(bloom.CleanText(a.Name), bloom.CleanText(b.Name))
	})
	return separately(ctx, s, func(*want) {}, func(t *tx) (changed int, err error) {
		for _, r := range reports {
			did, err := t.sync(r)
			if err != nil {
				return 0, err
			}
			if did {
				changed++
			}
		}
		return changed, nil
	})
}
