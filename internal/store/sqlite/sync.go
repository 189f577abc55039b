package sqlite

import (
	"context"

	"github.com/bloom-runtime/bloom"
)

// SyncWorkers upserts what the control plane reports.
func (s *Store) SyncWorkers(ctx context.Context, reports []bloom.WorkerReport) (int, error) {
	return write(ctx, s, func(t *tx) (changed int, err error) {
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

// sync takes one report in. What changes nothing but the last contact is
// neither counted nor audited.
func (t *tx) sync(r bloom.WorkerReport) (bool, error) {
	if r.Name == "" {
		return false, nil
	}
	was, err := t.known(bloom.CleanText(r.Name))
	switch {
	case isNotFound(err):
		was, _, err = t.orNew(r.Name)
		if err != nil {
			return false, err
		}
		w := t.reported(was, r)
		if err := t.putWorker(w); err != nil {
			return false, err
		}
		return true, t.auditWorker(w.Worker, bloom.ActionWorkerRegistered, "membridge", "Reported by the control plane")
	case err != nil:
		return false, err
	case was.removed:
		return false, nil
	}
	return t.syncKnown(was, t.reported(was, r))
}

func (t *tx) syncKnown(was, is stored) (bool, error) {
	if was.Alike(is.Worker) {
		if is.LastContact()-was.LastContact() < contactEvery {
			return false, nil
		}
		t.mem.keepWorker(is)
		return false, t.set(`UPDATE workers SET last_heartbeat = ? WHERE id = ?`, is.LastHeartbeat, is.ID)
	}
	if err := t.putWorker(is); err != nil {
		return false, err
	}
	switch {
	case was.Status == is.Status:
		return true, t.auditWorker(is.Worker, bloom.ActionWorkerUpdated, "membridge", "Updated by the control plane")
	case is.Status == bloom.WorkerOnline:
		return true, t.auditWorker(is.Worker, bloom.ActionWorkerOnline, "membridge", "Reported online")
	case is.Status == bloom.WorkerOffline:
		return true, t.auditWorker(is.Worker, bloom.ActionWorkerOffline, "membridge", "Reported offline")
	}
	return true, t.auditWorker(is.Worker, bloom.ActionWorkerUpdated, "membridge", "Reported "+string(is.Status))
}

// reported is a worker with what the control plane says of it.
func (t *tx) reported(w stored, r bloom.WorkerReport) stored {
	own := w.instanceID != "" && bloom.Recent(w.instanceSeen, t.now)
	w.Worker = w.Reported(r, own, t.now)
	return w
}
