package postgres

import (
	"cmp"
	"slices"

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
	if alike(was.Worker, is.Worker) {
		if lastContact(is.Worker)-lastContact(was.Worker) < contactEvery {
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

// reported is a worker with what the control plane says of it. A worker that
// speaks with the runtime itself is believed before those who speak of it: what
// it can do it says itself, and it is not offline because others lost sight of
// it. One that is said to be there but was heard of by nobody for too long is
// offline, as MarkSilent has it.
func (t *tx) reported(was *stored, r bloom.WorkerReport) *stored {
	is := *was
	w := &is
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
