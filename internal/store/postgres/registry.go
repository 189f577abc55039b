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
	was, err := t.orUnknown(spec.Name)
	if err != nil {
		return none, false, err
	}
	c, err := bloom.RegisterWorker(was, spec, t.now)
	if err != nil {
		return none, false, err
	}
	if err := t.putWorker(&c.Worker); err != nil {
		return none, false, err
	}
	t.auditWorker(c, actor)
	return c.Worker.Worker, c.Created, nil
}

// orUnknown reads a worker under a lock, even when it was removed.
func (t *tx) orUnknown(name string) (bloom.KnownWorker, error) {
	w, err := t.known(bloom.CleanText(name))
	switch {
	case isNotFound(err):
		return bloom.KnownWorker{}, nil
	case err != nil:
		return bloom.KnownWorker{}, err
	}
	return w.KnownWorker, nil
}

func (t *tx) putWorker(w *bloom.KnownWorker) error {
	_, err := t.c.Exec(t.ctx, `INSERT INTO workers AS w (id, node_id, url, status, claude_cli, max_concurrency, labels, last_heartbeat, ip_addrs, obs_count,
			db_sha, registered_at, agent_version, os_info, install_method, draining, instance_id, instance_seen, removed,
			followed_drain, followed_order, posted_at, told_order)
		VALUES ($1, $2, $3, $4, $5, $6, $7::text::jsonb, $8, $9::text::jsonb, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)
		ON CONFLICT (id) DO UPDATE SET node_id = excluded.node_id, url = excluded.url, status = excluded.status, claude_cli = excluded.claude_cli,
			max_concurrency = excluded.max_concurrency, labels = excluded.labels, last_heartbeat = excluded.last_heartbeat, ip_addrs = excluded.ip_addrs,
			obs_count = excluded.obs_count, db_sha = excluded.db_sha, registered_at = excluded.registered_at, agent_version = excluded.agent_version,
			os_info = excluded.os_info, install_method = excluded.install_method, draining = excluded.draining, instance_id = excluded.instance_id,
			instance_seen = excluded.instance_seen, removed = excluded.removed,
			followed_drain = excluded.followed_drain, followed_order = excluded.followed_order, posted_at = excluded.posted_at,
			told_order = excluded.told_order`,
		w.ID, w.NodeID, w.URL, w.Status, w.Capabilities.ClaudeCLI, w.Capabilities.MaxConcurrency, schema.ListJSON(w.Capabilities.Labels), w.LastHeartbeat,
		schema.ListJSON(w.IPAddrs), w.ObsCount, w.DBSHA, w.RegisteredAt, w.AgentVersion, w.OSInfo, w.InstallMethod, w.Draining, w.InstanceID, w.InstanceSeen, w.Removed,
		w.Followed.Drain, w.Followed.Number, w.PostedAt, w.Told)
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
	t.auditWorker(bloom.RemoveWorker(w.KnownWorker), actor)
	return nil
}

// DrainWorker orders a worker to take no more work, or lifts the order.
func (s *Store) DrainWorker(ctx context.Context, id string, drain bool, actor string) (bloom.Worker, error) {
	return separately(ctx, s, func(*want) {}, func(t *tx) (bloom.Worker, error) {
		w, err := t.present(id)
		if err != nil {
			return bloom.Worker{}, err
		}
		c := bloom.DrainWorker(w.KnownWorker, drain)
		if c.Action == "" {
			return w.Worker, nil
		}
		if _, err := t.c.Exec(t.ctx, `UPDATE workers SET draining = $1 WHERE id = $2`, drain, id); err != nil {
			return bloom.Worker{}, err
		}
		t.auditWorker(c, actor)
		return c.Worker.Worker, nil
	})
}

// FollowDrain carries out an order of the control plane's that is news.
func (s *Store) FollowDrain(ctx context.Context, id string, o bloom.DrainOrder, actor string) (bloom.Worker, error) {
	return separately(ctx, s, func(*want) {}, func(t *tx) (bloom.Worker, error) {
		w, err := t.present(id)
		if err != nil {
			return bloom.Worker{}, err
		}
		c, ok := bloom.FollowDrain(w.KnownWorker, o)
		if !ok {
			return w.Worker, nil
		}
		if _, err := t.c.Exec(t.ctx, `UPDATE workers SET draining = $1, followed_drain = $2, followed_order = $3, told_order = $4 WHERE id = $5`,
			c.Worker.Draining, c.Worker.Followed.Drain, c.Worker.Followed.Number, c.Worker.Told, id); err != nil {
			return bloom.Worker{}, err
		}
		if c.Action != "" {
			t.auditWorker(c, actor)
		}
		return c.Worker.Worker, nil
	})
}

// FollowedDrains are the control plane's orders that were carried out last.
func (s *Store) FollowedDrains(ctx context.Context) (map[string]bloom.DrainOrder, error) {
	return read(ctx, s, func(c reader) (map[string]bloom.DrainOrder, error) {
		all, err := collect(ctx, c, scanWorker, `SELECT `+workerColumns+`, 0 FROM workers w WHERE NOT w.removed AND (w.followed_drain OR w.followed_order <> 0)`)
		orders := make(map[string]bloom.DrainOrder, len(all))
		for _, w := range all {
			orders[w.ID] = w.Followed
		}
		return orders, err
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
			names = append(names, w.ID)
			t.auditWorker(bloom.SilenceWorker(w.KnownWorker, longer), "runtime")
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
