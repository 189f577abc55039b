package lifecycle

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
)

// This file is the rules by which what the control plane says of a worker is
// merged with what is known of it; stores only read and write.

// SyncWorker takes a report of the control plane in: was is what is known under
// its name. A worker that was removed stays removed until it is posted anew. What changes nothing but the
// last contact is no news. now is in Unix milliseconds.
func SyncWorker(was KnownWorker, r bloom.WorkerReport, now int64) WorkerChange {
	if r.Name == "" || utf8.RuneCountInString(r.Name) > bloom.MaxWorkerName || was.Removed && r.PostedAt <= was.PostedAt {
		return WorkerChange{Worker: was}
	}
	if was.ID == "" || was.Removed {
		is := newWorker(r.Name, now).postedAt(r.PostedAt)
		is.Worker = reported(is.Worker, r, false, now)
		return WorkerChange{Worker: is, Created: true, Action: bloom.ActionWorkerRegistered, Detail: "Reported by the control plane"}
	}
	c := WorkerChange{Worker: was.postedAt(r.PostedAt)}
	c.Worker.Worker = reported(was.Worker, r, was.InstanceID != "" && recent(was.InstanceSeen, now), now)
	switch status := c.Worker.Status; {
	case alike(was.Worker, c.Worker.Worker):
		c.Contact = LastContact(c.Worker.Worker)-LastContact(was.Worker) >= ContactEvery.Milliseconds() || c.Worker.PostedAt != was.PostedAt
	case status == was.Status:
		c.Action, c.Detail = bloom.ActionWorkerUpdated, "Updated by the control plane"
	case status == bloom.WorkerOnline:
		c.Action, c.Detail = bloom.ActionWorkerOnline, "Reported online"
	case status == bloom.WorkerOffline:
		c.Action, c.Detail = bloom.ActionWorkerOffline, "Reported offline"
	default:
		c.Action, c.Detail = bloom.ActionWorkerUpdated, "Reported "+string(status)
	}
	return c
}

// reported is the worker with what the control plane says of it. A worker that
// speaks with the runtime itself (own) is believed before those who speak of it:
// what it can do it says itself, and it is not offline because others lost sight
// of it. One that is said to be there but was heard of by nobody for longer than
// OfflineAfter is offline, as MarkSilent has it.
func reported(w bloom.Worker, r bloom.WorkerReport, own bool, now int64) bloom.Worker {
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
		seen = now // posted once and kept as it was posted
	}
	if seen > 0 && (w.LastHeartbeat == nil || seen > *w.LastHeartbeat) {
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

// recent reports whether a contact at a time is no longer ago than OfflineAfter;
// both are in Unix milliseconds.
func recent(at, now int64) bool { return now-at <= bloom.OfflineAfter.Milliseconds() }

// LastContact is when the worker was last heard of from any side, or registered.
func LastContact(w bloom.Worker) int64 {
	if w.LastHeartbeat == nil {
		return w.RegisteredAt
	}
	return *w.LastHeartbeat
}

// alike reports whether two states of a worker differ in nothing that a report
// can change but the last contact.
func alike(w, b bloom.Worker) bool {
	return w.URL == b.URL && w.Status == b.Status && w.AgentVersion == b.AgentVersion && w.OSInfo == b.OSInfo &&
		w.InstallMethod == b.InstallMethod && w.DBSHA == b.DBSHA && w.ObsCount == b.ObsCount && slices.Equal(w.IPAddrs, b.IPAddrs) &&
		w.Capabilities.ClaudeCLI == b.Capabilities.ClaudeCLI && w.Capabilities.MaxConcurrency == b.Capabilities.MaxConcurrency &&
		slices.Equal(w.Capabilities.Labels, b.Capabilities.Labels)
}

// sane is the capabilities within their limits, and a list of labels that is its own.
func sane(c bloom.Capabilities) bloom.Capabilities {
	c.MaxConcurrency = min(max(1, c.MaxConcurrency), bloom.MaxConcurrency)
	c.Labels = ownList(c.Labels)
	return c
}

// ownList is a copy, never nil.
func ownList(list []string) []string { return append([]string{}, list...) }
