package postgres

import (
	"github.com/bloom-runtime/bloom"
)

// sync takes one report in. What changes nothing but the last contact is
// neither counted nor audited.
func (t *tx) sync(r bloom.WorkerReport) (bool, error) {
	if r.Name == "" {
		return false, nil
	}
	was, err := t.known(bloom.CleanText(r.Name))
	switch {
	case isNotFound(err):
		if was, _, err = t.orNew(r.Name); err != nil {
			return false, err
		}
		w := t.reported(was, r)
		if err := t.putWorker(w); err != nil {
			return false, err
		}
		t.auditWorker(w.Worker, bloom.ActionWorkerRegistered, "membridge", "Reported by the control plane")
		return true, nil
	case err != nil:
		return false, err
	case was.removed:
		return false, nil
	}
	return t.syncKnown(was, t.reported(was, r))
}

func (t *tx) syncKnown(was, is *stored) (bool, error) {
	if was.Alike(is.Worker) {
		if is.LastContact()-was.LastContact() < contactEvery {
			return false, nil
		}
		_, err := t.c.Exec(t.ctx, `UPDATE workers SET last_heartbeat = $1 WHERE id = $2`, is.LastHeartbeat, is.ID)
		return false, err
	}
	if err := t.putWorker(is); err != nil {
		return false, err
	}
	action, detail := bloom.ActionWorkerUpdated, "Updated by the control plane"
	if was.Status != is.Status {
		detail = "Reported " + string(is.Status)
		switch is.Status { //nolint:exhaustive // the others have no action of their own
		case bloom.WorkerOnline:
			action = bloom.ActionWorkerOnline
		case bloom.WorkerOffline:
			action = bloom.ActionWorkerOffline
		}
	}
	t.auditWorker(is.Worker, action, "membridge", detail)
	return true, nil
}

// reported is a worker with what the control plane says of it.
func (t *tx) reported(was *stored, r bloom.WorkerReport) *stored {
	is := *was
	own := was.instanceID != "" && bloom.Recent(was.instanceSeen, t.now)
	is.Worker = was.Reported(r, own, t.now)
	return &is
}
