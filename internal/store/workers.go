package store

import (
	"context"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var (
	workers = table("workers", "id text, node_id text, url text, status text, claude_cli bool, max_concurrency int, labels jsonb, last_heartbeat bigint, "+
		"ip_addrs jsonb, obs_count bigint, db_sha text, registered_at bigint, agent_version text, os_info text, install_method text, draining bool, instance_id text, "+
		"instance_seen bigint, removed bool, control_draining bool, posted_at bigint, agents jsonb, pause jsonb, setup jsonb", "",
		func(v []any, id string, w *lifecycle.KnownWorker) []any {
			return append(v, id, w.NodeID, w.URL, string(w.Status), w.Capabilities.ClaudeCLI, w.Capabilities.MaxConcurrency, schema.ListJSON(w.Capabilities.Labels),
				w.LastHeartbeat, schema.ListJSON(w.IPAddrs), int64(w.ObsCount), w.DBSHA, w.RegisteredAt, w.AgentVersion, w.OSInfo, w.InstallMethod, w.RuntimeDrain,
				w.InstanceID, w.InstanceSeen, w.Removed, w.ControlDrain, w.PostedAt, schema.ListJSON(w.Agents), string(storable.MustJSON(w.Pause)),
				string(storable.MustJSON(w.Setup)))
		}, nil)
	online = derived[struct{}, []bloom.Worker]() // all workers that are online
)

const workerColumns = `w.id, w.node_id, w.url, w.status, w.claude_cli, w.max_concurrency, w.labels, w.last_heartbeat, w.ip_addrs,
	w.obs_count, w.db_sha, w.registered_at, w.agent_version, w.os_info, w.install_method, w.draining OR w.control_draining,
	w.instance_id, w.instance_seen, w.removed, w.draining, w.control_draining, w.posted_at, w.agents, w.pause, w.setup`

// heldColumn follows workerColumns: the number of the worker's active leases.
const heldColumn = `, (SELECT count(*) FROM leases l WHERE l.worker_id = w.id AND l.status = 'active')`

func workerFields(w *lifecycle.KnownWorker) []any {
	return []any{
		&w.ID, &w.NodeID, &w.URL, &w.Status, &w.Capabilities.ClaudeCLI, &w.Capabilities.MaxConcurrency, (*List)(&w.Capabilities.Labels),
		&w.LastHeartbeat, (*List)(&w.IPAddrs), &w.ObsCount, &w.DBSHA, &w.RegisteredAt, &w.AgentVersion, &w.OSInfo, &w.InstallMethod, &w.Draining,
		&w.InstanceID, &w.InstanceSeen, &w.Removed, &w.RuntimeDrain, &w.ControlDrain, &w.PostedAt, (*List)(&w.Agents), &object{&w.Pause}, &object{&w.Setup}, &w.ActiveLeases,
	}
}

// candidateColumns are what the choice of a worker needs, because there may be thousands.
const candidateColumns = `w.id, w.status, w.claude_cli, w.max_concurrency, w.labels, w.last_heartbeat, w.draining OR w.control_draining,
	w.pause`

func candidateFields(w *bloom.Worker) []any {
	return []any{&w.ID, &w.Status, &w.Capabilities.ClaudeCLI, &w.Capabilities.MaxConcurrency, (*List)(&w.Capabilities.Labels), &w.LastHeartbeat, &w.Draining,
		&object{&w.Pause}, &w.ActiveLeases}
}

// loadWorkers reads workers with the number of their leases; loadHeld counts the leases
// that it reads.
func loadWorkers(l *Load, v *Values[string, *lifecycle.KnownWorker]) {
	l.Pick(scan(workerFields, func(w *lifecycle.KnownWorker) { v.Set(w.ID, w) }), `SELECT `+workerColumns+`, 0 FROM workers w`, "w.id", "text", v.Keys(), l.lock("w"))
	holding := held.of(l.Rows)
	counted := slices.DeleteFunc(v.Keys(), func(name string) bool { return holding.Want[name] > 0 })
	l.Pick(scan(keyedFields[int], func(n *keyed[int]) { l.count(n.key, n.value) }), `SELECT l.worker_id, count(*) FROM leases l`, "l.worker_id", "text",
		counted, " AND l.status = 'active' GROUP BY l.worker_id")
}

// count sets how many leases a locked worker holds.
func (l *Load) count(worker string, n int) {
	if w, _ := workers.of(l.Rows).Get(worker); w != nil {
		w.ActiveLeases = n
	}
}

func loadOnline(l *Load, v *Values[struct{}, []bloom.Worker]) {
	l.Each(scan(candidateFields, func(w *bloom.Worker) {
		all, _ := v.Get(one)
		v.Set(one, append(all, *w))
	}), `SELECT `+candidateColumns+heldColumn+` FROM `+l.present()+` AND w.status = 'online'`)
}

// orRemoved returns a locked worker, even if it was removed.
func (u *Unit) orRemoved(id string) (*lifecycle.KnownWorker, error) {
	w, err := workers.get(u, id)
	switch {
	case err != nil:
		return nil, err
	case w == nil:
		return nil, bloom.ErrWorkerNotFound
	}
	if was, _ := workers.of(u.rows).Get(id); was != nil {
		w.ActiveLeases = was.ActiveLeases + u.load[id]
	}
	return w, nil
}

func (u *Unit) worker(id string) (*lifecycle.KnownWorker, error) {
	w, err := u.orRemoved(id)
	if err == nil && w.Removed {
		err = bloom.ErrWorkerNotFound
	}
	return w, err
}

// orUnknown returns a worker, even if it was removed, or the zero value if there is
// none.
func (u *Unit) orUnknown(name string) (lifecycle.KnownWorker, error) {
	w, err := u.orRemoved(name)
	switch {
	case isNotFound(err):
		return lifecycle.KnownWorker{}, nil
	case err != nil:
		return lifecycle.KnownWorker{}, err
	}
	return *w, nil
}

// RegisterWorker creates or updates a worker. It reports whether it was created.
func (s *Store) RegisterWorker(ctx context.Context, spec bloom.WorkerSpec, actor string) (bloom.Worker, bool, error) {
	type answer struct {
		worker  bloom.Worker
		created bool
	}
	name := spec.Name
	a, err := do(ctx, s, func(r *Rows) { workers.want(r, name) }, func(u *Unit) (a answer, err error) {
		was, err := u.orUnknown(name)
		if err != nil {
			return a, err
		}
		c, err := lifecycle.RegisterWorker(was, spec, u.Now)
		if err != nil {
			return a, err
		}
		workers.put(u, c.Worker.ID, &c.Worker)
		u.auditWorker(c, actor)
		return answer{c.Worker.Worker, c.Created}, nil
	})
	return a.worker, a.created, err
}

// SyncWorkers applies the reports of the control plane, each in its own operation.
func (s *Store) SyncWorkers(ctx context.Context, reports []contract.WorkerReport) (changed int, err error) {
	changes := make(chan bool, len(reports))
	names, byName := make([]string, 0, len(reports)), map[string][]contract.WorkerReport{}
	for _, r := range reports {
		name := r.Name
		if _, seen := byName[name]; !seen {
			names = append(names, name)
		}
		byName[name] = append(byName[name], r)
	}
	errs := make(chan error, len(reports))
	s.forEach(names, func(name string) error {
		for _, r := range byName[name] {
			isNew, err := s.syncWorker(ctx, name, r)
			if err != nil {
				errs <- err
				return err
			}
			changes <- isNew
		}
		return nil
	}, notSynced)
	close(changes)
	for isNew := range changes {
		if isNew {
			changed++
		}
	}
	select {
	case err = <-errs:
	default:
	}
	return changed, err
}

// syncWorker applies one report. It reports whether that changed the worker, apart
// from the time of contact.
func (s *Store) syncWorker(ctx context.Context, name string, r contract.WorkerReport) (bool, error) {
	return do(ctx, s, func(r *Rows) { workers.want(r, name) }, func(u *Unit) (bool, error) {
		was, err := u.orUnknown(name)
		if err != nil {
			return false, err
		}
		c := lifecycle.SyncWorker(was, r, u.Now)
		if c.Contact || c.Action != "" {
			workers.put(u, c.Worker.ID, &c.Worker)
		}
		u.auditWorker(c, "membridge")
		return c.Action != "", nil
	})
}

// onWorker applies a rule to a worker that exists. If the rule returns false, nothing
// is written.
func (s *Store) onWorker(ctx context.Context, id, actor string, rule func(w lifecycle.KnownWorker, now int64) (c lifecycle.WorkerChange, ok bool)) (bloom.Worker, error) {
	return do(ctx, s, func(r *Rows) { workers.want(r, id) }, func(u *Unit) (bloom.Worker, error) {
		w, err := u.worker(id)
		if err != nil {
			return bloom.Worker{}, err
		}
		c, ok := rule(*w, u.Now)
		if !ok {
			return w.Worker, nil
		}
		workers.put(u, c.Worker.ID, &c.Worker)
		u.auditWorker(c, actor)
		return c.Worker.Worker, nil
	})
}

// DrainWorker drains or undrains a worker at the runtime.
func (s *Store) DrainWorker(ctx context.Context, id string, drain bool, actor string) (bloom.Worker, error) {
	return s.drain(ctx, id, actor, func(w lifecycle.KnownWorker) lifecycle.WorkerChange { return lifecycle.DrainWorker(w, drain) })
}

// FollowDrain records whether the control plane drains a worker.
func (s *Store) FollowDrain(ctx context.Context, id string, drain bool, actor string) (bloom.Worker, error) {
	return s.drain(ctx, id, actor, func(w lifecycle.KnownWorker) lifecycle.WorkerChange { return lifecycle.FollowDrain(w, drain) })
}

func (s *Store) drain(ctx context.Context, id, actor string, rule func(lifecycle.KnownWorker) lifecycle.WorkerChange) (bloom.Worker, error) {
	return s.onWorker(ctx, id, actor, func(w lifecycle.KnownWorker, _ int64) (lifecycle.WorkerChange, bool) {
		c := rule(w)
		return c, c.Action != ""
	})
}

// RemoveWorker removes a worker and releases its leases.
func (s *Store) RemoveWorker(ctx context.Context, id, actor string) error {
	reads := func(r *Rows) {
		workers.want(r, id)
		held.wantUpTo(r, id, lockHeld)
	}
	_, err := do(ctx, s, reads, func(u *Unit) (struct{}, error) { return struct{}{}, u.remove(id, actor) })
	return err
}

func (u *Unit) remove(id, actor string) error {
	w, err := u.worker(id)
	if err != nil {
		return err
	}
	held, err := u.held(id)
	if err != nil {
		return err
	}
	removal := lifecycle.RemoveWorker(*w)
	// First, so that no released task is reserved for this worker.
	workers.put(u, id, &removal.Worker)
	for _, h := range held {
		t, l, err := u.named(h.Lease.TaskID, h.Lease.ID)
		if err != nil {
			return err
		}
		tr, err := lifecycle.Release(t.TaskState, *l, "the worker was removed", 0, u.Now)
		if err != nil {
			return err
		}
		if err := u.apply(t, l, tr, actor); err != nil {
			return err
		}
	}
	u.auditWorker(removal, actor)
	return nil
}

// Worker reads a worker and the leases it holds.
func (s *Store) Worker(ctx context.Context, id string) (worker bloom.Worker, leases []bloom.Lease, err error) {
	err = s.db.Run(ctx, func(c Conn) error {
		w, err := One(ctx, c, workerFields, bloom.ErrWorkerNotFound, `SELECT `+workerColumns+`, 0 FROM workers w WHERE w.id = $1 AND NOT w.removed`, id)
		if err != nil {
			return err
		}
		leases, err = Collect(ctx, c, leaseFields, `SELECT `+leaseColumns+` FROM leases l WHERE l.worker_id = $1 AND l.status = 'active' ORDER BY l.seq DESC`, id)
		worker, worker.ActiveLeases = w.Worker, len(leases)
		return err
	})
	return worker, leases, err
}

// Workers lists all workers by name.
func (s *Store) Workers(ctx context.Context) ([]bloom.Worker, error) {
	known, err := all(ctx, s, workerFields, `SELECT `+workerColumns+heldColumn+` FROM `+s.sql.present()+` ORDER BY w.id`)
	return publicWorkers(known), err
}

// WorkersAfter lists the next n workers by name.
func (s *Store) WorkersAfter(ctx context.Context, name string, n int) ([]bloom.Worker, error) {
	known, err := all(ctx, s, workerFields, `SELECT `+workerColumns+heldColumn+` FROM `+s.sql.present()+` AND w.id > $1 ORDER BY w.id LIMIT $2`, name, n)
	return publicWorkers(known), err
}

func publicWorkers(known []lifecycle.KnownWorker) []bloom.Worker {
	workers := make([]bloom.Worker, len(known))
	for i := range known {
		workers[i] = known[i].Worker
		workers[i].Contact = known[i].InstanceSeen
	}
	return workers
}

// ControlDrained names the workers that the control plane drains.
func (s *Store) ControlDrained(ctx context.Context) ([]string, error) {
	return all(ctx, s, Self[string], `SELECT w.id FROM `+s.sql.present()+` AND w.control_draining ORDER BY w.id`)
}
