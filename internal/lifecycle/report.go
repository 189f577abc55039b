package lifecycle

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// This file has the rules by which the control plane's reports are merged with stored workers.

// SyncWorker processes a report of the control plane. was is the stored worker of that name. A
// removed worker stays removed until it registers there again. A report that changes only the last
// contact is not audited. now is in Unix milliseconds.
func SyncWorker(was KnownWorker, r contract.WorkerReport, now int64) WorkerChange {
	if r.Name == "" || utf8.RuneCountInString(r.Name) > contract.MaxWorkerName || was.Removed && r.PostedAt <= was.PostedAt {
		return WorkerChange{Worker: was}
	}
	if was.ID == "" || was.Removed {
		is := newWorker(r.Name, now).postedAt(r.PostedAt)
		is.Worker = reported(is.Worker, r, false, now)
		return WorkerChange{Worker: is, Created: true, Action: audit.ActionWorkerRegistered, Detail: "Reported by the control plane"}
	}
	c := WorkerChange{Worker: was.postedAt(r.PostedAt)}
	c.Worker.Worker = reported(was.Worker, r, was.InstanceID != "" && recent(was.InstanceSeen, now), now)
	switch status := c.Worker.Status; {
	case alike(was.Worker, c.Worker.Worker):
		c.Contact = LastContact(c.Worker.Worker)-LastContact(was.Worker) >= ContactInterval.Milliseconds() || c.Worker.PostedAt != was.PostedAt
	case status == was.Status:
		c.Action, c.Detail = audit.ActionWorkerUpdated, "Updated by the control plane"
	case status == bloom.WorkerOnline:
		c.Action, c.Detail = audit.ActionWorkerOnline, "Reported online"
	case status == bloom.WorkerOffline:
		c.Action, c.Detail = audit.ActionWorkerOffline, "Reported offline"
	default:
		c.Action, c.Detail = audit.ActionWorkerUpdated, "Reported "+string(status)
	}
	return c
}

// reported returns the worker with the control plane's report. A worker that communicates with the
// runtime directly (own) takes precedence: its capabilities are its own, and it is not offline
// because others lost contact. One that is reported online but has had no contact for longer than
// OfflineAfter is offline, as in MarkSilent.
func reported(w bloom.Worker, r contract.WorkerReport, own bool, now int64) bloom.Worker {
	w.URL = cmp.Or(r.URL, w.URL)
	w.AgentVersion = cmp.Or(r.AgentVersion, w.AgentVersion)
	w.OSInfo = cmp.Or(r.OSInfo, w.OSInfo)
	w.InstallMethod = cmp.Or(r.InstallMethod, w.InstallMethod)
	w.DBSHA = cmp.Or(r.DBSHA, w.DBSHA)
	w.ObsCount = cmp.Or(r.ObsCount, w.ObsCount)
	if len(r.IPAddrs) > 0 {
		w.IPAddrs = ownList(r.IPAddrs)
	}
	if r.Capabilities != nil && !own {
		w.Capabilities = sane(*r.Capabilities)
	}
	seen := min(r.LastSeen, now) // another machine's clock may run ahead
	if seen == 0 && r.Status != bloom.WorkerOffline {
		seen = now // registered once, without heartbeats
	}
	if seen > 0 && (w.LastHeartbeat == nil || seen > *w.LastHeartbeat || *w.LastHeartbeat > now) { // the store's clock may have been ahead, too
		w.LastHeartbeat = &seen
	}
	status := cmp.Or(r.Status, w.Status)
	switch {
	case own && (status == bloom.WorkerOffline || status == bloom.WorkerUnknown):
		status = w.Status
	case status != bloom.WorkerOffline && !recent(LastContact(w), now):
		status = bloom.WorkerOffline
	}
	w.Status = status
	return w
}

// recent reports whether a contact is at most OfflineAfter ago; both times are in Unix
// milliseconds.
func recent(at, now int64) bool { return Silence(at, now) <= bloom.OfflineAfter.Milliseconds() }

// Silence returns how long ago a contact was, in milliseconds. One in the future was under a clock
// that was ahead; it must not count as recent until then.
func Silence(at, now int64) int64 { return max(now-at, at-now) }

// LastContact returns the worker's last contact from any side, or its registration.
func LastContact(w bloom.Worker) int64 {
	if w.LastHeartbeat == nil {
		return w.RegisteredAt
	}
	return *w.LastHeartbeat
}

// alike reports whether two states of a worker differ at most in the last contact, as far as a
// report can change them.
func alike(w, b bloom.Worker) bool {
	return w.URL == b.URL && w.Status == b.Status && w.AgentVersion == b.AgentVersion && w.OSInfo == b.OSInfo &&
		w.InstallMethod == b.InstallMethod && w.DBSHA == b.DBSHA && w.ObsCount == b.ObsCount && slices.Equal(w.IPAddrs, b.IPAddrs) &&
		w.Capabilities.ClaudeCLI == b.Capabilities.ClaudeCLI && w.Capabilities.MaxConcurrency == b.Capabilities.MaxConcurrency &&
		slices.Equal(w.Capabilities.Labels, b.Capabilities.Labels)
}

// sane returns the capabilities within their limits, with a copy of the labels.
func sane(c bloom.Capabilities) bloom.Capabilities {
	c.MaxConcurrency = min(max(1, c.MaxConcurrency), bloom.MaxConcurrency)
	c.Labels = ownList(c.Labels)
	return c
}

// ownList returns a copy, never nil.
func ownList(list []string) []string { return append([]string{}, list...) }
