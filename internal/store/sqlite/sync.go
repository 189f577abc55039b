package sqlite

import (
	"cmp"
	"context"
	"slices"

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
	if alike(was.Worker, is.Worker) {
		if lastContact(is.Worker)-lastContact(was.Worker) < contactEvery {
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

// reported is a worker with what the control plane says of it. A worker that
// speaks with the runtime itself is believed before those who speak of it: what
// it can do it says itself, and it is not offline because others lost sight of
// it. One that is said to be there but was heard of by nobody for too long is
// offline, as MarkSilent has it.
func (t *tx) reported(w stored, r bloom.WorkerReport) stored {
	w.URL = cmp.Or(bloom.CleanText(r.URL), w.URL)
	w.AgentVersion = cmp.Or(bloom.CleanText(r.AgentVersion), w.AgentVersion)
	w.OSInfo = cmp.Or(bloom.CleanText(r.OSInfo), w.OSInfo)
	w.InstallMethod = cmp.Or(bloom.CleanText(r.InstallMethod), w.InstallMethod)
	w.DBSHA = cmp.Or(bloom.CleanText(r.DBSHA), w.DBSHA)
	w.ObsCount = cmp.Or(r.ObsCount, w.ObsCount)
	if len(r.IPAddrs) > 0 {
		w.IPAddrs = parseList(listJSON(r.IPAddrs))
	}
	fresh := func(at int64) bool { return t.now-at <= bloom.OfflineAfter.Milliseconds() }
	own := w.instanceID != "" && fresh(w.instanceSeen)
	if r.Capabilities != nil && !own {
		w.Capabilities = sane(*r.Capabilities)
	}
	seen := min(r.LastSeen, t.now) // another machine's clock may run ahead
	if seen == 0 && r.Status != bloom.WorkerOffline {
		seen = t.now // posted once and kept as it was posted
	}
	if seen > 0 && (w.LastHeartbeat == nil || seen > *w.LastHeartbeat) {
		w.LastHeartbeat = &seen
	}
	status := cmp.Or(r.Status, w.Status)
	switch {
	case own && (status == bloom.WorkerOffline || status == bloom.WorkerUnknown):
		status = w.Status
	case status != bloom.WorkerOffline && !fresh(lastContact(w.Worker)):
		status = bloom.WorkerOffline
	}
	w.Status = status
	return w
}

func alike(a, b bloom.Worker) bool {
	return a.URL == b.URL && a.Status == b.Status && a.AgentVersion == b.AgentVersion && a.OSInfo == b.OSInfo &&
		a.InstallMethod == b.InstallMethod && a.DBSHA == b.DBSHA && a.ObsCount == b.ObsCount && slices.Equal(a.IPAddrs, b.IPAddrs) &&
		a.Capabilities.ClaudeCLI == b.Capabilities.ClaudeCLI && a.Capabilities.MaxConcurrency == b.Capabilities.MaxConcurrency &&
		slices.Equal(a.Capabilities.Labels, b.Capabilities.Labels)
}
